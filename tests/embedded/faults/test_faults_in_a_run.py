"""Whatever fails beneath it, a run ends with a clear outcome and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fixtures.embedded import faults
from tests.certifying import certify

#: Fault → exit statuses that are right: what works slowly is conformant, what cannot be judged partial.
STATUSES: dict[str, set[int]] = {
    "api-429": {0, 6},
    "api-500": {0, 6},
    "conflict-storm": {0, 6},
    "interceptor-down": {1},
    "migration-fails": {1},
    "migration-slow": {0, 6},
    "node-down": {1, 6, 7},
    "watch-drop": {0},
}
#: Checks that may fail: where the cluster itself is broken, not what asks it.
MAY_FAIL = {"interceptor-down": {"INT-2", "MIG-1"}, "migration-fails": {"MIG-6"}, "node-down": {"MIG-6"}}
SPECS = list(STATUSES)


def test_every_fault_has_expectations() -> None:
    assert tuple(STATUSES) == faults.names()


@pytest.mark.parametrize("name", faults.names())
def test_every_fault_says_in_a_line_what_it_does_and_how_it_is_written(name: str) -> None:
    says = faults.load(name).says
    assert "\n" not in says
    assert says.partition(":")[0].partition("[")[0] == name


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
def test_a_run_with_a_fault_ends_clearly_and_leaves_nothing_behind(spec: str, tmp_path: Path) -> None:
    fault = faults.load(spec)
    run = certify(tmp_path, f"--fault={spec}", "-p", "tests.embedded.faults.leftovers")
    assert run.status in STATUSES[fault.name], run.output
    assert fault.fails <= run.those("failed") <= MAY_FAIL.get(spec, set())
    assert not [c["id"] for c in run.certificate["checks"] if c.get("suiteError")]
    assert all(run.reason(check) for check in run.those("failed", "inconclusive", "skipped"))
    assert "Traceback" not in run.output
    found = yaml.safe_load((tmp_path / "leftovers.yaml").read_text())
    assert found | {"left": []} == {"left": [], "gone": [], "changed": [], "troubles": []}
    told = run.certificate["verdict"].get("notRestored") or []
    assert (run.status == 7) is bool(told) is bool(found["left"]), "what is left on a node that is lost is told, and only that"
