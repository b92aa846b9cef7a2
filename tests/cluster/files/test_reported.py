"""Publicly reported mistakes, as a release gate would meet them: the release that is rendered decides what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.checks import Status
from tests.cluster.files.on_paper import judged
from tests.cluster.files.reported import CASES, written

POLICIES = [c for c in CASES if "policy" in c["given"]]
REFUSED = [c for c in POLICIES if "error" in (c["expect"].get("load"), c["expect"].get("build"))]
ACCEPTED = [c for c in POLICIES if c not in REFUSED]
BY_RELEASE = [c for c in POLICIES if set(c["expect"].get("by_version", {}).values()) == {"ok", "error"}]
WARNED = [(c, w) for c in POLICIES for w in c["expect"].get("warn", [])]
#: Refused by POL-2 before POL-3 gets to see them: no v1alpha2 policy with profiles.
NO_POLICY = {"A05.1", "A05.2"}
#: A priority class is a matter of the cluster, which such files do not hold.
NEEDS_CLUSTER = {"A15.3"}


def ids(case: dict[str, Any]) -> str:
    return str(case["id"])


@pytest.mark.parametrize("case", [c for c in REFUSED if c["id"] not in NO_POLICY | NEEDS_CLUSTER], ids=ids)
def test_what_the_release_refuses_fails_with_its_words(case: dict[str, Any], tmp_path: Path) -> None:
    found = judged(written(case, tmp_path))
    assert found.outcomes["POL-3"].status is Status.FAILED, found.reason("POL-3")
    assert case["expect"]["error_contains"] in found.reason("POL-3")


@pytest.mark.parametrize("case", [c for c in ACCEPTED if c["id"] not in NO_POLICY], ids=ids)
def test_what_the_release_accepts_passes(case: dict[str, Any], tmp_path: Path) -> None:
    found = judged(written(case, tmp_path))
    assert found.outcomes["POL-3"].status is Status.PASSED, found.reason("POL-3")
    assert found.cluster.remarks == []


@pytest.mark.parametrize("case", [c for c in POLICIES if c["id"] in NO_POLICY], ids=ids)
def test_what_is_no_policy_of_this_dialect_fails_before_that(case: dict[str, Any], tmp_path: Path) -> None:
    found = judged(written(case, tmp_path))
    assert found.outcomes["POL-2"].status is Status.FAILED
    assert found.outcomes["POL-3"].status is Status.INCONCLUSIVE


@pytest.mark.parametrize("case", BY_RELEASE, ids=ids)
def test_the_rendered_release_decides(case: dict[str, Any], tmp_path: Path) -> None:
    before = next(k for k, v in case["expect"]["by_version"].items() if v == "error")
    boundary = re.fullmatch(r"<0\.(\d+)", before)
    assert boundary is not None
    first = int(boundary[1])
    older = judged(written(case, tmp_path / "older", release=f"0.{first - 1}.0"))
    assert older.outcomes["POL-3"].status is Status.FAILED, older.reason("POL-3")
    assert case["expect"].get("error_contains_before", "") in older.reason("POL-3")
    newer = judged(written(case, tmp_path / "newer", release=f"0.{first}.0"))
    assert "unknown field" not in newer.reason("POL-3")


@pytest.mark.parametrize("listed", [False, True], ids=["not recorded", "all recorded"])
def test_a_missing_priority_class_is_told_only_where_all_are_recorded(listed: bool, tmp_path: Path) -> None:
    case = next(c for c in CASES if c["id"] == "A15.3")
    folder = written(case, tmp_path / "dump")
    if listed:
        (folder / "cluster").mkdir()
        classes = {"apiVersion": "v1", "kind": "List", "items": []}
        (folder / "cluster" / "priorityclasses.yaml").write_text(yaml.safe_dump(classes))
    found = judged(folder)
    assert found.outcomes["POL-3"].status is (Status.FAILED if listed else Status.INCONCLUSIVE), found.reason("POL-3")


@pytest.mark.parametrize("case", [c for c in POLICIES if c["given"].get("gates") == {"EvictionsInBackground": False}], ids=ids)
def test_a_gate_that_is_off_fails(case: dict[str, Any], tmp_path: Path) -> None:
    assert "REN-2" in judged(written(case, tmp_path)).failed


def test_protected_local_volumes_and_dry_runs_are_found(tmp_path: Path) -> None:
    by_id = {c["id"]: c for c in CASES}
    assert "POL-4" in judged(written(by_id["A11.1"], tmp_path / "a")).failed
    assert "POL-4" not in judged(written(by_id["A11.2"], tmp_path / "b")).failed


#: What a warning is about -> the word that the check's message must have. That an annotation binds nobody is told as evidence,
#: as long as no launcher carries it.
_SAID = re.compile(
    r"ignorePvcPods|nodeFit|pluginConfig\b(?!\[)|LowNodeUtilization|HighNodeUtilization|namespaces at top level"
    r"|priorityThreshold|numberOfNodes"
)


@pytest.mark.parametrize(
    ("case", "warning"),
    [pytest.param(c, w, id=f"{c['id']}-{i}") for i, (c, w) in enumerate(WARNED) if c["id"] not in NO_POLICY and _SAID.search(w)],
)
def test_what_the_original_drops_silently_is_pointed_out(case: dict[str, Any], warning: str, tmp_path: Path) -> None:
    word = _SAID.search(warning)
    assert word is not None
    found = judged(written(case, tmp_path))
    assert found.outcomes["POL-9"].status is Status.FAILED
    assert word[0].removesuffix(" at top level") in found.reason("POL-9")


OPERATED = [c for c in CASES if "kubeDescheduler" in c["given"]]


def operated(case: dict[str, Any], folder: Path) -> Path:
    """The case's KubeDescheduler beside a KubeVirt, as read from a cluster."""
    descheduler = {
        "apiVersion": "operator.openshift.io/v1",
        "kind": "KubeDescheduler",
        "metadata": {"name": "cluster", "namespace": "openshift-kube-descheduler-operator", "uid": "1"},
        "spec": case["given"]["kubeDescheduler"],
    }
    kubevirt = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "openshift-cnv", "uid": "2"},
        "spec": {},
        "status": {"phase": "Deployed", "observedKubeVirtVersion": "v1.8.4"},
    }
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all([descheduler, kubevirt]), encoding="utf-8")
    return folder


@pytest.mark.parametrize("case", [c for c in OPERATED if "correct_for_kubevirt" in c["expect"]], ids=ids)
def test_an_operators_object_is_right_for_vms_or_not(case: dict[str, Any], tmp_path: Path) -> None:
    found = judged(operated(case, tmp_path))
    right = case["expect"]["correct_for_kubevirt"]
    assert found.outcomes["CRD-3"].status is (Status.PASSED if right else Status.FAILED), found.reason("CRD-3")


def test_an_operators_object_left_predictive_is_pointed_out(tmp_path: Path) -> None:
    case = next(c for c in OPERATED if c["expect"].get("mode") == "Predictive")
    found = judged(operated(case, tmp_path))
    assert "Predictive" in found.reason("CRD-3")


def test_rights_that_a_release_needs_and_the_role_lacks_are_named(tmp_path: Path) -> None:
    case = next(c for c in CASES if c["id"] == "A23.1")
    folder = written({"given": {"policy": CASES[0]["given"]["policy"]}}, tmp_path, release="0.35.0")
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "d"},
        "rules": case["given"]["rules"],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "d"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "d"},
        "subjects": [{"kind": "ServiceAccount", "name": "descheduler", "namespace": "descheduler"}],
    }
    (folder / "rbac.yaml").write_text(yaml.safe_dump_all([role, binding]), encoding="utf-8")
    reason = judged(folder).reason("REN-6")
    for lacking in case["expect"]["missing"]:
        resource = lacking.split()[0].rpartition("/")[2]
        assert resource in reason, lacking
    assert "pods/eviction" not in reason
