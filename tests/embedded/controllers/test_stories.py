"""The embedded cluster does what a real KubeVirt 1.9 did, object by object: replays of recorded stories."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.embedded.controllers.virt.subresources import VirtSubresources
from fixtures.embedded.ports import AdmissionRequest
from fixtures.kube.objects import dig, name
from fixtures.kube.resources import VMS
from tests.embedded.controllers import stories
from tests.embedded.controllers.rig import NS, Planned, Rig

#: story → (pre-copy seconds, failures to come, extra seconds after each action, seconds at the end)
PLANS = {
    "a-success": (10.0, 0, 1.0, 20.0),
    "b-manual-eviction": (2.0, 0, 1.0, 20.0),
    "d-fail-fail-succeed": (2.0, 2, 0.0, 60.0),
}
#: Where the replay differs from a recording, and why.
DIFFERENCES = {
    "d-fail-fail-succeed": {
        # A race between virt-controller and virt-handler over the VMI, which heals itself.
        "Event about VMIM event": "Warning FailedHandOver: Failed to set MigrationStat in VMI status. "
        ":the server rejected our request due to an error in our request"
    }
}


def replay(story: str) -> Rig:
    """Do what the story did, at its pace."""
    seconds, failures, slack, rest = PLANS[story]
    rig = Rig(migrations=Planned(seconds, failures))
    rig.changes.clear()
    before = 0
    for event in stories.load(story)["events"]:
        if "action" in event:
            rig.clock.advance((event["t"] - before) / 1000 + slack)
            before = event["t"]
            act(rig, event)
    rig.clock.advance(rest)
    return rig


def act(rig: Rig, event: dict[str, Any]) -> None:
    request = event.get("request") or {}
    path = request.get("path", "")
    if path.endswith("/virtualmachines"):
        request["body"]["metadata"]["namespace"] = NS
        rig.create(VMS, request["body"])
    elif path.endswith("/eviction") or event["action"] == "descheduler v0.36.0 one-shot run starts":
        by = not path or bool(dig(request, "body", "metadata", "annotations"))
        rig.evict(name(rig.pods(_vm(rig))[0]), descheduler=by)
    elif path.endswith("/migrate"):
        VirtSubresources(rig.ctx).migrate(NS, _vm(rig))


def _vm(rig: Rig) -> str:
    return name(rig.store.list(VMS, NS)[0])


@pytest.mark.parametrize("story", sorted(PLANS))
def test_every_fact_of_every_object_takes_the_recorded_course(story: str) -> None:
    recorded = stories.timelines(stories.recorded(stories.load(story)))
    for fact, only_recorded in DIFFERENCES.get(story, {}).items():
        recorded[fact].remove(only_recorded)
    assert stories.timelines(stories.observed(replay(story).changes, NS)) == recorded


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
