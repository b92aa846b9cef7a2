"""Rendered manifests: the good ones are conformant, each wrong one fails what its head comment says."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.checks import Level, Status, Word
from fixtures.kube.resources import CONFIGMAPS
from tests.certifying import certify
from tests.cluster.files.on_paper import DATA, Judged, checks, judged

RENDERED = DATA / "rendered"
GOOD = sorted(RENDERED.glob("*/good-*.yaml"))
#: The required checks that fail, by the wrong file; what the real binary did is in each file's head.
WRONG = {
    "wrong-1-gate-missing": {"REN-2"},
    "wrong-2-gate-in-policy": {"REN-2"},
    "wrong-3-eviction-api-group": {"REN-6"},
    "wrong-4-namespace-include": {"POL-3", "POL-7"},
    "wrong-5-no-interval": {"REN-5"},
}


def required_failed(found: Judged) -> set[str]:
    return {i for i in found.failed if found.outcomes[i].level is Level.REQUIRED}


def without_namespace(document: dict[str, Any]) -> dict[str, Any]:
    meta = {k: v for k, v in document["metadata"].items() if k != "namespace"}
    return {**document, "metadata": meta}


@pytest.mark.parametrize("path", GOOD, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_good_manifests_are_conformant(path: Path) -> None:
    found = judged(path)
    assert str(found.verdict) == "conformant (files)", found.verdict.reasons
    assert required_failed(found) == set()
    assert not found.cluster.remarks


def test_there_is_a_file_for_each_expectation() -> None:
    assert {p.stem for p in RENDERED.glob("*/wrong-*.yaml")} == set(WRONG)
    assert len(GOOD) == 3


@pytest.mark.parametrize("path", sorted(RENDERED.glob("*/wrong-*.yaml")), ids=lambda p: p.stem)
def test_wrong_manifests_fail_what_they_are_wrong_in(path: Path) -> None:
    wanted = WRONG[path.stem] & {spec.id for spec, _ in checks()}
    found = judged(path)
    assert required_failed(found) == wanted
    assert (found.verdict.word is Word.NON_CONFORMANT) is bool(wanted)


def test_a_gate_in_the_policy_is_pointed_out() -> None:
    found = judged(RENDERED / "cronjob" / "wrong-2-gate-in-policy.yaml")
    assert "featureGates" in found.reason("POL-9")


def test_checks_about_what_a_chart_does_not_hold_are_not_selected() -> None:
    found = judged(GOOD[0])
    left_out = found.those(Status.NOT_SELECTED)
    assert {"HCO-1", "HCO-2", "HCO-3", "INT-1", "INT-3", "CRD-1", "POL-8"} <= left_out
    assert found.reason("INT-1") == "the files hold nothing of KubeVirt"


@pytest.mark.parametrize(
    ("edit", "status", "said"),
    [
        ({}, Status.PASSED, ""),
        (
            {"maxNoOfPodsToEvictTotal: 1": "maxNoOfPodsToEvictTotal: 3"},
            Status.INCONCLUSIVE,
            "what KubeVirt migrates at once is unknown",
        ),
        (
            {f"    maxNoOfPodsToEvict{k}: 1\n": "" for k in ("Total", "PerNode", "PerNamespace")},
            Status.FAILED,
            "it may move VMs and has no limit",
        ),
        (
            {"            defaultDisabled:\n": "            extraEnabled: [PodsWithPVC]\n            defaultDisabled:\n"},
            Status.NOT_APPLICABLE,
            "no VM is recorded, and every profile protects PodsWithPVC",
        ),
    ],
)
def test_bounds_are_judged_by_the_policy_alone(edit: dict[str, str], status: Status, said: str, tmp_path: Path) -> None:
    text = (RENDERED / "cronjob" / "good-vm-rebalance.yaml").read_text()
    for old, new in edit.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "all.yaml").write_text(text)
    found = judged(tmp_path)
    assert found.outcomes["POL-6"].status is status, found.reason("POL-6")
    assert said in found.reason("POL-6")


def test_a_policy_without_workload_certifies_nothing(tmp_path: Path) -> None:
    kept = [d for d in yaml.safe_load_all(GOOD[0].read_text()) if d["kind"] == "ConfigMap"]
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump_all(kept))
    found = judged(tmp_path)
    assert str(found.verdict) == "unknown (files)"
    (reason,) = found.verdict.reasons
    assert reason.startswith("REN-2 did not run (inconclusive: whether descheduler is installed is unknown: ")


def test_a_workload_without_its_configmap_is_undecided_not_failed(tmp_path: Path) -> None:
    kept = [d for d in yaml.safe_load_all(GOOD[0].read_text()) if d["kind"] != "ConfigMap"]
    (tmp_path / "workload.yaml").write_text(yaml.safe_dump_all(kept))
    found = judged(tmp_path)
    assert found.outcomes["POL-1"].status is Status.INCONCLUSIVE
    assert found.verdict.word is Word.UNKNOWN


@pytest.mark.parametrize("form", ["json-list", "json-documents", "directory", "gz", "utf-16", "no-namespace", "crlf"])
def test_the_same_manifests_in_other_forms_say_the_same(form: str, tmp_path: Path) -> None:
    source = RENDERED / "cronjob" / "wrong-1-gate-missing.yaml"
    documents = list(yaml.safe_load_all(source.read_text()))
    path = tmp_path / f"objects.{'json' if 'json' in form else 'yaml'}"
    match form:
        case "json-list":
            path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
        case "json-documents":
            path.write_text("\n".join(json.dumps(d, indent=4) for d in documents))
        case "directory":
            for i, document in enumerate(documents):
                (tmp_path / f"{i}.yml").write_text(yaml.safe_dump(document))
            path = tmp_path
        case "gz":
            path = tmp_path / "objects.yaml.gz"
            path.write_bytes(gzip.compress(source.read_bytes()))
        case "utf-16":
            path.write_bytes(source.read_text().encode("utf-16"))
        case "no-namespace":
            path.write_text(yaml.safe_dump_all(without_namespace(d) for d in documents))
        case "crlf":
            path.write_bytes(source.read_bytes().replace(b"\n", b"\r\n"))
    assert required_failed(judged(path)) == {"REN-2"}


def test_an_object_without_namespace_goes_where_the_plugin_is_installed(tmp_path: Path) -> None:
    documents = [without_namespace(d) for d in yaml.safe_load_all(GOOD[0].read_text())]
    for binding in (d for d in documents if d["kind"] == "ClusterRoleBinding"):
        binding["subjects"][0]["namespace"] = "rebalance"
    (tmp_path / "m.yaml").write_text(yaml.safe_dump_all(documents))
    found = judged(tmp_path, **{"plugin-namespace": "rebalance"})
    assert found.verdict.word is Word.CONFORMANT
    assert {o["metadata"]["namespace"] for o in found.cluster.list(CONFIGMAPS)} == {"rebalance"}


def test_chart_values_are_judged_as_what_the_chart_makes_of_them(tmp_path: Path) -> None:
    policy = yaml.safe_load(
        (next(d for d in yaml.safe_load_all(GOOD[0].read_text()) if d["kind"] == "ConfigMap"))["data"]["policy.yaml"]
    )
    values = {"kind": "Deployment", "deschedulerPolicy": {"profiles": policy["profiles"]}, "image": {"tag": "v0.36.0"}}
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    found = judged(path)
    assert "REN-2" in found.failed
    assert found.cluster.remarks == [
        "values.yaml: document 1 (line 1): values of the descheduler chart; read as the ConfigMap and Deployment made of them"
    ]
    path.write_text(json.dumps(values | {"cmdOptions": {"v": 4, "feature-gates": "EvictionsInBackground=true"}}))
    assert judged(path).verdict.word is Word.CONFORMANT


def test_an_unrendered_chart_is_told_from_manifests(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    template = (
        'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ include "x" . }}\n{{- if .Values.a }}\ndata: {}\n{{- end }}\n'
    )
    (tmp_path / "templates" / "configmap.yaml").write_text(template)
    shutil.copy(GOOD[0], tmp_path / "good.yaml")
    found = judged(tmp_path)
    assert found.verdict.word is Word.CONFORMANT
    assert any("templates/configmap.yaml" in r and "helm template" in r for r in found.cluster.remarks)


@pytest.mark.slow
def test_a_run_names_scope_and_remarks_on_the_terminal_and_in_the_certificate(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    shutil.copy(GOOD[0], folder)
    (folder / "broken.yaml").write_text("a: [\n")
    found = certify(tmp_path / "results", "--cluster=files", f"--manifests={folder}")
    assert found.status == 0, found.output
    assert "conformant (files)" in found.output
    assert "- broken.yaml: document 1 (line 1): no YAML:" in found.output
    assert found.certificate["verdict"]["text"] == "conformant (files)"
    assert found.outcomes["MIG-1"] == "not-selected"
    assert any("broken.yaml" in f["evidence"] for f in found.certificate["features"])
