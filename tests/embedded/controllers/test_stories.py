"""The embedded cluster does what a real KubeVirt 1.9 did, object by object: replays of recorded stories."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fixtures.embedded.controllers.virt.subresources import VirtSubresources
from fixtures.embedded.ports import AdmissionRequest, ApiError
from fixtures.kube.objects import dig, name
from fixtures.kube.resources import VMIMS, VMIS, VMS, Obj
from tests.embedded.controllers import stories
from tests.embedded.controllers.rig import NS, Planned, Rig

#: story → (pre-copy seconds, failures to come, extra seconds after each action, seconds at the end)
PLANS = {
    "a-success": (10.0, 0, 1.0, 20.0),
    "b-manual-eviction": (2.0, 0, 1.0, 20.0),
    "c-repeat": (8.0, 0, 0.0, 20.0),
    "d-fail-fail-succeed": (2.0, 2, 0.0, 60.0),
    "g-cancel": (60.0, 0, 0.0, 1.0),
}
#: An Event of the recordings that is left out: a race between virt-controller and virt-handler over the VMI, which heals itself.
RACE = (
    "Warning FailedHandOver: Failed to set MigrationStat in VMI status. "
    ":the server rejected our request due to an error in our request"
)


def replay(story: str) -> Rig:
    """Do what the story did, at its pace."""
    seconds, failures, slack, rest = PLANS[story]
    rig = Rig(migrations=Planned(seconds, failures))
    rig.changes.clear()
    recording = stories.load(story)
    before = 0
    for event in recording["events"]:
        if "action" in event:
            rig.clock.advance((event["t"] - before) / 1000 + slack)
            before = event["t"]
            act(rig, recording, event)
    rig.clock.advance(rest)
    return rig


def act(rig: Rig, recording: Obj, event: Obj) -> None:
    """Do one action; what it answered was recorded too."""
    if event["action"] == "descheduler v0.36.0 one-shot run starts":
        rig.evict(name(rig.pods(_vm(rig))[0]))
    elif "request" in event and "answers 406" not in event["action"]:  # asked over HTTP elsewhere
        answer = next((e["response"] for e in recording["events"] if e.get("response", {}).get("to") == event["action"]), None)
        code, message = request(rig, recording, event["request"])
        assert answer is not None
        assert code == answer["httpStatus"], event["action"]
        wanted = answer["body"].get("message", "") if isinstance(answer["body"], dict) else ""
        uids = re.compile(r"\([0-9a-f-]{36}\)")
        assert uids.sub("(UID)", message) == uids.sub("(UID)", wanted.replace(recording["namespace"], NS))


def request(rig: Rig, recording: Obj, asked: Obj) -> tuple[int, str]:
    """Make a recorded request; code and message of a refusal."""
    path, body = asked["path"].partition("?")[0], asked.get("body") or {}
    parts, actions = path.split("/"), VirtSubresources(rig.ctx)
    if path.endswith("/eviction"):
        by = bool(dig(body, "metadata", "annotations"))
        more = {"deleteOptions": body["deleteOptions"]} if "deleteOptions" in body else {}
        return rig.evict(_counterpart(rig, recording, "Pod", parts[-2]), descheduler=by, dry_run="dryRun" in asked["path"], **more)
    try:
        if path.endswith("/evacuate/cancel"):
            return actions.cancel(NS, _vm(rig), _same_node(rig, recording, body)).code, ""
        if path.endswith("/migrate"):
            return actions.migrate(NS, _vm(rig)).code, ""
        if path.endswith("/stop"):
            return actions.power(NS, parts[-2], "stop").code, ""
        if path.endswith("/virtualmachineinstances/vm-del"):
            rig.store.delete(VMIS, NS, "vm-del")
            return 200, ""
        if asked["method"] == "DELETE":
            rig.store.delete(VMIMS, NS, _counterpart(rig, recording, "VirtualMachineInstanceMigration", parts[-1]))
            return 200, ""
        body["metadata"]["namespace"] = NS
        rig.create(VMS if path.endswith("/virtualmachines") else VMIMS, body)
    except ApiError as refusal:
        return refusal.code, refusal.message
    return 201, ""


def _counterpart(rig: Rig, recording: Obj, kind: str, recorded: str) -> str:
    """The object that was the so-manieth of its kind in both worlds."""
    told = [i["name"] for i in recording.get("initial") or [] if i["resource"] == kind]
    told += [e["name"] for e in recording["events"] if e.get("type") == "ADDED" and e.get("resource") == kind]
    made = [name(c.object) for c in rig.changes if c.type == "ADDED" and c.resource.kind == kind]
    return made[told.index(recorded)]


def _same_node(rig: Rig, recording: Obj, body: Obj) -> Obj:
    """The marked node for a node of the recording; other names as they are."""
    known = {str(dig(e, "object", "spec", "nodeName")) for e in recording["events"] if e.get("resource") == "Pod"}
    known |= {str(d.get("new")) for e in recording["events"] for d in e.get("diff") or [] if d["path"] == "/spec/nodeName"}
    if body.get("evacuationNodeName") in known:
        return {"evacuationNodeName": rig.vmi(_vm(rig))["status"].get("evacuationNodeName", "")}
    return body


def _vm(rig: Rig) -> str:
    return name(rig.store.list(VMS, NS)[0])


def course(steps: list[stories.Step]) -> dict[str, list[str]]:
    """Timelines without the race; which of several free nodes the scheduler takes does not matter."""
    found = {}
    for fact, values in stories.timelines(steps).items():
        same = [re.sub(r"node#[3-9]", "node#2", v) for v in values if v != RACE]
        found[fact] = [v for i, v in enumerate(same) if i == 0 or same[i - 1] != v]
    return found


@pytest.mark.parametrize("story", sorted(PLANS))
def test_every_fact_of_every_object_takes_the_recorded_course(story: str) -> None:
    recorded = course(stories.recorded(stories.load(story)))
    assert course(stories.observed(replay(story).changes, NS)) == recorded


def test_a_stop_and_a_deletion_in_flight_take_the_recorded_course() -> None:
    """Story h begins with two running VMs; where the restarted one goes, and which of two causes is told, is chance."""
    recording = stories.load("h-stop-delete")
    rig = Rig(migrations=Planned(30.0))
    rig.changes.clear()
    for vm in ("vm-stop", "vm-del"):
        rig.vm(vm)
    rig.clock.advance(4)
    initial = [rig.store.get(VMS, NS, vm) or {} for vm in ("vm-stop", "vm-del")]
    initial += [o for vm in ("vm-stop", "vm-del") for o in (rig.vmi(vm), rig.pods(vm)[0])]
    begun, before = len(rig.changes), recording["events"][0]["t"]
    for event in recording["events"]:
        if "action" in event:
            rig.clock.advance((event["t"] - before) / 1000)
            before = event["t"]
            act(rig, recording, event)
    rig.clock.advance(5)

    def anywhere(steps: list[stories.Step]) -> dict[str, list[str]]:
        found = {fact: [re.sub(r"node#\d", "node", v) for v in values] for fact, values in course(steps).items()}
        found["Event about VMIM event"] = [
            v for v in found["Event about VMIM event"] if not v.startswith("Warning FailedMigration")
        ]
        return {fact: [v for i, v in enumerate(values) if i == 0 or values[i - 1] != v] for fact, values in found.items()}

    observed = stories.observed(rig.changes[begun:], NS, initial=initial)
    told, seen = anywhere(stories.recorded(recording)), anywhere(observed)
    moved = {"VMI vm#2 nodeName", "VMI vm#2 label kubevirt.io/nodeName"}
    assert {k: v for k, v in seen.items() if k not in moved} == {k: v for k, v in told.items() if k not in moved}


def test_the_whole_evacuation_happens_in_the_recorded_order_across_objects() -> None:
    def milestones(steps: list[stories.Step]) -> list[str]:
        texts = [str(s) for s in steps if s.kind != "Event"]
        first = next(i for i, text in enumerate(texts) if "evacuationNodeName=" in text)
        return texts[first:]

    recorded = milestones(stories.recorded(stories.load("a-success")))
    observed = milestones(stories.observed(replay("a-success").changes, NS))
    # The VM mirrors the VMI, and the VMI its Pods, concurrently with what follows.
    mirrored = ("VM vm#1", "VMI vm#1: activePods=")
    assert [t for t in observed if not t.startswith(mirrored)] == [t for t in recorded if not t.startswith(mirrored)]
    assert [t for t in observed if t.startswith(mirrored[0])] == [t for t in recorded if t.startswith(mirrored[0])]


def test_back_off_is_twenty_then_forty_seconds_after_the_failure() -> None:
    rig = replay("d-fail-fail-succeed")
    first, second, third = rig.migrations_of("vm-d")
    ended = [_at(first, "Failed"), _at(second, "Failed")]
    started = [_at(second, "Scheduling"), _at(third, "Scheduling")]
    assert [round(b - a) for a, b in zip(ended, started, strict=True)] == [20, 40]
    assert dig(third, "status", "phase") == "Succeeded"


def _at(vmim: dict[str, Any], phase: str) -> float:
    from fixtures.embedded.clock import parse
    from fixtures.embedded.controllers.virt.settings import phase_at

    return parse(phase_at(vmim, phase))


def test_two_runs_are_identical() -> None:
    def run() -> list[tuple[str, str, int]]:
        return [(c.type, name(c.object), c.rv) for c in replay("a-success").changes]

    assert run() == run()


def test_the_hook_leaves_other_requests_alone() -> None:
    rig = Rig()
    request = AdmissionRequest("CREATE", VMS, "status", NS, "x", {}, None, "admin", False)
    for hook in rig.hooks:
        hook(request)
    assert request.object == {}
