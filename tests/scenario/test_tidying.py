"""What runs that died left is undone before the next one looks at the cluster, as far as that one may act."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.checks import Impact, Level, Spec
from fixtures.cluster.embedded import EmbeddedUnderTest
from fixtures.options import Settings
from fixtures.run import Run
from fixtures.scenario import lock
from fixtures.scenario.decisions import try_all
from fixtures.tidying import tidy
from tests.scenario import cases
from tests.scenario.cases import Killed, Mortal


@pytest.fixture
def acp() -> Iterator[EmbeddedUnderTest]:
    cluster = cases.start()
    yield cluster
    cluster.close()


@pytest.fixture
def left(acp: EmbeddedUnderTest, tmp_path: Path) -> dict[str, object]:
    """Two runs died: one with a namespace of its own, one in the scenario after it wrote its policy. The footprint before."""
    before = cases.footprint(acp)
    with pytest.raises(Killed):
        try_all(Mortal(acp, 10, after=True), "a", [])
    with pytest.raises(Killed):
        cases.scenario(Mortal(acp, 34, after=True), tmp_path, "b").play()
    assert cases.footprint(acp) != before
    return before


def run_of(impact: Impact, folder: Path, *, plan: bool = False) -> Run:
    run = Run(Settings(cluster="live", engine="installed", allow=impact, report_dir=folder, plan=plan))
    run.specs = {"X-1": Spec("POL-1", Level.REQUIRED, impact=impact, source="s")}
    return run


def test_a_disruptive_run_undoes_everything(acp: EmbeddedUnderTest, tmp_path: Path, left: dict[str, object]) -> None:
    acp.elapse(lock.DURATION + 1)
    run = run_of(Impact.DISRUPTIVE, tmp_path)
    tidy(run, acp)
    acp.elapse(5)
    assert cases.footprint(acp) == left
    assert run.remarks == run.not_restored == []


def test_a_namespaced_run_removes_namespaces_and_points_at_the_rest(
    acp: EmbeddedUnderTest, tmp_path: Path, left: dict[str, object]
) -> None:
    acp.elapse(lock.DURATION + 1)
    run = run_of(Impact.NAMESPACED, tmp_path)
    tidy(run, acp)
    kept = cases.footprint(acp)
    assert "namespaces rebalance-decisions-a" not in kept
    assert "namespaces rebalance-conformance-b" in kept, "its policy comes first"
    (said,) = run.remarks
    assert said.endswith("see rebalance-conformance restore --plugin-namespace descheduler")


@pytest.mark.parametrize("plan", [True, False])
def test_others_change_nothing(acp: EmbeddedUnderTest, tmp_path: Path, left: dict[str, object], *, plan: bool) -> None:
    acp.elapse(lock.DURATION + 1)
    there = cases.footprint(acp)
    run = run_of(Impact.DISRUPTIVE if plan else Impact.READ_ONLY, tmp_path, plan=plan)
    tidy(run, acp)
    assert cases.footprint(acp) == there
    assert len(run.remarks) == int(plan)


def test_a_living_run_is_told_and_left_alone(acp: EmbeddedUnderTest, tmp_path: Path, left: dict[str, object]) -> None:
    there = cases.footprint(acp)
    run = run_of(Impact.DISRUPTIVE, tmp_path)
    tidy(run, acp)
    assert cases.footprint(acp) == there
    assert "another run is under way here: run b " in run.remarks[0]
