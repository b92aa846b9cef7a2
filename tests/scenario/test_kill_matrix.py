"""Killed at any write, restored from file or ConfigMap: the cluster is as it was, and nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.cluster.embedded import EmbeddedUnderTest
from fixtures.kube.objects import dig
from fixtures.kube.resources import CRONJOBS
from fixtures.scenario import lock
from fixtures.scenario.restore import restore
from tests.scenario import cases
from tests.scenario.cases import Killed, Mortal

#: Writes of a whole scenario, lock to unlock; `test_the_matrix_covers_every_write` keeps this honest.
WRITES = 41


@pytest.fixture(scope="module")
def acp() -> Iterator[EmbeddedUnderTest]:
    """Used again and again: each case leaves it as it found it."""
    cluster = cases.start()
    yield cluster
    cluster.close()


def die(cluster: EmbeddedUnderTest, at: int, folder: Path, *, after: bool, run: str) -> list[str]:
    mortal = Mortal(cluster, at, after=after)
    with pytest.raises(Killed):
        cases.scenario(mortal, folder, run).play()
    return list(mortal.writes)


def test_the_matrix_covers_every_write(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = cases.footprint(acp)
    mortal = Mortal(acp, 10_000, after=False)
    record = cases.scenario(mortal, tmp_path, "whole").play()
    assert record.rollback.done, record.rollback
    assert abs(len(mortal.writes) - WRITES) <= 2, mortal.writes
    assert cases.footprint(acp) == before


@pytest.mark.parametrize("at", range(1, WRITES + 1, 2))
def test_killed_before_a_write_and_restored_by_the_configmap(
    acp: EmbeddedUnderTest, tmp_path: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "_gone", lambda who: True)
    before = cases.footprint(acp)
    writes = die(acp, at, tmp_path / "lost", after=False, run=f"b{at}")
    done = restore(acp, cases.NS, tmp_path / "elsewhere")
    assert done.done, (writes[-1], done)
    assert cases.footprint(acp) == before, writes[-1]


@pytest.mark.parametrize("at", range(1, WRITES + 1, 2))
def test_killed_after_a_write_and_restored_by_the_file(acp: EmbeddedUnderTest, tmp_path: Path, at: int) -> None:
    """After the n-th write is before the next one: with those above, every gap between two writes has its turn."""
    before = cases.footprint(acp)
    writes = die(acp, at, tmp_path, after=True, run=f"a{at}")
    begun = acp.now()
    done = restore(acp, cases.NS, tmp_path)
    assert done.done, (writes[-1], done)
    assert cases.footprint(acp) == before, writes[-1]
    if at < WRITES:
        assert acp.now() - begun > 60, "a run that may be alive is waited for"


FLAVOURS: dict[str, tuple[dict[str, Any], str]] = {
    "chart without ResourcePatches": ({"platform": "upstream"}, "kube-system"),
    "Deployment": ({"prepare": cases.as_deployment}, cases.NS),
    "KubeVirt 1.6.1": ({"kubevirt": "1.6.1", "descheduler": "0.34.0"}, cases.NS),
}


@pytest.mark.slow
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_other_flavours_are_restored_from_a_kill_at_some_writes(flavour: str, tmp_path: Path) -> None:
    options, ns = FLAVOURS[flavour]
    cluster = cases.start(**options)
    try:
        before = cases.footprint(cluster)
        for at in range(5, 36, 5):
            mortal = Mortal(cluster, at, after=at % 2 == 0)
            with pytest.raises(Killed):
                cases.scenario(mortal, tmp_path, f"f{at}", ns).play()
            done = restore(cluster, ns, tmp_path, force=True)
            assert done.done, (mortal.writes[-1], done)
            assert cases.footprint(cluster) == before, mortal.writes[-1]
    finally:
        cluster.close()


def test_a_cronjob_that_was_suspended_before_stays_so(tmp_path: Path) -> None:
    def suspended(world: Any) -> None:
        world.find(CRONJOBS, "descheduler")["spec"]["suspend"] = True

    cluster = cases.start(prepare=suspended)
    try:
        before = cases.footprint(cluster)
        record = cases.scenario(cluster, tmp_path).play()
        assert record.rollback.done, record.rollback
        assert cases.footprint(cluster) == before
        assert dig(cluster.get(CRONJOBS, "descheduler", ns=cases.NS), "spec", "suspend") is True
    finally:
        cluster.close()
