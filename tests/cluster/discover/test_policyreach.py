"""Reach, limits and room of a policy; that thresholds are too close is what the simulation of the engine shows as well."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.cluster.discover import policyreach
from fixtures.engine.reference.policy import Policy, load
from fixtures.engine.reference.simulate import simulate
from fixtures.engine.reference.snapshot import Snapshot
from fixtures.kube.resources import Obj

HEAD = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"


def policy(evictor: str = "{}", lnu: str = "{thresholds: {cpu: 30}, targetThresholds: {cpu: 60}}", extra: str = "") -> Policy:
    profile = (
        f"profiles:\n- name: p\n  pluginConfig:\n  - {{name: DefaultEvictor, args: {evictor}}}\n"
        f"  - {{name: LowNodeUtilization, args: {lnu}}}\n  plugins:\n    balance: {{enabled: [LowNodeUtilization]}}\n"
    )
    return load(HEAD + extra + profile, version="0.36.0")


def launcher(name: str = "vm", ns: str = "a", *, claim: bool = True, cpu: str = "1", node: str = "n1", **labels: str) -> Obj:
    volumes: list[Obj] = [{"name": "private", "emptyDir": {}}]
    volumes += [{"name": "root", "persistentVolumeClaim": {"claimName": name}}] if claim else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": ns,
            "uid": name,
            "labels": labels,
            "annotations": {"descheduler.alpha.kubernetes.io/request-evict-only": ""},
            "ownerReferences": [{"kind": "VirtualMachineInstance", "name": name, "uid": f"vmi-{name}", "controller": True}],
        },
        "spec": {"nodeName": node, "volumes": volumes, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running"},
    }


def node(name: str, cpu: str = "10") -> Obj:
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}, "status": {"allocatable": amounts}}


def reached(found: Policy, *pods: Obj, namespaces: Any = ()) -> list[policyreach.Reached]:
    return policyreach.reach(found, pods, namespaces=list(namespaces), claims=[])


OPEN = "{podProtections: {defaultDisabled: [PodsWithLocalStorage]}}"
SHIPPED = "{podProtections: {defaultDisabled: [PodsWithLocalStorage], extraEnabled: [PodsWithPVC]}}"


@pytest.mark.parametrize(
    ("evictor", "claim", "movable"),
    [("{}", False, False), (OPEN, True, True), (SHIPPED, True, False), (SHIPPED, False, True),
     ("{evictLocalStoragePods: true}", True, True), ("{evictLocalStoragePods: true, ignorePvcPods: true}", True, False)],
)  # fmt: skip
def test_protections_decide_in_either_dialect(evictor: str, claim: bool, movable: bool) -> None:
    (one,) = reached(policy(evictor), launcher(claim=claim))
    assert one.selected
    assert one.movable is movable


def test_labels_and_namespaces_select_whatever_the_protections_say() -> None:
    found = policy(
        "{labelSelector: {matchLabels: {app: x}}}",
        "{thresholds: {cpu: 30}, targetThresholds: {cpu: 60}, evictableNamespaces: {exclude: [b]}}",
    )
    pods = launcher("in", app="x"), launcher("label"), launcher("space", "b", app="x")
    assert [r.selected for r in reached(found, *pods)] == [True, False, False]


def test_a_namespace_label_selects() -> None:
    found = policy("{namespaceLabelSelector: {matchLabels: {move: 'yes'}}}")
    spaces = [{"metadata": {"name": "a", "labels": {"move": "yes"}}}, {"metadata": {"name": "b"}}]
    assert [k.key for k in policyreach.also_read(found)] == ["namespaces"]
    pods = launcher("one"), launcher("two", "b")
    assert [r.selected for r in reached(found, *pods, namespaces=spaces)] == [True, False]


def test_nothing_else_is_read_for_an_ordinary_policy() -> None:
    assert policyreach.also_read(policy(SHIPPED)) == []


@pytest.mark.parametrize(
    ("extra", "lnu", "wanted"),
    [
        ("", "", {}),
        ("maxNoOfPodsToEvictTotal: 0\n", "", {"maxNoOfPodsToEvictTotal": 0}),
        (
            "maxNoOfPodsToEvictPerNode: 1\n",
            ", evictionLimits: {node: 2}",
            {"maxNoOfPodsToEvictPerNode": 1, "evictionLimits.node": 2},
        ),
    ],
)
def test_limits(extra: str, lnu: str, wanted: dict[str, int]) -> None:
    args = f"{{thresholds: {{cpu: 30}}, targetThresholds: {{cpu: 60}}{lnu}}}"
    assert policyreach.bounds(policy(lnu=args, extra=extra)) == wanted


@pytest.mark.parametrize(
    ("limits", "migrations", "told"),
    [
        ({"maxNoOfPodsToEvictTotal": 5, "maxNoOfPodsToEvictPerNode": 2}, {}, 0),
        ({"maxNoOfPodsToEvictTotal": 6, "maxNoOfPodsToEvictPerNode": 3}, {}, 2),
        ({"evictionLimits.node": 2}, {"parallelOutboundMigrationsPerNode": 1}, 1),
        ({"maxNoOfPodsToEvictPerNamespace": 6}, {"parallelMigrationsPerCluster": 10}, 0),
        ({"maxNoOfPodsToEvictTotal": 6}, {"parallelMigrationsPerCluster": "many"}, 1),
    ],
)
def test_limits_are_held_against_kubevirts_own(limits: dict[str, int], migrations: Obj, told: int) -> None:
    assert len(policyreach.beyond(limits, migrations)) == told


@pytest.mark.parametrize(
    ("evictor", "scoped"),
    [("{}", False), ("{labelSelector: {}}", False), ("{labelSelector: {matchLabels: {a: b}}}", True),
     ("{namespaceLabelSelector: {matchLabels: {a: b}}}", True)],
)  # fmt: skip
def test_scope(evictor: str, scoped: bool) -> None:
    assert policyreach.scoped(policy(evictor).profiles[0]) is scoped


@pytest.mark.parametrize(("low", "high", "cpu"), [(30, 60, "2"), (30, 60, "4"), (40, 45, "1"), (20, 50, "3"), (20, 50, "3500m")])
def test_what_is_called_too_close_is_where_the_engine_lets_nodes_swap_roles(low: int, high: int, cpu: str) -> None:
    found = policy(OPEN, f"{{thresholds: {{cpu: {low}}}, targetThresholds: {{cpu: {high}}}}}")
    vm = launcher(cpu=cpu)
    nodes = [node("n1"), node("n2")]
    fixed = {"n1": 100 * (high + 1) - int(1000 * float(cpu.rstrip("m")) / (1000 if cpu.endswith("m") else 1)), "n2": 100 * low}
    filler = [launcher(f"fill-{n}", cpu=f"{max(milli, 0)}m", node=n) for n, milli in fixed.items()]
    for pod in filler:
        pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "x"
    foreseen = simulate(Snapshot(nodes=nodes, pods=[vm, *filler]), found, cycles=4)
    assert foreseen.moves
    tight = policyreach.tight(found, reached(found, vm), nodes)
    assert bool(tight) is foreseen.swapped, (tight, foreseen.cycles)


def test_room_is_counted_in_deviations_too_and_not_for_measured_usage() -> None:
    deviation = policy(OPEN, "{useDeviationThresholds: true, thresholds: {cpu: 10}, targetThresholds: {cpu: 15}}")
    assert [gap for _, gap in policyreach.gaps(deviation)] == [{"cpu": 25.0}]
    assert policyreach.measures({"metricsUtilization": {"source": "KubernetesMetrics"}})
    assert not policyreach.measures({})
