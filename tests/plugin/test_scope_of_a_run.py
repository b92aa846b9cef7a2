"""What a run claims: never more than what applied to the cluster."""

from __future__ import annotations

import pytest

from fixtures.checks import Impact, Level, Outcome, Scope, Spec, Status
from fixtures.options import Settings
from fixtures.run import Run

SPECS = {
    "POL-1": Impact.READ_ONLY,
    "INT-5": Impact.NAMESPACED,
    "MIG-3": Impact.DISRUPTIVE,
}


@pytest.mark.parametrize(
    ("applies", "scope"),
    [
        (("POL-1", "INT-5", "MIG-3"), Scope.LIVE_MIGRATION),
        (("POL-1", "INT-5"), Scope.NAMESPACED),
        (("POL-1",), Scope.READ_ONLY),
    ],
)
def test_what_does_not_apply_here_is_not_claimed(applies: tuple[str, ...], scope: Scope) -> None:
    run = Run(Settings(cluster="live"))
    for check, impact in SPECS.items():
        run.specs[check] = Spec(check, Level.REQUIRED, impact=impact, source="s")
        run.titles[check] = check
        passed = check in applies
        status = Status.PASSED if passed else Status.NOT_APPLICABLE
        run.record(Outcome(check, status, "" if passed else "there is one node"))
    assert run.certificate().scope is scope
