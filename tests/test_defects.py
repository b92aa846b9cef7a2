"""Trust in the certifier: a healthy cluster passes every check, and each seeded defect fails exactly the checks that name it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.embedded import defects
from fixtures.report import catalogue
from tests.certifying import Runs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Runs by defect; those of the selected tests are under way."""
    with Runs(tmp_path_factory.mktemp("defects"), lambda name: ("--defect", name)) as found:
        found.start_selected(request, "name")
        yield found


@pytest.mark.parametrize("name", defects.names())
def test_a_defect_fails_exactly_the_checks_that_name_it(runs: Runs, name: str) -> None:
    defect = defects.load(name)
    found = runs[name]
    assert found.those("failed") == defect.fails, found.output
    assert found.those("inconclusive", "skipped") == defect.undecided, found.output


def test_every_check_has_a_defect_that_fails_it() -> None:
    failing = {check for name in defects.names() for check in defects.load(name).fails}
    declared = {e.spec.id for e in catalogue.load()}
    assert declared - failing == set(), "a check that no defect can fail is itself a bug"
    assert failing - declared == set(), "defects name checks that do not exist"


def test_a_required_failure_makes_the_run_non_conformant(runs: Runs) -> None:
    found = runs["gate-not-rendered"]
    assert found.status == 1
    assert found.certificate["verdict"]["text"] == "non-conformant (simulated)"
    assert {"REN-2", "BGE-1", "MIG-3"} <= found.those("failed")
    assert "package newer than v0.36.0-4" in found.reason("REN-2")


def test_what_could_not_be_restored_is_said_loudest(runs: Runs) -> None:
    assert runs["rollback-reverted"].status == 7
