"""Short ways to nodes, Pods and policies for the engine's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fixtures.engine.line import Line
from fixtures.engine.reference.decide import decide
from fixtures.engine.reference.evictor import Answer, Attempt
from fixtures.engine.reference.inflight import IN_PROGRESS, REQUEST_ONLY, InFlight
from fixtures.engine.reference.policy import Policy, load
from fixtures.engine.reference.snapshot import Snapshot
from fixtures.engine.report import CycleReport

Obj = dict[str, Any]
NOW = 1_780_000_000.0
TRIGGERED = 'Eviction triggered evacuation of VMI "default/vm"'


def node(name: str, cpu: str = "10", memory: str = "10Gi", pods: str = "100", **spec: Any) -> Obj:
    resources = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"capacity": resources, "allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str, on: str = "n1", ns: str = "default", *, cpu: str = "1", memory: str = "512Mi", **more: Any) -> Obj:
    spec = {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}
    owners = more.pop("owners", [{"kind": "ReplicaSet", "name": "rs", "uid": f"rs-{name}", "controller": True}])
    metadata = {"name": name, "namespace": ns, "uid": f"{ns}-{name}", "ownerReferences": owners}
    metadata |= {k: more.pop(k) for k in ("labels", "annotations", "deletionTimestamp") if k in more}
    status = {"phase": more.pop("phase", "Running"), "startTime": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": spec | more, "status": status}


def vm(name: str, on: str = "n1", *, in_progress: bool = False, **more: Any) -> Obj:
    marks = {REQUEST_ONLY: ""} | ({IN_PROGRESS: "true"} if in_progress else {})
    more.setdefault("labels", {"kubevirt.io": "virt-launcher"})
    return pod(name, on, annotations=marks, volumes=[{"name": "v", "emptyDir": {}}], **more)


EVICTOR = "{podProtections: {defaultDisabled: [PodsWithLocalStorage]}}"


def text(
    *,
    evictor: str = EVICTOR,
    args: str = "{thresholds: {cpu: 20, memory: 20}, targetThresholds: {cpu: 50, memory: 50}}",
    plugin: str = "LowNodeUtilization",
    top: str = "",
    plugins: str = "",
) -> str:
    return f"""apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
{top}
profiles:
- name: p
  pluginConfig:
  - {{name: DefaultEvictor, args: {evictor}}}
  - {{name: {plugin}, args: {args}}}
  plugins:
    balance: {{enabled: [{plugin}]}}
    {plugins}
"""


def policy(version: str = "0.36.0", **parts: Any) -> Policy:
    more = parts.pop("more", ())
    return load(text(**parts), version=version, plugins=more)


class Port:
    """Answers from a function, and remembers the bodies."""

    def __init__(self, answer: Callable[[Obj], Answer] | None = None) -> None:
        self.answer = answer or (lambda pod: Answer(201))
        self.asked: list[str] = []
        self.bodies: list[Obj] = []

    def evict(self, pod: Obj, body: Obj) -> Answer:
        self.asked.append(pod["metadata"]["name"])
        self.bodies.append(body)
        return self.answer(pod)


def background(pod: Obj) -> Answer:
    return Answer(429, TRIGGERED) if REQUEST_ONLY in (pod["metadata"].get("annotations") or {}) else Answer(201)


class Bench:
    """A cluster, a policy and the memory of one process."""

    def __init__(self, nodes: list[Obj], pods: list[Obj], policy: Policy, **kwargs: Any) -> None:
        self.port = Port(kwargs.pop("answer", None))
        gate = kwargs.pop("gate", True)
        self.snapshot = Snapshot(nodes, pods, now=NOW, **kwargs)
        self.policy = policy
        self.in_flight = InFlight(gate=gate, version=policy.version)
        self.lines: list[Line] = []
        self.attempts: list[Attempt] = []

    def cycle(self, **kwargs: Any) -> CycleReport:
        self.lines = []
        self.port.asked = []
        self.attempts = []
        self.in_flight.sync(self.snapshot.pods, self.lines.append)
        return decide(
            self.snapshot, self.policy, self.in_flight, self.port, self.lines.append, observe=self.attempts.append, **kwargs
        )

    def messages(self) -> list[str]:
        return [line.message for line in self.lines]
