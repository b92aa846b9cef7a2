"""Evictions in background: what the cache learns, forgets and counts."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fixtures.engine.line import Line
from fixtures.engine.reference.evictor import Evictor, Limits
from fixtures.engine.reference.inflight import IN_PROGRESS, REQUEST_ONLY, InFlight
from fixtures.engine.reference.snapshot import View
from tests.engine.reference.building import NOW, Bench, background, node, pod, policy, vm

Obj = dict[str, Any]


def changed(found: Obj, **marks: str | None) -> Obj:
    new = copy.deepcopy(found)
    notes = new["metadata"].setdefault("annotations", {})
    for key, value in marks.items():
        full = {"request": REQUEST_ONLY, "progress": IN_PROGRESS}[key]
        notes.pop(full, None) if value is None else notes.update({full: value})
    return new


def ended(found: Obj, phase: str) -> Obj:
    return {**found, "status": {**found["status"], "phase": phase}}


MARKED = vm("a", in_progress=True)


class Cache:
    """A cache and what it said."""

    def __init__(self, **kwargs: Any) -> None:
        self.lines: list[Line] = []
        self.cache = InFlight(**kwargs)

    def said(self) -> list[str]:
        found = [line.message for line in self.lines]
        self.lines.clear()
        return found


@pytest.mark.parametrize("value", ["", "false", "true"])
def test_both_annotations_are_learnt_whatever_their_value(value: str) -> None:
    one = Cache()
    one.cache.added(changed(vm("a"), progress=value), one.lines.append)
    assert one.cache.total() == 1
    assert one.said() == ["Eviction in background detected. Adding pod to the cache."]


@pytest.mark.parametrize(
    "found", [vm("a"), changed(pod("a"), progress="true"), ended(vm("a", in_progress=True), "Succeeded"), pod("a")]
)
def test_anything_less_is_not_learnt(found: Obj) -> None:
    one = Cache()
    one.cache.added(found, one.lines.append)
    assert (one.cache.total(), one.said()) == (0, [])


def test_with_the_gate_off_nothing_is_learnt() -> None:
    one = Cache(gate=False)
    found = vm("a", in_progress=True)
    one.cache.added(found, one.lines.append)
    one.cache.updated(vm("a"), found, one.lines.append)
    one.cache.tick(NOW, one.lines.append)
    assert (one.cache.total(), one.said()) == (0, [])


@pytest.mark.parametrize(
    ("new", "left", "said"),
    [
        (vm("a"), 0, "Eviction in background canceled (annotation removed). Removing pod from the cache."),
        (
            changed(vm("a", in_progress=True), request=None),
            0,
            "Pod with eviction in background lost annotation. Removing pod from the cache.",
        ),
        (
            ended(vm("a", in_progress=True), "Succeeded"),
            0,
            "Pod with eviction in background completed. Removing pod from the cache.",
        ),
        (ended(vm("a", in_progress=True), "Failed"), 0, "Pod with eviction in background completed. Removing pod from the cache."),
        (vm("a", in_progress=True, priority=1), 1, None),
    ],
)
def test_updates_of_a_known_pod(new: Obj, left: int, said: str | None) -> None:
    one = Cache()
    old = vm("a", in_progress=True)
    one.cache.added(old, one.lines.append)
    one.said()
    one.cache.updated(old, new, one.lines.append)
    assert one.cache.total() == left
    assert one.said() == ([said] if said else [])


def test_an_assumed_entry_survives_updates_without_the_annotation() -> None:
    one = Cache()
    one.cache.assume(vm("a"), NOW)
    one.cache.updated(vm("a"), vm("a", priority=1), one.lines.append)
    assert one.cache.total() == 1


def test_an_update_with_the_annotation_is_learnt_once() -> None:
    one = Cache()
    found = vm("a", in_progress=True)
    one.cache.updated(vm("a"), found, one.lines.append)
    one.cache.updated(found, found, one.lines.append)
    assert one.said() == ["Eviction in background detected. Updating the cache."]


def test_completion_is_told_even_of_unknown_pods_until_master() -> None:
    done = ended(vm("a"), "Succeeded")
    for version, lines in (("0.36.0", 1), ("master", 0)):
        one = Cache(version=version)
        one.cache.updated(vm("a"), done, one.lines.append)
        assert len(one.said()) == lines


def test_assumed_entries_time_out_learnt_ones_do_not() -> None:
    one = Cache()
    one.cache.tick(NOW, one.lines.append)
    one.cache.assume(vm("a"), NOW + 1)
    one.cache.added(vm("b", in_progress=True), one.lines.append)
    one.said()
    assert one.cache.tick(NOW + 600, one.lines.append) == []
    assert one.cache.total() == 2
    gone = one.cache.tick(NOW + 1200, one.lines.append)
    assert [e.pod for e in gone] == ["a"]
    assert one.said()[-1] == "Assumed eviction request in background timed out, deleting"
    assert one.cache.total() == 1


def test_confirmation_does_not_stop_the_time_out() -> None:
    one = Cache()
    one.cache.tick(NOW, one.lines.append)
    one.cache.assume(vm("a"), NOW)
    one.cache.updated(vm("a"), vm("a", in_progress=True), one.lines.append)
    one.cache.tick(NOW + 600, one.lines.append)
    assert one.cache.total() == 1
    one.cache.tick(NOW + 1200, one.lines.append)
    assert one.cache.total() == 0


def test_the_clean_up_runs_every_ten_minutes() -> None:
    one = Cache()
    runs = [bool(one.cache.tick(NOW + t, one.lines.append)) or bool(one.said()) for t in (0, 1, 599, 600, 601, 1900, 2399, 2400)]
    assert runs == [True, False, False, True, False, True, False, True]


def test_a_learnt_entry_becomes_an_assumed_one_since_036() -> None:
    for version, assumed in (("0.35.1", False), ("0.36.0", True)):
        one = Cache(version=version)
        one.cache.added(vm("a", in_progress=True), one.lines.append)
        one.cache.assume(vm("a"), NOW, strategy="s", profile="p")
        (entry,) = one.cache.entries.values()
        assert (entry.assumed, one.cache.total()) == (assumed, 1)


@pytest.mark.parametrize(
    ("version", "deleted", "completed", "timed_out"),
    [("0.35.1", "", "", ""), ("0.36.0", "success", "", ""), ("master", "success", "error", "error")],
)
def test_outcomes_that_are_counted(version: str, deleted: str, completed: str, timed_out: str) -> None:
    one = Cache(version=version)
    one.cache.tick(NOW, one.lines.append)
    for name in ("a", "b", "c"):
        one.cache.assume(vm(name), NOW)
    gone = one.cache.deleted(vm("a"), one.lines.append)
    failed = one.cache.updated(vm("b"), ended(vm("b"), "Failed"), one.lines.append)
    late = one.cache.tick(NOW + 1300, one.lines.append)
    assert [gone.outcome if gone else None, failed.outcome if failed else None] == [deleted, completed]
    assert [e.outcome for e in late] == [timed_out]


def test_only_assumed_ones_are_counted() -> None:
    one = Cache()
    one.cache.added(vm("a", in_progress=True), one.lines.append)
    gone = one.cache.deleted(vm("a"), one.lines.append)
    assert gone is not None
    assert gone.outcome == ""


# ---------------------------------------------------------------- cycles (descheduler evictions_test.go)
def bench(**kwargs: Any) -> Bench:
    nodes = [node("n1"), node("n2")]
    pods = [vm(f"vm{i}", cpu="1", priority=i) for i in range(1, 8)]
    parts = {k: kwargs.pop(k) for k in ("top", "version", "evictor", "args") if k in kwargs}
    return Bench(nodes, pods, policy(**parts), answer=background, **kwargs)


def test_requests_are_not_repeated_while_they_are_under_way() -> None:
    one = bench()
    first = one.cycle()
    assert first.requested == ["default/vm1", "default/vm2"]
    assert (first.total_evicted, first.eviction_requests) == (0, 2)
    again = one.cycle()
    assert one.port.asked == []
    assert again.pods_with("alreadyRequested") == ["default/vm1", "default/vm2"]
    assert again.eviction_requests == 2


def test_a_restart_knows_the_annotated_ones_only() -> None:
    one = bench()
    one.cycle()
    one.in_flight = InFlight()
    one.snapshot.pods[0] = changed(one.snapshot.pods[0], progress="true")
    report = one.cycle()
    assert one.port.asked == ["vm2"]
    assert report.eviction_requests == 2


def test_limits_hold_back_what_is_under_way_in_other_cycles() -> None:
    one = bench(top="maxNoOfPodsToEvictPerNamespace: 1")
    assert one.cycle().requested == ["default/vm1"]
    report = one.cycle()
    assert one.port.asked == []
    assert report.pods_with("limitNamespace")


def test_without_the_gate_every_candidate_is_asked_for() -> None:
    one = bench(gate=False, top="maxNoOfPodsToEvictTotal: 1")
    report = one.cycle()
    assert one.port.asked == [f"vm{i}" for i in range(1, 8)]
    assert (report.total_evicted, report.eviction_requests) == (0, 0)
    assert [a.metric for a in one.attempts] == ["error"] * 7


def test_a_completed_pod_is_ignored() -> None:
    one = bench()
    view = View(one.snapshot, one.policy.rules)
    evictor = Evictor(one.policy.rules, Limits(), one.in_flight, one.port, view, one.lines.append)
    attempt = evictor.evict(ended(one.snapshot.pods[0], "Succeeded"), strategy="s", profile="p")
    assert (attempt.result, attempt.taken, one.in_flight.total()) == ("ignoredTerminal", True, 0)
