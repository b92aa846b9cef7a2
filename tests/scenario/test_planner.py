"""The planner: exactly the planned moves happen, roles cannot swap, or it refuses with numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.scenario.planner import HEADROOM, RESOURCES, CannotPlan, Draft, Load, draft, finish

MI = 2**20
VM = {"cpu": 100, "memory": 780 * MI, "pods": 1}


def worker(name: str, *, cpu: int = 600, memory: int = 700, pods: int = 5, cores: int = 4000, size: int = 7910) -> Load:
    return Load(name, name, {"cpu": cores, "memory": size * MI, "pods": 110}, {"cpu": cpu, "memory": memory * MI, "pods": pods})


def with_vms(load: Load, vms: int, size: dict[str, int] = VM) -> Load:
    return Load(load.node, load.hostname, load.allocatable, {r: load.used[r] + vms * size[r] for r in RESOURCES})


def moves_until_quiet(
    source: Load, target: Load, thresholds: dict[str, float], targets: dict[str, float], size: dict[str, int]
) -> int:
    """One move a cycle while source is over and target is under; -1 when roles swap."""
    moved = 0
    while moved < 50:
        loads = (with_vms(source, -moved, size), with_vms(target, moved, size))
        over = [any(w.percent(r) > targets[r] for r in RESOURCES) for w in loads]
        under = [all(w.percent(r) <= thresholds[r] for r in RESOURCES) for w in loads]
        if over[1] or under[0]:
            return -1
        if not (over[0] and under[1]):
            return moved
        moved += 1
    return moved


def test_two_equal_workers_get_two_moves_with_four_vms() -> None:
    found = draft([worker("a"), worker("b")], VM)
    assert (found.source.node, found.vms, found.moves) == ("a", 4, 2)


def test_the_fuller_worker_is_the_source() -> None:
    found = draft([worker("a"), worker("b", memory=1500)], VM)
    assert found.source.node == "b"


def test_full_workers_are_refused_with_numbers() -> None:
    with pytest.raises(CannotPlan, match=r"memory of a would be .* %, wanted at most 90 %"):
        draft([worker("a", memory=7000), worker("b", memory=7000)], VM)


def test_one_worker_is_refused() -> None:
    with pytest.raises(CannotPlan, match="exactly two workers, got 1"):
        draft([worker("a")], VM)


def test_loads_too_close_are_refused_when_finishing() -> None:
    with pytest.raises(CannotPlan, match="a is not far enough above b"):
        finish(worker("a"), worker("b"), VM, 1)


def test_thresholds_cover_the_same_resources_in_the_procedures_order() -> None:
    found = draft([worker("a"), worker("b")], VM)
    plan = finish(with_vms(found.source, found.vms), found.target, VM, found.moves)
    assert list(plan.thresholds) == list(plan.targets) == ["cpu", "memory", "pods"]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Load], dict[str, int]]:
    loads = []
    for name in "ab":
        cores, memory, pods = (
            draw(st.integers(2, 128)) * 1000,
            draw(st.integers(4, 1024)) * 1024,
            draw(st.sampled_from([60, 110, 250])),
        )
        used = {
            "cpu": draw(st.integers(0, cores)),
            "memory": draw(st.integers(0, memory)) * MI,
            "pods": draw(st.integers(0, pods)),
        }
        loads.append(Load(name, name, {"cpu": cores, "memory": memory * MI, "pods": pods}, used))
    size = {"cpu": draw(st.integers(50, 2000)), "memory": draw(st.integers(256, 4096)) * MI, "pods": 1}
    return loads, size


@given(clusters())
def test_a_plan_means_exactly_the_planned_moves(drawn: tuple[list[Load], dict[str, int]]) -> None:
    loads, size = drawn
    try:
        found: Draft = draft(loads, size)
        source = with_vms(found.source, found.vms, size)
        plan = finish(source, found.target, size, found.moves)
    except CannotPlan:
        return
    assert all(0 <= plan.thresholds[r] <= plan.targets[r] <= 100 for r in RESOURCES)
    assert all(source.percent(r) <= 100 * (1 - HEADROOM) for r in RESOURCES)
    assert moves_until_quiet(source, found.target, plan.thresholds, plan.targets, size) == plan.moves
