"""The bench's policies and its arithmetic, without a cluster."""

from __future__ import annotations

import pytest
import yaml

from fixtures.checks import NoVerdict
from fixtures.engine.reference.policy import load
from fixtures.engine.report import CycleReport
from fixtures.scenario.bench_policies import NO_LIMITS, NOTHING, Percentages, Policies, too_close
from fixtures.scenario.bench_record import BackgroundRecord, Ran, Step
from fixtures.scenario.bench_stage import FEWEST, crowd
from fixtures.scenario.planner import CannotPlan, Draft, Load
from fixtures.scenario.stage import FIRST_GUESS

WIDE = Percentages({"cpu": 20.0, "memory": 20.0, "pods": 20.0}, {"cpu": 50.0, "memory": 50.0, "pods": 50.0})
GIB = 2**30


def policies(*, protections: bool = True) -> Policies:
    return Policies("ns", ("a", "b"), ("app", "x"), protections)


def worker(node: str, memory: float) -> Load:
    return Load(node, node, {"cpu": 8000, "memory": 16 * GIB, "pods": 110}, {"cpu": 800, "memory": int(memory * GIB), "pods": 11})


@pytest.mark.parametrize(("version", "protections"), [("0.36.0", True), ("0.34.0", True), ("0.33.0", False), ("0.32.0", False)])
def test_every_policy_is_one_that_the_release_takes(version: str, protections: bool) -> None:
    made = policies(protections=protections)
    for text in (
        made.bounded(WIDE),
        made.bounded(WIDE, NO_LIMITS, only=["vm-1", "vm-2"], per_run=None if version == "0.32.0" else 1),
        made.bounded(WIDE, NOTHING, excluded=["ns"], avoiding="a"),
        made.shipped(WIDE),
        made.shipped(WIDE, claims_protected=False),
    ):
        assert load(text, version=version).profiles


def test_limits_are_those_asked_for_and_no_others() -> None:
    keys = {"maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace", "maxNoOfPodsToEvictTotal"}
    cases = ((NO_LIMITS, set()), ({"node": 1}, {"maxNoOfPodsToEvictPerNode"}), (NOTHING, {"maxNoOfPodsToEvictTotal"}))
    for limits, wanted in cases:
        assert keys & yaml.safe_load(policies().bounded(WIDE, limits)).keys() == wanted


@pytest.mark.parametrize("pair", [(12.0, 11.9), (11.9, 12.0), (8.0, 3.0)])
def test_thresholds_too_close_lie_between_the_two(pair: tuple[float, float]) -> None:
    fuller, emptier, close = too_close(worker("a", pair[0]), worker("b", pair[1]))
    assert emptier.percent("memory") <= close.low["memory"] == close.high["memory"] < fuller.percent("memory")
    assert all(close.high[r] > fuller.percent(r) for r in ("cpu", "pods"))


def test_workers_filled_alike_cannot_be_told_apart() -> None:
    with pytest.raises(CannotPlan, match="both have"):
        too_close(worker("a", 8), worker("b", 8))


@pytest.mark.parametrize("ahead", [-1.7, -1.0, -0.4, 0.0, 0.4, 1.0])
@pytest.mark.parametrize("moves", [1, 2])
def test_the_stage_is_crowded_so_that_one_more_move_swaps_the_roles(ahead: float, moves: int) -> None:
    step = FIRST_GUESS["memory"] / GIB
    found = crowd(Draft(worker("a", 4 + ahead * step), worker("b", 4), 9, moves))
    left = found.vms + 1 + ahead - 2 * moves
    assert 0 < left < 2 or found.vms == FEWEST


def test_a_step_that_was_not_reached_settles_nothing() -> None:
    record = BackgroundRecord("ns", launchers={"vm-1": "ns/p"}, stopped_because="the engine hung")
    with pytest.raises(NoVerdict, match="the engine hung"):
        record.report(Step.NEXT)
    record.ran[Step.NEXT] = [Ran(CycleReport(), "")]
    assert record.report(Step.NEXT) is record.ran[Step.NEXT][0].report
    with pytest.raises(NoVerdict, match="had ended before the cycle"):
        record.beside(Step.NEXT)
