"""Levels, impacts, evidence, and the verdict over every combination of outcomes."""

from __future__ import annotations

import hashlib
import itertools

import pytest

from fixtures.checks import (
    AREAS,
    EXIT_STATUS,
    Evidence,
    Impact,
    Level,
    NoVerdict,
    Outcome,
    Scope,
    Spec,
    Status,
    Word,
    catalogue_order,
    check,
    inconclusive,
    judge,
    not_applicable,
    scope_of,
    skipped,
)

CORNERSTONES = [Outcome(c, Status.PASSED) for c in ("POL-2", "REN-2", "INT-1")]


def spec(id: str, impact: Impact = Impact.READ_ONLY) -> Spec:
    return Spec(id, Level.REQUIRED, impact, "s")


@pytest.mark.parametrize(("level", "status"), list(itertools.product(Level, Status)))
def test_one_more_check_moves_the_verdict_only_as_far_as_its_level_and_outcome_say(level, status):
    wanted = Word.CONFORMANT
    if level is Level.REQUIRED:
        open_ = dict.fromkeys((Status.SKIPPED, Status.INCONCLUSIVE, Status.QUARANTINED), Word.PARTIAL)
        wanted = {Status.FAILED: Word.NON_CONFORMANT, **open_}.get(status, Word.CONFORMANT)
    verdict = judge([*CORNERSTONES, Outcome("POL-7", status, "why", level=level)], Scope.SIMULATED)
    assert verdict.word is wanted
    assert verdict.reasons == (() if wanted is Word.CONFORMANT else (f"POL-7 {status.value}: why",))


@pytest.mark.parametrize(("pol", "ren", "int1"), list(itertools.product(Status, repeat=3)))
@pytest.mark.parametrize("scope", [Scope.SIMULATED, Scope.FILES])
def test_the_verdict_over_every_outcome_of_the_cornerstones(pol, ren, int1, scope):
    outcomes = [Outcome("POL-2", pol), Outcome("REN-2", ren), Outcome("INT-1", int1)]
    counted = outcomes[:2] if scope is Scope.FILES else outcomes
    if Status.FAILED in (pol, ren, int1):
        wanted = Word.NON_CONFORMANT
    elif any(o.status not in (Status.PASSED, Status.QUARANTINED) for o in counted):
        wanted = Word.UNKNOWN
    elif int1 in (Status.SKIPPED, Status.INCONCLUSIVE) or Status.QUARANTINED in (pol, ren, int1):
        wanted = Word.PARTIAL
    else:
        wanted = Word.CONFORMANT
    assert judge(outcomes, scope).word is wanted


@pytest.mark.parametrize("level", Level)
def test_a_run_in_which_the_suite_broke_is_never_conformant(level):
    broken = Outcome("POL-9", Status.INCONCLUSIVE, "error in the suite", level=level, suite_error=True)
    assert judge([*CORNERSTONES, broken], Scope.SIMULATED).word is Word.PARTIAL


def test_an_interrupted_run_is_never_conformant_and_a_failure_in_it_counts():
    assert judge(CORNERSTONES, Scope.SIMULATED, interrupted=True).reasons == ("the run was interrupted",)
    assert judge(CORNERSTONES, Scope.SIMULATED, interrupted=True).word is Word.PARTIAL
    failed = [*CORNERSTONES, Outcome("POL-7", Status.FAILED, "why")]
    assert judge(failed, Scope.SIMULATED, interrupted=True).word is Word.NON_CONFORMANT


@pytest.mark.parametrize(("scope", "required"), list(itertools.product(Scope, Scope)))
def test_a_narrower_scope_than_required_is_partial(scope, required):
    order = list(Scope)
    narrower = order.index(scope) < order.index(required)
    verdict = judge(CORNERSTONES, scope, required_scope=required)
    assert verdict.word is (Word.PARTIAL if narrower else Word.CONFORMANT)
    assert str(verdict) == f"{verdict.word.value} ({scope.value})"


def test_nothing_at_all_is_unknown():
    assert judge([], Scope.READ_ONLY).word is Word.UNKNOWN


def test_each_word_has_its_own_exit_status():
    assert EXIT_STATUS == {Word.CONFORMANT: 0, Word.NON_CONFORMANT: 1, Word.UNKNOWN: 5, Word.PARTIAL: 6}


@pytest.mark.parametrize(
    ("source", "specs", "wanted"),
    [
        ("embedded", [spec("MIG-1", Impact.DISRUPTIVE)], Scope.SIMULATED),
        ("embedded", [], Scope.SIMULATED),
        ("files", [spec("POL-1")], Scope.FILES),
        ("live", [], Scope.READ_ONLY),
        ("live", [spec("POL-1")], Scope.READ_ONLY),
        ("live", [spec("INT-4", Impact.DRY_RUN)], Scope.READ_ONLY),
        ("live", [spec("POL-1"), spec("INT-5", Impact.NAMESPACED)], Scope.NAMESPACED),
        ("live", [spec("ACP-2", Impact.DISRUPTIVE)], Scope.NAMESPACED),
        ("live", [spec("MIG-1", Impact.DISRUPTIVE)], Scope.LIVE_MIGRATION),
        ("kind", [spec("MIG-1", Impact.DISRUPTIVE)], Scope.LIVE_MIGRATION),
    ],
)
def test_the_scope_claimed_is_what_was_selected(source, specs, wanted):
    assert scope_of(source, specs) is wanted


def test_impacts_are_cumulative():
    assert [i.rank for i in Impact] == [0, 1, 2, 3]


def test_ids_sort_by_area_then_number():
    ids = ["XYZ-1", "MIG-10", "MIG-2", "BGE-1", "VER-1", "POL-2"]
    assert sorted(ids, key=catalogue_order) == ["POL-2", "VER-1", "BGE-1", "MIG-2", "MIG-10", "XYZ-1"]
    assert list(AREAS)[-1] == "MIG"


@pytest.mark.parametrize("body", ["text\n", {"b": 1, "a": ["ü"]}, None, 3], ids=str)
def test_the_digest_of_evidence_is_that_of_its_text(body):
    item = Evidence("object", "ref", body)
    assert item.sha256 == hashlib.sha256(item.text.encode()).hexdigest()


def test_evidence_is_redacted_when_constructed():
    item = Evidence("object", "https://me:hunter2@host", {"token": "S3CRET"})
    assert "S3CRET" not in item.text
    assert "hunter2" not in item.ref


@pytest.mark.parametrize(
    ("end", "status"), [(not_applicable, "not-applicable"), (skipped, "skipped"), (inconclusive, "inconclusive")]
)
def test_ending_a_check_carries_status_reason_and_evidence(end, status):
    item = Evidence("probe", "ref")
    with pytest.raises(NoVerdict) as caught:
        end("because", item)
    assert (caught.value.status.value, caught.value.reason, caught.value.evidence) == (status, "because", (item,))


def test_the_marker_carries_what_the_check_declares():
    @check("POL-4", level=lambda facts: Level(facts["level"]), impact=Impact.READ_ONLY, source="s", needs=["read"])
    def function() -> None: ...

    (mark,) = function.pytestmark  # type: ignore[attr-defined]
    declared: Spec = mark.args[0]
    assert (declared.id, declared.area, declared.needs) == ("POL-4", "POL", {"read"})
    assert declared.level_given({"level": "recommended"}) is Level.RECOMMENDED
