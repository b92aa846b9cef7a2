"""The process against an API server: recorded scenarios, cycle by cycle, from the command line to the log."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from fixtures.engine import klog
from fixtures.engine.reference.process import run
from tests.engine.fakeapi import FakeApi

GOLDEN = Path(__file__).parents[2] / "golden"
POLICY = "/policy-dir/policy.yaml"
START = 1_800_000_000.0

#: One of each kind: the whole set is replayed elsewhere.
CHOSEN = [
    "bg-gate-on",
    "bg-gate-off",
    "bg-next-cycle-cronjob",
    "bg-deployment-cache",
    "bg-failed-migration-keeps-annotation",
    "bg-pdb-429-is-an-error",
    "bounded-vm-policy",
    "ev-extra-pvc",
    "ev-namespace-label-selector",
    "ev-priority-threshold-name",
    "exit-single-node",
    "grace-period",
    "hnu-basic",
    "policy-missing-file",
    "policy-no-thresholds",
    "policy-priority-name-missing",
    "policy-unknown-feature-gate",
    "two-profiles-default-and-vm",
]


@pytest.fixture(scope="module")
def scenario() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_scenario", GOLDEN / "scenario.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["golden_scenario"] = module
    spec.loader.exec_module(module)
    return module


def load(name: str) -> dict[str, Any]:
    return yaml.CSafeLoader((GOLDEN / f"{name}.yaml").read_text(encoding="utf-8")).get_single_data()


def populate(api: FakeApi, trace: dict[str, Any], scenario: ModuleType) -> dict[str, Any]:
    """Create the scenario's objects; returns its VMIs, which the webhook looks at and marks."""
    found = scenario.expand(trace)
    for node in found["nodes"]:
        api.put("/api/v1/nodes", node)
    for name, labels in found["namespaces"].items():
        api.put("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}})
    for one in found["priorityClasses"]:
        api.put("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": one["name"]}, "value": one["value"]})
    for collection, key in (("/api/v1/persistentvolumeclaims", "pvcs"), ("/apis/policy/v1/poddisruptionbudgets", "pdbs")):
        api.objects.setdefault(collection, {})
        for one in found[key]:
            api.put(collection, one)
    for pod in found["pods"]:
        age = pod.get("age", "1h")
        made = api.create(scenario.pod_manifest(pod), None if age == "none" else scenario.seconds(age))
        made["metadata"]["uid"] = f"uid-{made['metadata'].get('namespace')}-{made['metadata']['name']}"
        if pod.get("terminating"):
            made["metadata"]["deletionTimestamp"] = api.stamp(api.clock)
    vmis: dict[str, Any] = found["vmis"]
    budgets = [b for b in found["pdbs"] if b["disruptionsAllowed"] == 0]

    def webhook(pod: dict[str, Any], eviction: dict[str, Any]) -> tuple[int, str] | None:
        allowed, message, marked, code = scenario.decide(pod, vmis, eviction, trace.get("webhookOverrides"))
        if marked:
            scenario.mark(vmis, marked, pod, eviction)
        if not allowed:
            return code, f'admission webhook "{scenario.HOOK}" denied the request: {message}'
        for budget in budgets:
            wanted = budget["spec"]["selector"]["matchLabels"]
            if wanted.items() <= (pod["metadata"].get("labels") or {}).items():
                return 429, "Cannot evict pod as it would violate the pod's disruption budget."
        return None

    api.webhook = webhook
    return vmis


def process(api: FakeApi, trace: dict[str, Any], log: bytearray, version: str = "0.36.0") -> Iterator[float]:
    gates = [f"--feature-gates=EvictionsInBackground={'true' if trace.get('gate') else 'false'}"]
    interval = [f"--descheduling-interval={trace['intervalSeconds']}s"] if trace.get("mode") == "deployment" else []
    return run(
        [f"--policy-config-file={POLICY}", *gates, *interval, "--v=4", f"--emulate-version={version}", *trace.get("extraArgs", [])],
        env={},
        files={} if trace.get("noPolicyFile") else {POLICY: trace["policy"]},
        kubeconfig=api.kubeconfig(),
        write=log.extend,
        now=lambda: api.clock,
    )


def replay(api: FakeApi, trace: dict[str, Any], scenario: ModuleType) -> list[dict[str, Any]]:
    """The cycles' reports with their requests."""
    vmis = populate(api, trace, scenario)
    out: list[dict[str, Any]] = []
    running: Iterator[float] | None = None
    log = bytearray()
    for cycle in trace["cycles"]:
        for change in cycle.get("changes", []):
            scenario.apply_change(api, vmis, change)
        log.clear()
        done = len(api.evictions)
        if running is None or trace.get("mode") != "deployment":
            running = process(api, trace, log)
        code = None
        try:
            api.clock += next(running)
        except StopIteration as end:
            code = end.value
        found = klog.report(log.decode().replace(POLICY, "PATH"), exit_code=code)
        assert [line for line in found.unparsed if "version" not in line] == []
        posts = [{"pod": p, "code": c, **({"message": m} if m else {})} for p, c, m, _ in api.evictions[done:]]
        out.append(found.to_dict() | {"posts": posts})
    return out


@pytest.mark.parametrize("name", CHOSEN)
def test_a_recorded_scenario_comes_out_as_recorded(name: str, api: FakeApi, scenario: ModuleType) -> None:
    trace = load(name)
    expected = [{k: v for k, v in c.items() if k not in ("log", "metrics", "evictionObject")} for c in trace["expected"]["cycles"]]
    found = replay(api, trace, scenario)
    if trace.get("mode") == "deployment":
        expected[-1].pop("exitCode")  # stopped by the recorder
    for cycle in expected:
        cycle["posts"] = [{k: v for k, v in p.items() if k in ("pod", "code", "message")} for p in cycle["posts"]]
    assert found == expected
