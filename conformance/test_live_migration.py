"""MIG: the two-worker scenario. One worker is overloaded, the engine asks, KubeVirt migrates, everything is put back.

The scenario runs once; each check reads its record, fails on contrary evidence and is inconclusive when its step was not reached.
"""

from __future__ import annotations

from fixtures.checks import Impact, Level, check, inconclusive
from fixtures.kube.objects import annotations_of, dig, name
from fixtures.run import Attach
from fixtures.scenario import timeline
from fixtures.scenario.observe import EVACUATION
from fixtures.scenario.record import Guest, Move, Reached, ScenarioRecord
from fixtures.versions import DeschedulerFacts, KubeVirtFacts

MIGRATING = ("LiveMigrate", "LiveMigrateIfPossible")


@check(
    "MIG-1",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="Create the test VMs with the scoping label, wait for LiveMigratable=True, and record the source node and VMI UID",
)
def test_vms_are_ready_to_migrate(rebalance: ScenarioRecord) -> None:
    """Each test VM is LiveMigratable, has a migrating strategy and carries the policy's label to its launcher."""
    assert rebalance.stopped_at is not Reached.VMS_READY, rebalance.stopped_because
    _need(rebalance, Reached.VMS_READY)
    key, value = rebalance.label
    for vm in rebalance.vms:
        who = f"VMI {vm.ns}/{vm.name}"
        assert vm.migratable, f"{who}: condition LiveMigratable is not True"
        assert vm.strategy in MIGRATING, f"{who}: spec.evictionStrategy is {vm.strategy!r}, wanted one of {', '.join(MIGRATING)}"
        found = vm.launcher_labels.get(key)
        assert found == value, f"Pod {vm.ns}/{vm.launcher}: label {key} is {found!r}, wanted {value!r} from the VM's template"
        assert vm.uid, f"{who} has no uid"
        assert vm.node == rebalance.source, f"{who} runs on {vm.node!r}, wanted the source {rebalance.source!r}"


@check(
    "MIG-2",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="Each CronJob run reads the ConfigMap when it starts; no restart is needed",
)
def test_the_engine_reads_the_new_policy_and_classifies_the_workers(rebalance: ScenarioRecord) -> None:
    """Criteria are the new policy's, the source is overutilized, the other underutilized, and our VMs are removable."""
    _need(rebalance, Reached.CYCLE_RUN)
    passes = [p for p in rebalance.cycles[0].report.passes if p.nodes]
    assert passes, f"the first cycle classified no node; its log says: {rebalance.cycles[0].report.log[-600:]!r}"
    found = passes[0]
    for what, wanted, seen in zip(("thresholds", "targetThresholds"), _printed(rebalance), found.criteria, strict=True):
        assert seen == wanted, f"the engine used {what} {seen}, the policy in the ConfigMap says {wanted}"
    categories = {node: c.category for node, c in found.nodes.items()}
    wanted_categories = {rebalance.source: "overutilized", rebalance.target: "underutilized"}
    assert categories == wanted_categories, f"classified {categories}, wanted {wanted_categories}"
    source = next((s for s in found.sources if s.node == rebalance.source), None)
    if source is None or source.pods is None:
        inconclusive(f"no 'Pods on node' line for {rebalance.source}; the engine's verbosity is too low to count removable Pods")
    assert source.pods["removable"] == len(rebalance.vms), (
        f"{source.pods['removable']} removable Pods on {source.node}, wanted our {len(rebalance.vms)} VMs"
    )


@check(
    "MIG-3",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="totalEvicted=0 evictionRequests=1 is the expected outcome: the Pod was not evicted, a migration was requested",
)
def test_one_cycle_makes_exactly_one_request(rebalance: ScenarioRecord, evidence: Attach) -> None:
    """The first cycle assumed one eviction in background, of one of our launchers, and evicted nothing."""
    _need(rebalance, Reached.CYCLE_RUN)
    report = rebalance.cycles[0].report
    evidence("log", "first cycle of the scenario", report.log)
    if not any(p.criteria == _printed(rebalance) for p in report.passes):
        inconclusive("the first cycle did not run on the policy written for it, see MIG-2")
    requested = report.requested
    if report.eviction_requests and not requested and not report.total_evicted:
        inconclusive(
            f"evictionRequests={report.eviction_requests}, but no line says for which Pod: the verbosity is below 3, see REN-3"
        )
    assert len(requested) == 1, (
        f"the first cycle requested {len(requested)} evictions ({', '.join(requested) or 'none'}), wanted 1;"
        f" failed: {report.failed or 'none'}"
    )
    assert requested[0].startswith(f"{rebalance.namespace}/"), f"{requested[0]} was asked for; it is outside {rebalance.namespace}"
    summary = (report.total_evicted, report.eviction_requests)
    assert summary == (0, 1), f"the log says totalEvicted={summary[0]} evictionRequests={summary[1]}, wanted 0 and 1"


@check(
    "MIG-4",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="The VirtualMachineInstanceMigration is created in the same second as the Descheduler request and is named"
    " kubevirt-evacuation-<suffix>",
)
def test_the_request_becomes_a_migration(rebalance: ScenarioRecord, evidence: Attach) -> None:
    """One kubevirt-evacuation VMIM per request, annotated with the source node."""
    for move in _followed(rebalance, Reached.REQUESTED):
        assert move.vmim is not None, f"VM {move.vm}: {rebalance.stopped_because or 'no migration appeared after the request'}"
        evidence("object", f"VMIM {name(move.vmim)}", move.vmim)
        assert name(move.vmim).startswith("kubevirt-evacuation-"), f"VMIM {name(move.vmim)}: wanted a name kubevirt-evacuation-…"
        found = annotations_of(move.vmim).get(EVACUATION)
        assert found == move.source, f"VMIM {name(move.vmim)}: annotation {EVACUATION} is {found!r}, wanted {move.source!r}"
        assert move.vmim_count == 1, f"VM {move.vm}: {move.vmim_count} evacuation migrations for one request, wanted 1"


@check(
    "MIG-5",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="those two markers are only visible while the evacuation is in flight",
)
def test_the_evacuation_is_marked_while_in_flight(
    rebalance: ScenarioRecord, kubevirt_facts: KubeVirtFacts, descheduler_facts: DeschedulerFacts
) -> None:
    """evacuationNodeName, eviction-source and eviction-in-progress were seen as this KubeVirt version sets them."""
    for move in _migrated(rebalance, Reached.MIGRATION_SEEN):
        seen = move.markers
        assert seen.get("evacuationNodeName") == move.source, (
            f"VMI {move.vm}: status.evacuationNodeName was {seen.get('evacuationNodeName')!r}, wanted {move.source!r}"
        )
        wanted = kubevirt_facts.eviction_in_progress_value
        found = seen.get("eviction-in-progress")
        assert found == wanted, f"Pod {move.launcher}: eviction-in-progress was {found!r}, wanted {wanted!r}"
        if kubevirt_facts.eviction_source and descheduler_facts.requested_by:
            assert seen.get("eviction-source") == "descheduler", (
                f"VMI {move.vm}: eviction-source was {seen.get('eviction-source')!r}, wanted 'descheduler'"
            )


@check(
    "MIG-6",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="the VirtualMachineInstanceMigration reaches Succeeded with the expected source and target nodes",
)
def test_the_migration_succeeds_between_the_two_workers(rebalance: ScenarioRecord) -> None:
    """VMIM Succeeded, source and target are the two workers."""
    for move in _migrated(rebalance, Reached.MIGRATION_SEEN):
        vmim = move.vmim or {}
        phase = dig(vmim, "status", "phase")
        state = dig(vmim, "status", "migrationState", default={})
        assert phase == "Succeeded", (
            f"VMIM {name(vmim)}: phase {phase!r}, wanted 'Succeeded'; {dig(state, 'failureReason', default='no reason given')}"
        )
        found = (dig(state, "sourceNode"), dig(state, "targetNode"))
        assert found == (rebalance.source, rebalance.target), (
            f"VMIM {name(vmim)}: moved {found[0]} → {found[1]}, wanted {rebalance.source} → {rebalance.target}"
        )


@check(
    "MIG-7",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="the VMI is running on a different node, the VMI UID is unchanged, the VM remains Running/Ready",
)
def test_the_vm_runs_on_unharmed_elsewhere(rebalance: ScenarioRecord, evidence: Attach) -> None:
    """Same VMI UID on the other worker, never out of Running, ready at the end; not rebooted, where the guest agent tells."""
    before = {vm.name: vm for vm in rebalance.vms}
    for move in _migrated(rebalance, Reached.MIGRATED):
        who = f"VMI {rebalance.namespace}/{move.vm}"
        assert move.uid_after == before[move.vm].uid, (
            f"{who}: uid {move.uid_after}, was {before[move.vm].uid}: restarted, not migrated"
        )
        assert move.node_after == rebalance.target, f"{who}: status.nodeName {move.node_after!r}, wanted {rebalance.target!r}"
        left = [p for p in move.vmi_phases if p != "Running"]
        assert not left, f"{who}: went through phases {left} during the migration, wanted Running throughout"
        assert move.running_after, f"{who} is not Running after the migration"
        assert move.ready_after, f"{who} is not Ready after the migration"
        was, now = before[move.vm].guest, move.guest
        evidence("guest", who, f"boot id {was.boot_id} before, {now.boot_id} after" if now.boot_id else _not_verified(was, now))
        assert now.boot_id in ("", was.boot_id), (
            f"{who}: the guest's boot id is {now.boot_id}, was {was.boot_id}: it was rebooted, not migrated"
        )


@check(
    "MIG-8",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="and the old launcher has terminated",
)
def test_the_old_launcher_has_ended(rebalance: ScenarioRecord) -> None:
    """The launcher on the source ended well or is gone."""
    for move in _migrated(rebalance, Reached.MIGRATED):
        found = move.old_launcher_end or "still running"
        assert found in ("Succeeded", "deleted"), (
            f"Pod {rebalance.namespace}/{move.launcher} on {move.source}: {found}, wanted Succeeded or deleted"
        )


@check(
    "MIG-9",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="After the migration completes, virt-handler removes eviction-source and clears evacuationNodeName",
)
def test_the_markers_are_cleared(rebalance: ScenarioRecord) -> None:
    """Neither the VMI nor its running launcher carries an evacuation marker afterwards."""
    for move in _migrated(rebalance, Reached.MIGRATED):
        assert not move.markers_after, (
            f"VMI {rebalance.namespace}/{move.vm}: still marked after the migration: {move.markers_after}"
        )


@check(
    "MIG-10",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="It restricts Descheduler to the two workers under test, considers only the launchers of the test VMs",
)
def test_nothing_outside_the_namespace_was_touched(rebalance: ScenarioRecord) -> None:
    """No Pod or VM outside the test namespace was evicted or migrated by this run."""
    found = ", ".join(dict.fromkeys(rebalance.foreign_moves))
    assert not found, f"evicted by this run outside {rebalance.namespace}: {found}; the policy's scope does not hold"
    _need(rebalance, Reached.REQUESTED)


@check(
    "MIG-11",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="With the limits above it moves one VM per cycle until no node is below thresholds",
)
def test_later_cycles_move_one_vm_each_and_come_to_an_end(rebalance: ScenarioRecord) -> None:
    """Later cycles move at most one VM each, none twice, and the last one exits early with zero requests."""
    for cycle in rebalance.cycles[1:]:
        asked = cycle.report.requested
        assert len(asked) <= 1, f"cycle {cycle.number} asked for {len(asked)} VMs {asked}, wanted at most 1"
    moved = [m.vm for m in rebalance.moves]
    twice = sorted({vm for vm in moved if moved.count(vm) > 1})
    assert not twice, f"moved more than once: {', '.join(twice)}; the nodes swap roles, widen the gap between the thresholds"
    planned, cycles = rebalance.planned_moves, rebalance.cycles
    endless = bool(cycles) and len(cycles) > planned + 1 and bool(cycles[-1].report.requested)
    assert not endless, (
        f"{len(cycles)} cycles, {planned} moves planned, and the last one still asked for {cycles[-1].report.requested}"
    )
    _need(rebalance, Reached.BALANCED)
    last = cycles[-1].report
    early = [p.early_exit for p in last.passes if p.early_exit]
    assert early, f"cycle {cycles[-1].number} did not exit early"
    assert (last.total_evicted, last.eviction_requests) == (0, 0), (
        f"cycle {cycles[-1].number}: totalEvicted={last.total_evicted} evictionRequests={last.eviction_requests}, wanted 0 and 0"
    )


@check(
    "MIG-12",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="correlate the kubevirt-evacuation-* migration timestamp with the Eviction in background assumed line",
)
def test_cause_and_effect_form_one_timeline(rebalance: ScenarioRecord, evidence: Attach) -> None:
    """Decision, marker, migration, arrival and Events follow each other in this order, each with its time."""
    for move in _migrated(rebalance, Reached.MIGRATED):
        points, events = timeline.of_move(rebalance, move), timeline.told(rebalance, move)
        lines = [f"{timeline.clock(p.at)}  {p.what} ({p.source})" for p in points]
        lines += [f"{timeline.clock(at)}  Event {text}" for at, text in events]
        evidence("timeline", f"VM {move.vm}", "\n".join(lines) + "\n")
        missing = [p.what for p in points if p.at is None and p.what not in ("target Pod created", "marker cleared")]
        if missing or not events:
            inconclusive(f"VM {move.vm}: {', '.join(missing) or 'no Event about the migration'} was not observed")
        wrong = timeline.disorder(points)
        assert not wrong, f"VM {move.vm}: {'; '.join(wrong)}; compare the clocks of the nodes and of the API server"


@check(
    "MIG-13",
    level=Level.REQUIRED,
    impact=Impact.DISRUPTIVE,
    needs=["write", "engine"],
    source="Deleting the ResourcePatch restores the chart-managed policy within seconds; alternatively re-apply the backup file",
)
def test_everything_is_as_before(rebalance: ScenarioRecord) -> None:
    """Policy, CronJob and ResourcePatches equal to before, no migration of ours unfinished, namespace gone."""
    _need(rebalance, Reached.LOCKED)
    back = rebalance.rollback
    assert not back.left_behind, f"left behind: {', '.join(back.left_behind)}; delete them"
    assert not back.differences, f"not as before: {'; '.join(back.differences)}"
    assert back.done, f"the roll-back did not finish: {rebalance.stopped_because}"


def _not_verified(was: Guest, now: Guest) -> str:
    return f"guest not verified: {now.unknown if was.boot_id else was.unknown}"


def _printed(rebalance: ScenarioRecord) -> tuple[dict[str, str], ...]:
    """Our thresholds and targetThresholds as the engine prints them."""
    return tuple({r: f"{p:.2f}%" for r, p in rebalance.thresholds[k].items()} for k in ("thresholds", "targetThresholds"))


def _need(rebalance: ScenarioRecord, step: Reached) -> None:
    if rebalance.reached < step:
        inconclusive(
            f"the scenario did not reach {step.name.lower().replace('_', ' ')}: {rebalance.stopped_because or 'unknown reason'}"
        )


def _migrated(rebalance: ScenarioRecord, step: Reached) -> list[Move]:
    return [m for m in _followed(rebalance, step) if m.vmim is not None]


def _followed(rebalance: ScenarioRecord, step: Reached) -> list[Move]:
    """The first move of each VM, as far as it could be watched; that there is no second one is for MIG-11 to say."""
    _need(rebalance, step)
    firsts = {m.vm: m for m in reversed(rebalance.moves)}
    found = [m for m in rebalance.moves if m.followed and firsts[m.vm] is m]
    if not found:
        inconclusive(f"no move was followed to its end: {rebalance.stopped_because or 'unknown reason'}")
    return found
