"""Simulation, explanations, known defects."""

from __future__ import annotations

import copy
from typing import Any

from fixtures.engine.reference.evictor import Answer
from fixtures.engine.reference.explain import explain
from fixtures.engine.reference.known_defects import DEFECTS, defects_of, met_by
from fixtures.engine.reference.policy import load
from fixtures.engine.reference.simulate import simulate
from fixtures.engine.reference.snapshot import Snapshot
from tests.engine.reference.building import NOW, node, pod, policy, text, vm

Obj = dict[str, Any]


UNFIT = "pod does not fit on any other node because of nodeSelector(s), Taint(s), or nodes marked as unschedulable"


def snapshot(*pods: Obj, nodes: list[Obj] | None = None) -> Snapshot:
    return Snapshot(nodes or [node("n1"), node("n2")], list(pods), now=NOW)


def test_planned_moves_happen_one_by_one_and_then_it_settles() -> None:
    bounded = policy(top="maxNoOfPodsToEvictTotal: 1", args="{thresholds: {cpu: 35}, targetThresholds: {cpu: 45}}")
    before = snapshot(*[vm(f"vm{i}", priority=i) for i in range(1, 7)], vm("vm9", on="n2"))
    kept = copy.deepcopy(before)
    found = simulate(before, bounded)
    assert [(m.pod, m.source, m.target, m.background) for m in found.moves] == [
        ("default/vm1", "n1", "n2", True),
        ("default/vm2", "n1", "n2", True),
    ]
    assert [len(c.moves) for c in found.cycles] == [1, 1, 0]
    assert found.settled
    assert not found.swapped
    assert found.returned == []
    assert found.cycles[-1].early_exit == "All nodes are under target utilization, nothing to do here"
    assert before == kept


def test_swapping_roles_are_seen() -> None:
    narrow = policy(args="{thresholds: {cpu: 50}, targetThresholds: {cpu: 55}}", top="maxNoOfPodsToEvictTotal: 1")
    found = simulate(snapshot(vm("big", cpu="6"), vm("small", cpu="1", priority=5)), narrow, cycles=6)
    assert found.swapped
    assert found.returned == ["default/big"]
    assert not found.settled
    assert len(found.cycles) == 6


def test_deleted_pods_may_come_back_where_they_were() -> None:
    pods = [pod(f"p{i}", nodeSelector={"kubernetes.io/hostname": "n1"}, cpu="2") for i in range(4)]
    found = simulate(snapshot(*pods), policy(), cycles=3)
    assert {m.target for m in found.moves} == {"n1"}
    assert len(found.cycles) == 3
    assert not found.settled


def test_a_migration_without_a_target_stops_the_simulation() -> None:
    pods = [vm(f"vm{i}", nodeSelector={"kubernetes.io/hostname": "n1"}, cpu="2") for i in range(4)]
    found = simulate(snapshot(*pods), policy())
    assert {m.target for m in found.moves} == {None}
    assert len(found.cycles) == 1
    assert not found.settled


def test_refusals_move_nobody() -> None:
    pods = [vm(f"vm{i}", cpu="2") for i in range(4)]
    found = simulate(snapshot(*pods), policy(), answers=lambda pod: Answer(429, "no"))
    assert found.moves == []
    assert found.settled


def test_evictions_under_way_end_first() -> None:
    pods = [vm("vm0", in_progress=True, priority=0, cpu="2"), *[vm(f"vm{i}", priority=i, cpu="1") for i in range(1, 4)]]
    found = simulate(snapshot(*pods), policy())
    assert [m.pod for m in found.cycles[0].moves] == ["default/vm0"]
    assert all("eviction-in-progress" not in str(p["metadata"]) for p in found.after.pods)


def test_targets_are_chosen_as_a_scheduler_would() -> None:
    nodes = [
        node("n1"),
        node("n2"),
        node("n3"),
        node("n4", unschedulable=True),
        node("n5", taints=[{"key": "a", "effect": "NoSchedule"}]),
    ]
    pods = [*[vm(f"vm{i}", priority=i) for i in range(7)], pod("x", on="n2", cpu="1")]
    first = simulate(snapshot(*pods, nodes=nodes), policy(), cycles=1)
    assert [m.target for m in first.moves] == ["n3", "n2"]
    wish = {
        "weight": 1,
        "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]},
    }
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    pods[0] = vm("vm0", priority=0, affinity=affinity)
    assert simulate(snapshot(*pods, nodes=nodes), policy(), cycles=1).moves[0].target == "n2"


# ---------------------------------------------------------------- explain
def test_every_reason_is_named() -> None:
    evictor = "{nodeFit: true, labelSelector: {matchLabels: {app: x}}, namespaceLabelSelector: {matchLabels: {vm: 'yes'}}}"
    args = "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}, evictableNamespaces: {exclude: [default]}}"
    full = policy(evictor=evictor, args=args)
    stuck = vm("stuck", owners=[], nodeSelector={"kubernetes.io/hostname": "n1"}, cpu="6")
    found = {e.pod: e for e in explain(snapshot(stuck, pod("idle", on="n2")), full)}
    kinds = [(r.kind, r.text) for r in found["default/stuck"].reasons]
    assert kinds == [
        ("filter", "pod does not have any ownerRefs"),
        ("filter", "pod has local storage and is protected against eviction"),
        ("filter", "pod labels do not match the labelSelector filter in the policy parameter"),
        ("scope", "namespace default is excluded by evictableNamespaces"),
        (
            "pre-eviction",
            "pod does not fit on any other node because of nodeSelector(s), Taint(s), or nodes marked as unschedulable",
        ),
    ]
    assert ("node", "node n2 is not overutilized") in [(r.kind, r.text) for r in found["default/idle"].reasons]


def test_a_candidate_has_no_reasons() -> None:
    found = {e.pod: e for e in explain(snapshot(*[vm(f"v{i}") for i in range(7)]), policy())}
    assert all(e.candidate for e in found.values())


def test_overrides_and_hidden_reasons_are_told() -> None:
    forced = vm("forced", cpu="7")
    forced["metadata"]["annotations"]["descheduler.alpha.kubernetes.io/evict"] = "false"
    shy = vm("shy")
    shy["metadata"]["annotations"]["descheduler.alpha.kubernetes.io/prefer-no-eviction"] = ""
    found = {e.pod: e for e in explain(snapshot(forced, shy), policy(evictor="{noEvictionPolicy: Mandatory}"))}
    assert found["default/forced"].candidate
    assert "overrides" in found["default/forced"].note
    assert "noEvictionPolicy is Mandatory" in found["default/shy"].reasons[0].text


def test_a_profile_that_cannot_be_built_explains_itself() -> None:
    broken = load(text(plugins="filter: {enabled: [Nope]}"), version="0.34.0")
    (found,) = explain(snapshot(vm("a")), broken)
    assert found.reasons[0].kind == "policy"
    assert "non-existing plugins: map[Nope:{}]" in found.reasons[0].text


# ---------------------------------------------------------------- known defects
def test_ids_are_unique_and_sourced() -> None:
    assert len({d.id for d in DEFECTS}) == len(DEFECTS)
    assert all(d.source and d.what and d.first <= d.last for d in DEFECTS)


def test_a_policy_is_told_what_it_meets() -> None:
    evictor = "{podProtections: {extraEnabled: [PodsWithoutPDB]}, nodeFit: true, minReplicas: 2}"
    found = policy(evictor=evictor, top="nodeSelector: a=b")
    assert {d.id for d in met_by(found)} == {
        "pods-without-pdb",
        "node-fit-ignores-node-selector",
        "min-replicas-counts-launchers",
    }
    old = policy("0.34.0", evictor=evictor)
    assert "pods-without-pdb" not in {d.id for d in met_by(old)}


def test_defects_by_release() -> None:
    assert "namespace-selector-expressions" in {d.id for d in defects_of("0.35.1")}
    assert "namespace-selector-expressions" not in {d.id for d in defects_of("0.36.0")}
    assert met_by(policy()) == []
