"""Killed at any write, restored from file or ConfigMap: the cluster is as it was, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.cluster.embedded import EmbeddedUnderTest
from fixtures.kube.objects import dig, name
from fixtures.kube.resources import CRONJOBS, LEASES
from fixtures.narrative import not_restored
from fixtures.scenario import lock
from fixtures.scenario.restore import restore
from tests.scenario import cases
from tests.scenario.cases import Killed, Mortal

#: Writes of a whole scenario, lock to unlock; `test_the_matrix_covers_every_write` keeps this honest.
WRITES = 48


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
    acp.elapse(5)  # what belongs to a namespace is collected a moment later
    assert cases.footprint(acp) == before, writes[-1]


@pytest.mark.parametrize("at", range(1, WRITES + 1, 2))
def test_killed_after_a_write_and_restored_by_the_file(acp: EmbeddedUnderTest, tmp_path: Path, at: int) -> None:
    """After the n-th write is before the next one: with those above, every gap between two writes has its turn."""
    before = cases.footprint(acp)
    writes = die(acp, at, tmp_path, after=True, run=f"a{at}")
    begun, locked = acp.now(), any(name(lease) == lock.NAME for lease in acp.world.store.list(LEASES))
    done = restore(acp, cases.NS, tmp_path)
    assert done.done, (writes[-1], done)
    acp.elapse(5)  # what belongs to a namespace is collected a moment later
    assert cases.footprint(acp) == before, writes[-1]
    if locked:
        assert acp.now() - begun > 60, "a run that may be alive is waited for"


class Disturbed(Mortal):
    """Something happens right after the ``at``-th write; the process lives on."""

    def __init__(self, inner: EmbeddedUnderTest, at: int, happens: Callable[[], None]) -> None:
        super().__init__(inner, at, after=True)
        object.__setattr__(self, "_happens", happens)

    def _die(self) -> None:
        self._happens()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("at", [2, 5, *range(8, 43, 3)])
def test_interrupted_after_a_write_it_rolls_back_by_itself(acp: EmbeddedUnderTest, tmp_path: Path, at: int) -> None:
    before = cases.footprint(acp)
    disturbed = Disturbed(acp, at, interrupt)
    play = cases.scenario(disturbed, tmp_path, f"i{at}")
    with contextlib.suppress(KeyboardInterrupt):  # none when it came during roll-back, which is not disturbed
        play.play()
    assert not_restored(play.record) == [], disturbed.writes[at - 1]
    assert cases.footprint(acp) == before, disturbed.writes[at - 1]


@pytest.mark.parametrize("at", range(8, 43, 4))
def test_a_lease_lost_after_a_write_ends_in_a_clean_roll_back(acp: EmbeddedUnderTest, tmp_path: Path, at: int) -> None:
    before = cases.footprint(acp)

    def lose() -> None:
        acp.world.store.delete(LEASES, cases.NS, lock.NAME)

    disturbed = Disturbed(acp, at, lose)
    record = cases.scenario(disturbed, tmp_path, f"l{at}").play()
    assert record.rollback.done, (disturbed.writes[at - 1], record.rollback)
    assert cases.footprint(acp) == before, disturbed.writes[at - 1]


@pytest.mark.slow
@pytest.mark.parametrize("at", [2, *range(9, 43, 6)])
def test_an_api_server_lost_for_a_while_after_a_write_leaves_nothing(tmp_path: Path, at: int) -> None:
    cluster = cases.start()
    try:
        before = cases.footprint(cluster)
        disturbed = Disturbed(cluster, at, lambda: cases.outage(cluster, seconds=1.0))
        record = cases.scenario(disturbed, tmp_path, f"o{at}").play()
        assert not_restored(record) == [], (disturbed.writes[at - 1], record.stopped_because)
        assert cases.footprint(cluster) == before, disturbed.writes[at - 1]
    finally:
        cluster.close()


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
        for at in range(9, 43, 5):
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
