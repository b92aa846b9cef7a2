"""The process against an API server: recorded scenarios, cycle by cycle, from the command line to the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.engine import klog
from fixtures.engine.reference.parity import changes, scenario
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


def load(name: str) -> dict[str, Any]:
    return yaml.CSafeLoader((GOLDEN / f"{name}.yaml").read_text(encoding="utf-8")).get_single_data()


def populate(api: FakeApi, trace: dict[str, Any]) -> dict[str, Any]:
    """Create the scenario's objects; returns its VMIs, which the webhook looks at and marks."""
    entries = scenario.entries(trace.get("pods"))
    for one in scenario.entries(trace["nodes"]):
        api.put("/api/v1/nodes", scenario.node(one))
    for space in scenario.namespaces(trace, entries):
        space["metadata"]["labels"].setdefault("kubernetes.io/metadata.name", space["metadata"]["name"])
        api.put("/api/v1/namespaces", space)
    for one in trace.get("priorityClasses") or []:
        api.put("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": one["name"]}, "value": one["value"]})
    budgets = [scenario.budget(one) for one in trace.get("pdbs") or []]
    claims = [scenario.claim(one) for one in trace.get("pvcs") or []]
    for collection, objects in (("/api/v1/persistentvolumeclaims", claims), ("/apis/policy/v1/poddisruptionbudgets", budgets)):
        api.objects.setdefault(collection, {})
        for obj in objects:
            api.put(collection, obj)
    vmis: dict[str, Any] = {}
    for entry in entries:
        vm, ns = entry.get("vm"), entry.get("ns", "default")
        if vm and not vm.get("target") and not vm.get("noVmi"):
            vmis[f"{ns}/{vm['name']}"] = scenario.vmi_facts(entry)
        age = entry.get("age", "1h")
        made = api.create(scenario.pod(entry), None if age == "none" else scenario.seconds(age))
        made["metadata"]["uid"] = f"uid-{ns}-{made['metadata']['name']}"
        if entry.get("terminating"):
            made["metadata"]["deletionTimestamp"] = api.stamp(api.clock)
    empty = [b for b in budgets if b["status"]["disruptionsAllowed"] == 0]

    def webhook(pod: dict[str, Any], eviction: dict[str, Any]) -> tuple[int, str] | None:
        code, message = scenario.webhook(pod, vmis, trace.get("webhookOverrides"))
        if code:
            return code, f'admission webhook "{scenario.HOOK}" denied the request: {message}'
        for budget in empty:
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


def replay(api: FakeApi, trace: dict[str, Any]) -> list[dict[str, Any]]:
    """The cycles' reports with their requests."""
    vmis = populate(api, trace)
    out: list[dict[str, Any]] = []
    running: Iterator[float] | None = None
    log = bytearray()
    for cycle in trace["cycles"]:
        for change in cycle.get("changes", []):
            changes.apply(api, vmis, change)
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
def test_a_recorded_scenario_comes_out_as_recorded(name: str, api: FakeApi) -> None:
    trace = load(name)
    expected = [{k: v for k, v in c.items() if k not in ("log", "metrics", "evictionObject")} for c in trace["expected"]["cycles"]]
    found = replay(api, trace)
    if trace.get("mode") == "deployment":
        expected[-1].pop("exitCode")  # stopped by the recorder
    for cycle in expected:
        cycle["posts"] = [{k: v for k, v in p.items() if k in ("pod", "code", "message")} for p in cycle["posts"]]
    assert found == expected
