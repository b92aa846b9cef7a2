"""Story j: the real descheduler moved one VM per cycle until nothing was left to do; the reference engine does the same.

Which of six equal VMs is taken is open, so VMs are named by the order in which they moved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
import yaml

from fixtures.engine.reference import process
from fixtures.kube.objects import dig
from fixtures.kube.podresources import pod_requests
from fixtures.kube.quantities import parse
from fixtures.kube.resources import NAMESPACES, PODS, Obj
from tests.embedded.controllers.web import Web
from tests.embedded.replay.replaying import Course, Replay, load, recorded

pytestmark = pytest.mark.slow
STORY = "j-bounded-rebalance"
ARGS = ("--policy-config-file=/policy-dir/policy.yaml", "--feature-gates=EvictionsInBackground=true", "--v=3")
#: Requests of each worker at the start, as the descheduler's log told: CPU, memory, Pods.
USAGE = {"worker-a": ("4640m", 13989337216, 16), "worker-b": ("4010m", 7693 * 2**20, 9)}
RACE = "Warning FailedHandOver"


def fill(web: Web) -> None:
    """Pods that nobody moves, until the workers are as full as the recorded ones."""
    web.request("POST", NAMESPACES.path(), {"metadata": {"name": "filler"}})
    for node, (cpu, memory, count) in USAGE.items():
        mine = [pod_requests(p) for p in web.list(PODS) if dig(p, "spec", "nodeName") == node]
        missing = {
            "cpu": f"{parse(cpu).nano // 10**6 - sum(r['cpu'].nano for r in mine if 'cpu' in r) // 10**6}m",
            "memory": str(memory - sum(r["memory"].nano for r in mine if "memory" in r) // 10**9),
        }
        for number in range(count - len(mine)):
            container: Obj = {"name": "c", "image": "pause", "resources": {"requests": {} if number else missing}}
            pod = {"metadata": {"name": f"{node}-{number}"}, "spec": {"nodeName": node, "containers": [container]}}
            reply = web.request("POST", PODS.path("filler"), pod)
            assert reply.code == 201, reply
    web.server.clock.advance(1)


class Engine:
    """Runs cycles with the recorded policy; ``log`` is one text per cycle."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def cycle(self, web: Web) -> None:
        written: list[bytes] = []
        run = process.run(
            ARGS,
            env={},
            files={"/policy-dir/policy.yaml": yaml.safe_dump(load(STORY)["policy"])},
            kubeconfig=web.server.kubeconfig("admin"),
            write=written.append,
            now=web.server.clock.now,
        )
        for pause in run:
            web.server.clock.advance(pause)
        self.log.append(b"".join(written).decode())


def in_order(course: Course) -> Course:
    """VMs renamed by the order of their migrations, which is the order in which their facts appear."""
    moved = dict.fromkeys(re.findall(r"VMIM (vm-\d)/", " ".join(course)))
    names = {vm: f"mover-{n}" for n, vm in enumerate(moved, 1)}

    def renamed(text: str) -> str:
        return re.sub(r"vm-\d", lambda found: names.get(found[0], found[0]), text)

    lines = {renamed(fact): [renamed(v) for v in values if not v.startswith(RACE)] for fact, values in course.items()}
    return {fact: sorted(values) if fact.endswith(" event") else values for fact, values in lines.items()}


def decisions(lines: Iterable[str]) -> list[str]:
    """What a log tells about nodes and numbers, without memory in the unit it happens to be shown in."""
    wanted = ("Node has been classified", "Pods on node", "Number of evictions/requests", "No node is underutilized")
    found = [line[line.index('"') :] for line in lines if any(f'"{w}' in line for w in wanted)]
    return sorted(re.sub(r" usage=\{[^}]*\}", "", line).strip() for line in found)


@pytest.fixture(scope="module")
def replayed() -> tuple[Engine, Replay, Course]:
    engine = Engine()
    cycles = {f"cycle {n}: bounded VM policy, gate on": engine.cycle for n in (1, 2, 3, 4)}
    edit = "ConfigMap descheduler/descheduler: data.policy.yaml replaced"
    replay = Replay(STORY, seconds=10.0, rest=1.0, ahead={"placement before": fill, **cycles}, left_out=(edit,))
    return engine, replay, replay.run().course()


def test_three_machines_move_one_after_the_other_and_then_none(replayed: tuple[Engine, Replay, Course]) -> None:
    _, _, course = replayed
    assert in_order(course) == in_order(recorded(STORY).course())


def test_each_cycle_sees_and_decides_what_the_real_one_did(replayed: tuple[Engine, Replay, Course]) -> None:
    engine, _, _ = replayed
    cycles: list[list[str]] = []
    for event in load(STORY)["events"]:
        if str(event.get("action", "")).startswith("cycle"):
            cycles.append([])
        elif "log" in event:
            cycles[-1].append(str(event["log"]["text"]) if isinstance(event["log"], dict) else str(event["log"]))
    assert [decisions(text.splitlines()) for text in engine.log] == [decisions(lines) for lines in cycles[1:]]
