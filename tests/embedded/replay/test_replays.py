"""Recorded stories over HTTP: every answer and every fact of every object as a real KubeVirt 1.9 gave them; the rest is listed.

Stories a, b, c, d, g and h are replayed without a server beside the controllers' tests.
"""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.kube.resources import PDBS
from tests.embedded.controllers.web import Web
from tests.embedded.replay.replaying import Answer, Course, Replay, recorded

pytestmark = pytest.mark.slow


def _guard(web: Web) -> None:
    selector = {"matchLabels": {"app": "desched-test"}}
    web.request(
        "POST", PDBS.path("story-l"), {"metadata": {"name": "guard"}, "spec": {"minAvailable": "100%", "selector": selector}}
    )


def _no_guard(web: Web) -> None:
    web.request("DELETE", PDBS.path("story-l", "guard"))


PLANS: dict[str, dict[str, Any]] = {
    "e-strategies": {"seconds": 3.0, "unshared": ("lm-nonmig", "ifp-nonmig"), "rest": 5.0},
    "f-many": {"seconds": 6.0, "rest": 60.0},
    "i-pending-target": {"seconds": 2.0, "rest": 24.0},
    "k-cluster-default": {"seconds": 2.0, "rest": 5.0},
    "l-responses": {
        "seconds": 6.0,
        "rest": 18.0,
        "ahead": {
            "user-made PDB 'guard' minAvailable 100% covers both launchers": _guard,
            "evict the completed source Pod": _no_guard,
        },
        "left_out": ("evict while virt-api does not answer", "evict while virt-api is down"),
    },
    "m-pdb": {"seconds": 2.0, "rest": 3.0},
}

#: A race between virt-controller and virt-handler over the VMI, which heals itself.
RACE = (
    "Warning FailedHandOver: Failed to set MigrationStat in VMI status. "
    ":the server rejected our request due to an error in our request"
)
_NO_END = "the stand-in kubelet removed hand-made Pods without ending them; a real one, and this, ends them first"
_SEEN = "how much of a short-lived state is written before the next one depends on the load of the machine"
#: Story → fact → why it differs. The table of docs/embedded-cluster.md says the same.
DIFFERENCES: dict[str, dict[str, str]] = {
    "l-responses": {
        f"Pod {pod} {fact}": _NO_END
        for pod in ("hp-volume-x2", "pod#1", "virt-launcher-nodomain")
        for fact in ("condition ContainersReady", "condition Ready", "phase")
    },
    "k-cluster-default": {
        "VM vm-old condition Ready": _SEEN,
        "VMI vm-old condition Ready": _SEEN,
        "VMI vm-old activePods": _SEEN,
        "VMI vm-new phase": "after an allowed eviction the recorded VMI ends as Failed here and as Succeeded in story e: a race",
    },
}
#: The stand-in that declared disks not shared did not know a claim's name.
_CLAIM = "PVC lm-nonmig is not shared"


@pytest.fixture(scope="module", params=sorted(PLANS))
def replayed(request: pytest.FixtureRequest) -> tuple[str, list[Answer], Course]:
    replay = Replay(request.param, **PLANS[request.param])
    return request.param, replay.answers, replay.run().course()


def test_every_fact_of_every_object_takes_the_recorded_course(replayed: tuple[str, list[Answer], Course]) -> None:
    story, _, got = replayed
    wanted = {fact: [v for v in values if v != RACE] for fact, values in recorded(story).course().items()}
    different = {fact for fact in {*got, *wanted} if got.get(fact) != wanted.get(fact)}
    assert {f: (wanted.get(f), got.get(f)) for f in different - set(DIFFERENCES.get(story, {}))} == {}
    assert different == set(DIFFERENCES.get(story, {})), "a difference is gone: take it off the list"


def test_every_request_gets_the_recorded_answer(replayed: tuple[str, list[Answer], Course]) -> None:
    _, answers, _ = replayed
    assert answers
    for answer in answers:
        code, message = answer.got
        assert (code, message.replace(_CLAIM, "PVC is not shared")) == answer.wanted, answer.action
