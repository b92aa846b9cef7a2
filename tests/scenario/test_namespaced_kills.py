"""Runs that change nothing but a namespace of their own, killed at a write: `restore` and the next run clear up after dead ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures import versions
from fixtures.cluster import discover
from fixtures.cluster.api import Edit, Verb
from fixtures.cluster.embedded import EmbeddedUnderTest
from fixtures.kube.objects import dig, name
from fixtures.kube.resources import HYPERCONVERGEDS, LEASES, NAMESPACES, VMIS, Obj
from fixtures.options import Settings
from fixtures.scenario import disposable, lock
from fixtures.scenario.bench import Means, try_background
from fixtures.scenario.decisions import try_all
from fixtures.scenario.lock import Lock, Locked
from fixtures.scenario.restore import restore
from fixtures.scenario.strategy import try_change
from fixtures.scenario.sweep import Sweep
from tests.scenario import cases
from tests.scenario.cases import Killed, Mortal

#: Writes of each run after which it dies; its renewals of the lock are left out.
KILLS = {
    "decisions": (1, 2, 3, 4, 10, 17, 25, 26),
    "strategy": tuple(range(1, 16)),
    "background": (2, 8, 9, 10, 13, 44),
}
CASES = [(kind, at) for kind, found in KILLS.items() for at in found]


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedUnderTest]:
    """Used again and again: each case leaves it as it found it."""
    cluster = cases.start()
    yield cluster
    cluster.close()


@pytest.fixture
def acp() -> Iterator[EmbeddedUnderTest]:
    cluster = cases.start()
    yield cluster
    cluster.close()


def hyperconverged(cluster: EmbeddedUnderTest) -> Obj:
    found = discover.find_hco(cluster).object
    assert found is not None
    return found


def play(kind: str, cluster: Any, inner: EmbeddedUnderTest, folder: Path, run: str) -> object:
    left: list[str] = []
    if kind == "decisions":
        return try_all(cluster, run, left)
    if kind == "strategy":
        kubevirt = discover.find_kubevirt(inner).object
        assert kubevirt is not None
        return try_change(cluster, hyperconverged(inner), kubevirt, run, folder, left)
    engine = inner.engine(Settings(), "system:serviceaccount:descheduler:descheduler")
    means = Means(engine, versions.descheduler("0.36.0"), versions.kubevirt("1.8.4"), gate=True)
    return try_background(cluster, means, left, run=run)


def killed(kind: str, cluster: EmbeddedUnderTest, folder: Path, run: str, at: int, *, after: bool) -> str:
    mortal = Mortal(cluster, at, after=after)
    with pytest.raises(Killed):
        play(kind, mortal, cluster, folder, run)
    return str(mortal.writes[-1])


@pytest.mark.parametrize(("kind", "at"), CASES)
def test_killed_at_a_write_it_is_restored(shared: EmbeddedUnderTest, tmp_path: Path, kind: str, at: int) -> None:
    """Before and after it in turn; from the file, and from the cluster alone."""
    before, run = cases.footprint(shared), f"k{at}"
    died = killed(kind, shared, tmp_path, run, at, after=at % 2 == 0)
    done = restore(shared, cases.NS, tmp_path if at % 3 else tmp_path / "elsewhere")
    assert done.done, (died, done.complaints())
    shared.elapse(30)
    assert cases.footprint(shared) == before, died
    assert restore(shared, cases.NS, tmp_path).done


def strategy_of(cluster: EmbeddedUnderTest) -> object:
    found = hyperconverged(cluster)
    return dig(found, *versions.STRATEGY_PATHS[found["apiVersion"].rpartition("/")[2]])


# ---- who is dead


def test_a_living_run_is_left_alone_by_the_next_one_and_waited_for_by_restore(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    killed("decisions", acp, tmp_path, "other", 10, after=True)
    before = cases.footprint(acp)
    assert Sweep(acp, tmp_path)() == {}
    assert cases.footprint(acp) == before
    alive = Lock(acp, "rebalance-decisions-other", "other", mine=True)

    def say(text: str) -> None:
        assert "may be alive" in text
        alive.renew()

    with pytest.raises(Locked, match="run other"):
        restore(acp, cases.NS, tmp_path, say=say)
    assert cases.footprint(acp) == before


def test_the_next_run_clears_what_a_dead_one_left(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = cases.footprint(acp)
    killed("strategy", acp, tmp_path, "dead", 9, after=True)
    acp.elapse(lock.DURATION + 1)
    back = Sweep(acp, tmp_path)()
    assert {who: b.done for who, b in back.items()} == {"namespace rebalance-strategy-dead": True}
    acp.elapse(30)
    assert cases.footprint(acp) == before


def test_a_process_of_this_machine_that_is_gone_is_dead_at_once(
    acp: EmbeddedUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed("decisions", acp, tmp_path, "dead", 4, after=True)
    monkeypatch.setattr(lock, "_gone", lambda who: "process" in who)
    begun = acp.now()
    assert list(Sweep(acp, tmp_path)()) == ["namespace rebalance-decisions-dead"]
    assert acp.now() - begun < lock.DURATION / 2


@pytest.mark.parametrize("mark", ["labels", "annotations"])
def test_a_namespace_without_our_mark_is_nobodys_to_delete(acp: EmbeddedUnderTest, tmp_path: Path, mark: str) -> None:
    killed("decisions", acp, tmp_path, "dead", 4, after=True)
    there = "rebalance-decisions-dead"
    acp.change(Edit(Verb.MERGE, NAMESPACES, there, body={"metadata": {mark: dict.fromkeys(_ours(acp, there, mark))}}))
    acp.elapse(lock.DURATION + 1)
    assert Sweep(acp, tmp_path, patient=True, force=True)() == {}
    assert acp.get(NAMESPACES, there)


def _ours(cluster: EmbeddedUnderTest, ns: str, mark: str) -> Obj:
    found: Obj = cluster.get(NAMESPACES, ns)["metadata"][mark]
    return {k: v for k, v in found.items() if "conformance" in k or "conformance" in v}


def test_an_owner_that_wakes_up_notices_and_stops(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    """Taken over while it slept: it fails by itself, and changes nothing of the new holder's."""

    class Sleepy(Mortal):
        def _die(self) -> None:
            acp.elapse(lock.DURATION + 1)
            take = Lock(acp, "rebalance-decisions-slow", "restore-x")
            left = next(iter(disposable.found(acp)))
            take.take_over(disposable.held(acp, left))

    found = try_all(Sleepy(acp, 9, after=True), "slow", [])
    assert "taken over by restore-x" in found.trouble


def test_a_killed_scenario_without_its_journal_leaves_a_namespace_that_restore_finds(
    acp: EmbeddedUnderTest, tmp_path: Path
) -> None:
    mortal = Mortal(acp, 19, after=True)
    with pytest.raises(Killed):
        cases.scenario(mortal, tmp_path, "r1").play()
    (left,) = disposable.found(acp)
    assert (left.ns, left.lock_ns, left.run) == ("rebalance-conformance-r1", cases.NS, "r1")
    assert Sweep(acp, tmp_path)() == {}, "its policy comes first: not for a run that has only a namespace"
    acp.change(Edit(Verb.DELETE, LEASES, lock.NAME, cases.NS))
    assert list(Sweep(acp, tmp_path, plugin_ns=cases.NS)()) == ["namespace rebalance-conformance-r1"]
    assert not disposable.found(acp)


# ---- HyperConverged's strategy


def test_a_strategy_that_somebody_else_set_meanwhile_stays(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    killed("strategy", acp, tmp_path, "dead", 7, after=True)
    hco = hyperconverged(acp)
    version = hco["apiVersion"].rpartition("/")[2]
    body: Any = "External"
    for part in reversed(versions.STRATEGY_PATHS[version]):
        body = {part: body}
    acp.change(Edit(Verb.MERGE, HYPERCONVERGEDS.at(version), name(hco), hco["metadata"]["namespace"], body=body))
    done = restore(acp, cases.NS, tmp_path, force=True)
    (complaint,) = done.complaints()
    assert "is 'External', which run dead did not write" in complaint
    assert strategy_of(acp) == "External"
    assert restore(acp, cases.NS, tmp_path).runs == {}, "told once"
    assert not [v for v in acp.world.store.list(VMIS) if name(v) == "inherits"]


def test_a_strategy_is_restored_from_the_file_when_the_namespace_is_gone(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = strategy_of(acp)
    killed("strategy", acp, tmp_path, "dead", 7, after=True)
    assert strategy_of(acp) != before
    acp.change(Edit(Verb.DELETE, NAMESPACES, "rebalance-strategy-dead"))
    acp.elapse(60)
    assert Sweep(acp, tmp_path)() == {}, "its run may live"
    acp.elapse(lock.DURATION)
    assert list(restore(acp, cases.NS, tmp_path).runs) == ["journal strategy-dead.jsonl"]
    assert strategy_of(acp) == before
    assert json.loads((tmp_path / "strategy-dead.jsonl").read_text().splitlines()[-1])["kind"] == "done"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['{"kind": "start", "run": "x", "at": 0}', "nonsense", "{}"], "line 2: not JSON"),
        (['{"kind": "start", "run": "x", "at": 0}', '{"kind": "strategy", "ns": "a", "name": "b", "version": "v9"}'], "'v9'"),
        (['{"kind": "strategy", "ns": "a", "name": "b", "version": "v1", "before": 1, "wanted": "None"}'], "are no strategies"),
    ],
)
def test_a_journal_of_nonsense_is_named_and_nothing_is_done(
    shared: EmbeddedUnderTest, tmp_path: Path, lines: list[str], says: str
) -> None:
    before = cases.footprint(shared)
    (tmp_path / "strategy-x.jsonl").write_text("\n".join(lines) + "\n")
    (complaint,) = restore(shared, cases.NS, tmp_path).complaints()
    assert says in complaint
    assert "strategy-x.jsonl" in complaint
    assert cases.footprint(shared) == before
