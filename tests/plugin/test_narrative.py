"""The scenario's record as the certificate tells it, and what counts as not restored."""

from __future__ import annotations

import json

import pytest

from fixtures.engine.report import CycleReport, Pass, Source, Step
from fixtures.narrative import not_restored, tell
from fixtures.scenario.record import Cycle, Move, Reached, RollBack, ScenarioRecord, VmRecord

LOG = """I0101 00:00:00.000000 1 a.go:1] "Criteria" x
I0101 00:00:01.000000 1 evictions.go:1] "Eviction in background assumed" pod="ns/virt-launcher-vm-1-x"
I0101 00:00:02.000000 1 descheduler.go:1] "Number of evictions/requests" totalEvicted=0 evictionRequests=1
"""


def record() -> ScenarioRecord:
    move = Move(
        vm="vm-1",
        launcher="virt-launcher-vm-1-x",
        source="worker-1",
        target="worker-2",
        cycle=1,
        requested_at=1_800_000_000.25,
        vmim={"metadata": {"name": "kubevirt-evacuation-a"}, "status": {"phase": "Succeeded"}},
        uid_after="u-1",
    )
    steps = [Step("ns/virt-launcher-vm-1-x", "background")]
    report = CycleReport(
        exit_code=0, total_evicted=0, eviction_requests=1, log=LOG, passes=[Pass(sources=[Source("worker-1", steps)])]
    )
    return ScenarioRecord(
        reached=Reached.ROLLED_BACK,
        source="worker-1",
        target="worker-2",
        vms=[VmRecord("vm-1", "ns", "u-1", "worker-1", "LiveMigrate", True, "virt-launcher-vm-1-x", {})],
        cycles=[Cycle(1, report, "job-1", [move])],
        rollback=RollBack(done=True, engine_resumed=True),
    )


def test_the_certificate_names_vm_uid_migration_workers_times_and_log_lines():
    told = tell(record())
    assert told["reached"] == "rolled-back"
    (move,) = told["moves"]
    wanted = ("vm-1", "u-1", "worker-1", "worker-2", "kubevirt-evacuation-a", "Succeeded", "2027-01-15T08:00:00.250Z", None)
    keys = ("vm", "vmiUID", "source", "target", "vmim", "phase", "requestedAt", "finishedAt")
    assert tuple(move[k] for k in keys) == wanted
    (cycle,) = told["cycles"]
    assert cycle["requested"] == ["ns/virt-launcher-vm-1-x"]
    assert [line.split("] ")[1][:20] for line in cycle["log"]] == ['"Eviction in backgro', '"Number of evictions']
    json.dumps(told)


def test_a_scenario_that_never_started_can_be_told():
    told = tell(ScenarioRecord(stopped_because="fewer than two suitable workers"))
    assert (told["reached"], told["moves"], told["stoppedBecause"]) == ("nothing", [], "fewer than two suitable workers")


@pytest.mark.parametrize(
    ("reached", "rollback", "wanted"),
    [
        (Reached.PREFLIGHT, RollBack(), []),
        (Reached.ROLLED_BACK, RollBack(done=True, engine_resumed=True), []),
        (Reached.LOCKED, RollBack(), ["the roll-back did not finish"]),
        (Reached.BALANCED, RollBack(), ["the installed descheduler is still stopped"]),
        (
            Reached.BALANCED,
            RollBack(differences=["policy: data"], left_behind=["namespace x"], engine_resumed=True),
            ["not as before: policy: data", "left behind: namespace x"],
        ),
    ],
)
def test_what_was_not_restored_is_said(reached, rollback, wanted):
    assert not_restored(ScenarioRecord(reached=reached, rollback=rollback)) == wanted
