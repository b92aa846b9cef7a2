"""vm-manifests/rbac: a run asks for nothing that its roles do not grant, and they grant nothing that no run asks for."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from fixtures import about
from fixtures.report import catalogue
from tests.certifying import ROOT, command
from tests.rbac.auditing import MANIFESTS

pytestmark = pytest.mark.slow

LEVELS = {
    "read-only": ("read-only.yaml",),
    "namespaced": ("read-only.yaml", "namespaced.yaml"),
    "disruptive": ("read-only.yaml", "namespaced.yaml", "disruptive.yaml"),
}
FLAVOURS = ("platform=acp", "platform=upstream")
CASES = [(level, flavour) for level in LEVELS for flavour in FLAVOURS] + [("read-only", "kubedescheduler=served")]
#: Verb and key, and when it is asked for; the embedded cluster's flavours never come to that.
ONLY_ELSEWHERE = {
    ("get", "network-attachment-definitions.k8s.cni.cncf.io"): "a migration network is named",
    ("get", "priorityclasses.scheduling.k8s.io"): "the policy names a PriorityClass as its threshold",
    ("list", "virtualmachines.kubevirt.io"): "a VMI recorded another strategy than the default",
    ("list", "namespaces"): "the policy has a namespaceLabelSelector",
    ("list", "persistentvolumeclaims"): "the policy protects storage classes",
    ("get", "clusterversions.config.openshift.io"): "OpenShift",
    ("get", "settings.harvesterhci.io"): "Harvester",
    ("create", "persistentvolumeclaims"): "--vm-disk=pvc",
    ("list", "storageclasses.storage.k8s.io"): "--vm-disk=pvc",
    ("update", "leases.coordination.k8s.io"): "the lock is taken over from a run that died",
}
Asked = set[tuple[str, str, str, str, str, int, str]]


def certify_as(level: str, flavour: str, folder: Path, *more: str) -> tuple[str, Asked]:
    audit = folder / "audit.json"
    env = {**os.environ, "AUDIT_ROLES": ",".join(LEVELS[level]), "AUDIT_FILE": str(audit)}
    # HCO-7 changes the cluster's own default: never on a live cluster, so no account needs the right
    options = (
        "--deselect=conformance/test_strategy_propagation.py",
        "-p",
        "tests.rbac.auditing",
        f"--allow={level}",
        f"--embedded={flavour}",
        *more,
    )
    done = subprocess.run(
        command(folder / "results", *options), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, env=env
    )
    return done.stdout + done.stderr, {tuple(e) for e in json.loads(audit.read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[str, Asked]]:
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        started = {case: pool.submit(certify_as, *case, tmp_path_factory.mktemp("run")) for case in CASES}
        return {case: done.result() for case, done in started.items()}


def granted(*files: str) -> Iterator[tuple[str, str]]:
    """(verb, key) of every rule, whatever its scope."""
    for file in files:
        for obj in yaml.safe_load_all((MANIFESTS / file).read_text(encoding="utf-8")):
            for rule in obj.get("rules", ()):
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        plain, slash, sub = resource.partition("/")
                        key = f"{plain}.{group}" if group else plain
                        yield from ((verb, f"{key}{slash}{sub}") for verb in rule["verbs"])


@pytest.mark.parametrize(("level", "flavour"), CASES)
def test_a_run_with_these_roles_is_conformant_and_never_refused(
    runs: dict[tuple[str, str], tuple[str, Asked]], level: str, flavour: str
) -> None:
    output, asked = runs[level, flavour]
    refused = {f"{verb} {key} {ns}/{name}" for _, verb, key, ns, name, status, _ in asked if status == 403}
    assert refused == set()
    assert "conformant (simulated)" in output
    assert "non-conformant" not in output


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_is_granted_in_vain(runs: dict[tuple[str, str], tuple[str, Asked]], level: str) -> None:
    mine = [asked for (at, _), (_, asked) in runs.items() if at == level]
    asked = {(verb, key) for entries in mine for server, verb, key, *_ in entries if server == "workload"}
    vain = set(granted(LEVELS[level][-1])) - asked - set(ONLY_ELSEWHERE)
    assert vain == set()


def test_what_is_asked_for_only_elsewhere_is_granted() -> None:
    assert set(ONLY_ELSEWHERE) <= set(granted(*LEVELS["disruptive"]))


def test_the_global_clusters_role_is_what_is_asked_of_it(runs: dict[tuple[str, str], tuple[str, Asked]]) -> None:
    asked = {(verb, key) for server, verb, key, *_ in runs["read-only", "platform=acp"][1] if server == "global"}
    assert asked == set(granted("global-cluster.yaml"))


def test_read_only_roles_only_read() -> None:
    assert {verb for verb, _ in granted("read-only.yaml", "global-cluster.yaml")} == {"get", "list"}


def test_every_request_says_which_check_asks(runs: dict[tuple[str, str], tuple[str, Asked]]) -> None:
    _, asked = runs["read-only", "platform=acp"]
    agents = {agent for server, *_, agent in asked if server == "workload"}
    assert all(agent.startswith(f"vm-rebalance-conformance/{about.version()}") for agent in agents)
    named = {agent.rpartition("(")[2].rstrip(")") for agent in agents if "(" in agent}
    assert {"POL-4", "HCO-2", "HCO-4", "INT-2", "SEC-5"} <= named <= {e.spec.id for e in catalogue.load()}
