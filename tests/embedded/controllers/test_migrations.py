"""Evacuations and migrations: limits, queue, cancellation, stop and delete, targets that do not come up, versions."""

from __future__ import annotations

import pytest

from fixtures.embedded.controllers.virt.subresources import VirtSubresources
from fixtures.embedded.faults.node_down import lose
from fixtures.embedded.ports import ApiError
from fixtures.kube.objects import annotations_of, condition, dig, is_true, labels, name
from fixtures.kube.resources import NODES, PDBS, PODS, VMIMS, VMIS, VMS, Obj
from tests.embedded.controllers.rig import NS, Planned, Rig, events

MAINTENANCE, CRITICAL = "system-maintenance", "system-critical"


def phases(rig: Rig) -> dict[str, str]:
    return {m["spec"]["vmiName"]: str(dig(m, "status", "phase", default="")) for m in rig.migrations_of()}


def pinned(worker: int) -> Obj:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [f"worker-{worker}"]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}}


def crowd(version: str = "1.9.0") -> Rig:
    """Ten VMs on three nodes, all evicted at once, every other one by the descheduler; a user's migration on top."""
    rig = Rig(kubevirt_version=version, migrations=Planned(8.0))
    for i, worker in enumerate((0, 0, 0, 0, 1, 1, 1, 1, 2, 2)):
        rig.vm(f"vm-{i}", affinity=pinned(worker))
    rig.vm("vm-user", affinity=pinned(2))
    rig.clock.advance(4)
    for i in range(10):
        assert rig.evict(name(rig.pods(f"vm-{i}")[0]), descheduler=i % 2 == 0)[0] == 429
    rig.clock.advance(1)
    rig.create(VMIMS, {"metadata": {"name": "by-hand"}, "spec": {"vmiName": "vm-user"}})
    return rig


def test_limits_hold_and_priorities_order_the_queue() -> None:
    rig = crowd()
    assert len(rig.migrations_of()) == 11
    priorities = {m["spec"]["vmiName"]: m["spec"].get("priority") for m in rig.migrations_of()}
    assert priorities == {**{f"vm-{i}": MAINTENANCE if i % 2 == 0 else CRITICAL for i in range(10)}, "vm-user": None}
    started: list[str] = []
    end = rig.clock.now() + 60
    while rig.clock.step(end):
        active = [m for m in rig.migrations_of() if dig(m, "status", "phase") not in (None, "Pending", "Succeeded", "Failed")]
        assert len(active) <= 5
        nodes = [dig(rig.vmi(m["spec"]["vmiName"]), "status", "migrationState", "sourceNode") for m in active]
        assert all(nodes.count(n) <= 2 for n in nodes if n)
        started += [m["spec"]["vmiName"] for m in active if m["spec"]["vmiName"] not in started]
    assert set(phases(rig).values()) == {"Succeeded"}
    waiting = [vm for vm in started[5:] if vm != "vm-user"]
    ranks = [MAINTENANCE if int(vm.removeprefix("vm-")) % 2 == 0 else CRITICAL for vm in waiting]
    assert ranks == sorted(ranks)
    assert started[-1] == "vm-user"


def test_without_the_queue_only_as_many_migrations_are_created_as_may_run() -> None:
    rig = crowd("1.8.4")
    assert len(rig.migrations_of()) <= 6
    assert all("priority" not in m["spec"] for m in rig.migrations_of())
    rig.clock.advance(120)
    assert set(phases(rig).values()) == {"Succeeded"}
    assert len(phases(rig)) == 11


def test_an_external_vmi_is_marked_and_left_alone() -> None:
    rig = Rig()
    pod = rig.running(evictionStrategy="External")
    rig.mark()
    rig.clock.advance(60)
    assert rig.migrations_of() == []
    assert annotations_of(rig.pods()[0])["descheduler.alpha.kubernetes.io/eviction-in-progress"] == "true"
    assert is_true(rig.vmi(), "EvictionRequested")
    assert name(rig.pods()[0]) == pod


def test_a_second_migration_and_one_of_a_vmi_that_cannot_move_are_refused() -> None:
    rig = Rig()
    rig.running()
    first = rig.create(VMIMS, {"metadata": {"name": "one"}, "spec": {"vmiName": "vm-a"}})
    with pytest.raises(ApiError) as refused:
        rig.create(VMIMS, {"metadata": {"name": "two"}, "spec": {"vmiName": "vm-a"}})
    text = f"in-flight migration detected. Active migration job ({first['metadata']['uid']}) is currently already in progress"
    assert (refused.value.code, refused.value.reason) == (400, "")
    assert refused.value.message.endswith(f"denied the request: {text} for VMI vm-a.")
    bridge = {"devices": {"interfaces": [{"name": "default", "bridge": {}}]}}
    rig.running("vm-b", domain=bridge)
    with pytest.raises(ApiError, match="Cannot migrate VMI, Reason: InterfaceNotLiveMigratable, Message: cannot migrate VMI which"):
        rig.create(VMIMS, {"metadata": {"name": "three"}, "spec": {"vmiName": "vm-b"}})
    with pytest.raises(ApiError, match="only virt-controller is allowed to set priority field") as refused:
        rig.create(VMIMS, {"metadata": {"name": "four"}, "spec": {"vmiName": "vm-a", "priority": CRITICAL}})
    assert refused.value.code == 422
    assert labels(first)["kubevirt.io/vmi-name"] == "vm-a"
    assert first["metadata"]["finalizers"] == ["kubevirt.io/migrationJobFinalize"]


def test_a_manual_migration_clears_a_mark_and_no_second_one_is_made() -> None:
    rig = Rig()
    rig.running()
    rig.create(VMIMS, {"metadata": {"name": "manual"}, "spec": {"vmiName": "vm-a"}})
    rig.wait(lambda: phases(rig)["vm-a"] == "Running")
    rig.mark()
    rig.clock.advance(20)
    assert [name(m) for m in rig.migrations_of()] == ["manual"]
    assert "evacuationNodeName" not in rig.vmi()["status"]


def test_deleting_the_migration_only_aborts_the_attempt() -> None:
    rig = Rig(migrations=Planned(60.0))
    rig.running()
    rig.mark()
    rig.wait(lambda: phases(rig).get("vm-a") == "Running")
    first = rig.migrations_of()[0]
    rig.store.delete(VMIMS, NS, name(first))
    rig.clock.advance(1)
    assert rig.migrations_of() == []
    assert dig(rig.vmi(), "status", "migrationState", "abortStatus") == "Succeeded"
    assert ("SuccessfulAbortMigration", "Migration is ready to be canceled by virt-handler.") in events(rig, name(first))
    rig.wait(lambda: phases(rig).get("vm-a") == "Running", within=30)
    assert name(rig.migrations_of()[0]) != name(first)


def test_cancelling_takes_the_node_s_name_and_leaves_migration_and_source_alone() -> None:
    rig = Rig(migrations=Planned(60.0))
    rig.running()
    actions = VirtSubresources(rig.ctx)
    assert actions.cancel(NS, "vm-a", {"evacuationNodeName": "worker-0"}).code == 200
    rig.mark()
    rig.wait(lambda: phases(rig).get("vm-a") == "Running")
    node = rig.vmi()["status"]["evacuationNodeName"]
    for body in ({}, {"evacuationNodeName": "no-such-node"}):
        with pytest.raises(ApiError, match="the server rejected our request due to an error in our request") as refused:
            actions.cancel(NS, "vm-a", body)
        assert refused.value.code == 500
    assert actions.cancel(NS, "vm-a", {"evacuationNodeName": node}).code == 200
    rig.clock.advance(1)
    source = rig.pods()[0]
    assert "descheduler.alpha.kubernetes.io/eviction-in-progress" not in annotations_of(source)
    assert condition(rig.vmi(), "EvictionRequested") is None
    assert annotations_of(rig.vmi())["kubevirt.io/eviction-source"] == "descheduler"
    rig.store.delete(VMIMS, NS, name(rig.migrations_of()[0]))
    rig.clock.advance(60)
    assert rig.migrations_of() == []
    rig.evict(name(source), descheduler=False)
    rig.clock.advance(1)
    assert rig.migrations_of()[0]["spec"]["priority"] == MAINTENANCE


def test_cancelling_is_refused_while_the_node_is_drained() -> None:
    rig = Rig()
    rig.running()
    rig.mark()
    node = rig.vmi()["status"]["evacuationNodeName"]
    taint = {"key": "kubevirt.io/drain", "effect": "NoSchedule"}
    rig.store.edit(NODES, None, node, lambda n: n["spec"].update(taints=[taint]))
    with pytest.raises(ApiError, match=f'Node "{node}" has NodeDrainTaintKey "kubevirt.io/drain"') as refused:
        VirtSubresources(rig.ctx).cancel(NS, "vm-a", {"evacuationNodeName": node})
    assert refused.value.code == 400


def test_the_drain_taint_evacuates_unmarked_vmis() -> None:
    rig = Rig()
    rig.running()
    node = rig.vmi()["status"]["nodeName"]
    rig.store.edit(NODES, None, node, lambda n: n["spec"].update(taints=[{"key": "kubevirt.io/drain", "effect": "NoSchedule"}]))
    rig.clock.advance(15)
    assert rig.vmi()["status"]["nodeName"] != node
    assert rig.migrations_of()[0]["spec"]["priority"] == CRITICAL


@pytest.mark.parametrize("how", ["stop", "delete"])
def test_migrations_end_with_the_vmi_and_are_removed_with_it(how: str) -> None:
    rig = Rig(migrations=Planned(60.0))
    rig.running()
    rig.mark()
    rig.wait(lambda: phases(rig).get("vm-a") == "Running")
    vmim, old = rig.migrations_of()[0], rig.vmi()
    if how == "stop":
        VirtSubresources(rig.ctx).power(NS, "vm-a", "stop")
    else:
        rig.store.delete(VMIS, NS, "vm-a")
    rig.clock.advance(3)
    assert rig.migrations_of() == []
    failed = [c for c in rig.changes if name(c.object) == name(vmim) and dig(c.object, "status", "phase") == "Failed"]
    assert failed
    vm = rig.store.get(VMS, NS, "vm-a")
    if how == "stop":
        assert dig(vm, "status", "printableStatus") == "Stopped"
        assert rig.store.get(VMIS, NS, "vm-a") is None
        assert rig.pods() == []
    else:
        assert rig.vmi()["metadata"]["uid"] != old["metadata"]["uid"]
        assert "evacuationNodeName" not in rig.vmi()["status"]


def test_an_unschedulable_target_is_given_up_after_its_time() -> None:
    rig = Rig(workers=1)
    rig.running()
    rig.mark()
    rig.clock.advance(2)
    target = rig.pods()[1]
    assert dig(condition(target, "PodScheduled"), "reason") == "Unschedulable"
    message = dig(condition(target, "PodScheduled"), "message")
    assert message.startswith("0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.")
    rig.clock.advance(290)
    assert phases(rig)["vm-a"] == "Scheduling"
    rig.clock.advance(20)
    assert dig(rig.migrations_of()[0], "status", "phase") == "Failed"
    assert rig.store.get(PODS, NS, name(target)) is None
    assert rig.vmi()["status"]["evacuationNodeName"]


def test_the_time_out_can_be_set_on_the_migration() -> None:
    rig = Rig(workers=1)
    rig.running()
    override = {"kubevirt.io/migrationUnschedulablePodTimeoutSeconds": "5"}
    rig.create(VMIMS, {"metadata": {"name": "short", "annotations": override}, "spec": {"vmiName": "vm-a"}})
    rig.clock.advance(8)
    assert phases(rig)["vm-a"] == "Failed"


def test_a_freed_node_lets_the_waiting_target_in() -> None:
    rig = Rig(workers=2)
    pod = rig.running()
    node = dig(rig.store.get(PODS, NS, pod), "spec", "nodeName")
    other = next(name(n) for n in rig.store.list(NODES) if name(n) != node)
    rig.store.edit(NODES, None, other, lambda n: n["spec"].update(unschedulable=True))
    rig.mark()
    rig.clock.advance(30)
    assert phases(rig)["vm-a"] == "Scheduling"
    rig.store.edit(NODES, None, other, lambda n: n["spec"].pop("unschedulable"))
    rig.clock.advance(15)
    assert rig.vmi()["status"]["nodeName"] == other


def test_only_five_finished_migrations_are_kept() -> None:
    rig = Rig(migrations=Planned(1.0, failures=8))
    rig.running()
    rig.mark()
    rig.clock.advance(1500)
    assert 5 <= len(rig.migrations_of()) <= 6


def test_a_lost_target_node_fails_the_attempt() -> None:
    rig = Rig(migrations=Planned(30.0))
    rig.running()
    rig.mark()
    rig.wait(lambda: phases(rig).get("vm-a") == "Running")
    state = rig.vmi()["status"]["migrationState"]
    lose(rig, state["targetNode"])  # type: ignore[arg-type]
    rig.clock.advance(2)
    assert phases(rig)["vm-a"] == "Failed"
    assert rig.vmi()["status"]["nodeName"] == state["sourceNode"]
    taints = dig(rig.store.get(NODES, None, state["targetNode"]), "spec", "taints")
    assert {t["key"] for t in taints} == {"node.kubernetes.io/unreachable"}


@pytest.mark.parametrize(("version", "writes"), [("1.5.2", 1), ("1.6.0", 3), ("1.9.0", 3)])
def test_the_acknowledgement_comes_in_one_or_three_writes(version: str, writes: int) -> None:
    rig = Rig(kubevirt_version=version)
    rig.running()
    rig.mark()
    rig.clock.advance(20)
    seen = [c.object for c in rig.changes if c.resource.key == VMIS.key and c.old is not None]
    acknowledged = [o for o in seen if dig(o, "status", "migrationState", "endTimestamp")]
    split = [o for o in acknowledged if not dig(o, "status", "migrationState", "completed")]
    assert bool(split) is (writes == 3)
    assert all("evacuationNodeName" not in o["status"] for o in acknowledged)
    assert dig(rig.vmi(), "status", "migrationState", "completed") is True


@pytest.mark.parametrize(("version", "kept"), [("1.6.0", False), ("1.6.1", True), ("1.9.0", True)])
def test_a_failure_keeps_the_marker_or_removes_it(version: str, kept: bool) -> None:
    rig = Rig(kubevirt_version=version, migrations=Planned(2.0, failures=1))
    pod = rig.running()
    rig.mark()
    rig.wait(lambda: phases(rig).get("vm-a") == "Failed")
    rig.clock.advance(0.5)
    marker = annotations_of(rig.store.get(PODS, NS, pod) or {}).get("descheduler.alpha.kubernetes.io/eviction-in-progress")
    assert (marker is not None) is kept
    assert rig.vmi()["status"]["evacuationNodeName"]


@pytest.mark.parametrize(("version", "expected"), [("1.5.2", [1, 2, 1]), ("1.6.0", [])])
def test_a_budget_per_vmi_until_1_5(version: str, expected: list[int]) -> None:
    rig = Rig(kubevirt_version=version)
    rig.running()
    rig.mark()
    rig.clock.advance(20)
    seen = [c.object["spec"]["minAvailable"] for c in rig.changes if c.resource.key == PDBS.key]
    assert [v for i, v in enumerate(seen) if i == 0 or seen[i - 1] != v] == expected


def test_a_budget_left_over_by_an_older_release_is_deleted() -> None:
    rig = Rig()
    rig.running()
    vmi = rig.vmi()
    ref = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm-a", "uid": vmi["metadata"]["uid"]}
    meta = {"name": "kubevirt-disruption-budget-x", "namespace": NS, "ownerReferences": [{**ref, "controller": True}]}
    rig.store.create(PDBS, {"metadata": meta, "spec": {"minAvailable": 1, "selector": {}}})
    rig.clock.advance(1)
    assert rig.store.list(PDBS) == []


def test_the_bandwidth_of_a_policy_holds_a_migration_in_flight() -> None:
    from fixtures.embedded.controllers.virt.handler import PlainMigrations
    from fixtures.embedded.controllers.virt.settings import MIGRATION_POLICIES

    rig = Rig()
    rig.ctx.migrations = PlainMigrations()
    selectors = {"virtualMachineInstanceSelector": {"app": "desched-test"}}
    policy = {"metadata": {"name": "slow"}, "spec": {"selectors": selectors, "bandwidthPerMigration": "1Ki"}}
    rig.store.create(MIGRATION_POLICIES, policy)
    rig.running()
    rig.mark()
    rig.clock.advance(600)
    assert phases(rig)["vm-a"] == "Running"
    assert rig.vmi()["status"]["migrationState"]["migrationPolicyName"] == "slow"
