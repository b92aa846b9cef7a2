"""Whatever fails beneath it, a run ends with a clear outcome and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from fixtures.embedded import faults
from tests.certifying import Runs

#: Fault → exit statuses that are right: what works slowly is conformant, what cannot be judged partial.
STATUSES: dict[str, set[int]] = {
    "api-429": {0, 6},
    "api-500": {0, 6},
    "conflict-storm": {0, 6},
    "image-unreachable": {6},
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


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Runs by fault, under way: most of their time they wait for what they asked again."""
    with Runs(tmp_path_factory.mktemp("faults"), lambda s: (f"--fault={s}", "-p", "tests.embedded.faults.leftovers")) as found:
        found.start_selected(request, "spec")
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
def test_a_run_with_a_fault_ends_clearly_and_leaves_nothing_behind(spec: str, runs: Runs) -> None:
    fault = faults.load(spec)
    run = runs[spec]
    assert run.status in STATUSES[fault.name], run.output
    assert fault.fails <= run.those("failed") <= MAY_FAIL.get(spec, set())
    assert not [c["id"] for c in run.certificate["checks"] if c.get("suiteError")]
    assert all(run.reason(check) for check in run.those("failed", "inconclusive", "skipped"))
    assert "Traceback" not in run.output
    found = yaml.safe_load((runs.folder(spec) / "leftovers.yaml").read_text())
    assert found | {"left": []} == {"left": [], "gone": [], "changed": [], "troubles": []}
    told = run.certificate["verdict"].get("notRestored") or []
    assert (run.status == 7) is bool(told) is bool(found["left"]), "what is left on a node that is lost is told, and only that"
