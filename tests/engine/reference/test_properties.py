"""Whatever the cluster: limits hold, protections hold, nothing outside the scope is asked for, nothing is asked for twice."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.engine.klog import render, reports
from fixtures.engine.reference.policy import load
from tests.engine.reference.building import NOW, Bench, background, node, pod, text, vm

Obj = dict[str, Any]

QUANTITIES = st.sampled_from(["0", "100m", "250m", "1", "1500m", "2"])
MEMORY = st.sampled_from(["0", "64Mi", "512Mi", "1Gi", "2G", "1e8"])
LIMITS = st.none() | st.integers(0, 4)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Obj], list[Obj]]:
    count = draw(st.integers(2, 5))
    nodes = [
        node(
            f"n{i}",
            draw(st.sampled_from(["4", "8"])),
            "8Gi",
            draw(st.sampled_from(["5", "110"])),
            unschedulable=draw(st.booleans()),
        )
        for i in range(count)
    ]
    for found in nodes:
        found["metadata"]["labels"]["pool"] = draw(st.sampled_from(["a", "a", "b"]))
    pods = []
    for i in range(draw(st.integers(0, 24))):
        make = draw(st.sampled_from([vm, vm, pod]))
        more: Obj = {
            "on": f"n{draw(st.integers(0, count - 1)) if i % 3 else 0}",
            "ns": draw(st.sampled_from(["default", "apps", "vms"])),
        }
        if draw(st.integers(0, 9)) == 0:
            more["owners"] = [{"kind": "DaemonSet", "uid": "d"}]
        if draw(st.integers(0, 9)) == 0:
            more["priority"] = 2_000_000_000
        if make is vm and draw(st.integers(0, 4)) == 0:
            more["in_progress"] = True
        more["labels"] = {"app": draw(st.sampled_from(["x", "y"]))}
        pods.append(make(f"p{i}", cpu=draw(QUANTITIES), memory=draw(MEMORY), **more))
    return nodes, pods


@st.composite
def policies(draw: st.DrawFn) -> tuple[str, dict[str, int | None]]:
    limits = {k: draw(LIMITS) for k in ("Total", "PerNode", "PerNamespace")}
    low, high = sorted((draw(st.integers(0, 60)), draw(st.integers(20, 100))))
    deviation = draw(st.sampled_from(["", ", useDeviationThresholds: true"]))
    per_node = draw(st.none() | st.integers(0, 3))
    more = deviation + ("" if per_node is None else f", evictionLimits: {{node: {per_node}}}")
    args = f"{{thresholds: {{cpu: {low}, pods: {low}}}, targetThresholds: {{cpu: {high}, pods: {high}}}{more}, "
    args += "evictableNamespaces: {exclude: [apps]}}"
    evictor = "{nodeFit: %s, labelSelector: {matchLabels: {app: x}}, podProtections: {defaultDisabled: [PodsWithLocalStorage]}}"
    top = "\n".join([f"maxNoOfPodsToEvict{k}: {v}" for k, v in limits.items() if v is not None] + ["nodeSelector: pool=a"])
    return text(evictor=evictor % draw(st.sampled_from(["true", "false"])), args=args, top=top), limits


RUNS = settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@RUNS
@given(clusters(), policies())
def test_limits_hold_over_cycles(cluster: tuple[list[Obj], list[Obj]], drawn: tuple[str, dict[str, int | None]]) -> None:
    nodes, pods = cluster
    document, limits = drawn
    bench = Bench(nodes, pods, load(document), answer=background)
    for _ in range(3):
        report = bench.cycle()
        taken = [p for p in pods if f"{p['metadata']['namespace']}/{p['metadata']['name']}" in report.pods_with("evicted")]
        flying = list(bench.in_flight.entries.values())
        asked_for = [p for p in pods if p["metadata"]["name"] in bench.port.asked]
        for limit, key in ((limits["Total"], lambda x: ""), (limits["PerNode"], _node), (limits["PerNamespace"], _namespace)):
            groups: dict[str, int] = {}
            for one in [*taken, *flying]:
                groups[key(one)] = groups.get(key(one), 0) + 1
            assert limit is None or all(groups[key(one)] <= limit for one in asked_for)


def _node(found: Any) -> str:
    return str(found["spec"]["nodeName"]) if isinstance(found, dict) else str(found.node)


def _namespace(found: Any) -> str:
    return str(found["metadata"]["namespace"]) if isinstance(found, dict) else str(found.namespace)


@RUNS
@given(clusters(), policies())
def test_nothing_outside_the_scope_is_asked_for(
    cluster: tuple[list[Obj], list[Obj]], drawn: tuple[str, dict[str, int | None]]
) -> None:
    nodes, pods = cluster
    bench = Bench(nodes, pods, load(drawn[0]), answer=background)
    bench.cycle()
    pools = {n["metadata"]["name"]: n["metadata"]["labels"]["pool"] for n in nodes}
    by_name = {p["metadata"]["name"]: p for p in pods}
    for name in bench.port.asked:
        found = by_name[name]
        assert found["metadata"]["labels"]["app"] == "x"
        assert found["metadata"]["namespace"] != "apps"
        assert pools[found["spec"]["nodeName"]] == "a"
        assert found["spec"].get("priority") is None
        assert all(r["kind"] != "DaemonSet" for r in found["metadata"]["ownerReferences"])


@RUNS
@given(clusters(), policies())
def test_a_repeated_cycle_asks_for_nothing_new(
    cluster: tuple[list[Obj], list[Obj]], drawn: tuple[str, dict[str, int | None]]
) -> None:
    nodes, pods = cluster
    vms = [p for p in pods if "descheduler.alpha.kubernetes.io/request-evict-only" in (p["metadata"].get("annotations") or {})]
    bench = Bench(nodes, vms, load(drawn[0]), answer=background)
    bench.cycle()
    bench.cycle()
    assert bench.port.asked == []


@RUNS
@given(clusters(), policies(), st.sampled_from(["0.32.2", "0.33.0", "0.34.0", "0.35.1", "0.36.0"]))
def test_the_report_is_what_the_log_says(
    cluster: tuple[list[Obj], list[Obj]], drawn: tuple[str, dict[str, int | None]], version: str
) -> None:
    document = drawn[0]
    if version < "0.34":
        document = document.replace("podProtections: {defaultDisabled: [PodsWithLocalStorage]}", "evictLocalStoragePods: true")
    if version < "0.33":
        document = document.replace("evictionLimits: {node: 0}, ", "")
        for n in range(4):
            document = document.replace(f", evictionLimits: {{node: {n}}}", "")
    bench = Bench(*cluster, load(document, version=version), answer=background)
    report = bench.cycle()
    (parsed,) = reports("".join(render(line, now=NOW, pid=1) for line in bench.lines))
    assert {**parsed.to_dict(), "posts": []} == {**report.to_dict(), "posts": []}
