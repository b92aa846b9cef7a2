"""Recorded stories done again, request by request, on an embedded cluster with the recorded nodes; both told in one form.

Names are made comparable: Pods and migrations are numbered per VM; a VM's first node is its home, any other is away.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.embedded.installed.base import Item
from fixtures.embedded.ports import Change
from fixtures.embedded.store import copy
from fixtures.kube.objects import annotations_of, dig, name, namespace
from fixtures.kube.resources import KUBEVIRTS, NAMESPACES, NODES, PODS, PVCS, VMIS, VMS, Obj
from tests.embedded.controllers import stories
from tests.embedded.controllers.web import Web

DATA = Path(__file__).parent / "data"
COMPARED = {"VirtualMachine", "VirtualMachineInstance", "VirtualMachineInstanceMigration", "Pod", "Event"}
_NUMBERED = {"Pod": "pod", "VirtualMachineInstanceMigration": "vmim"}
#: What recordings with slim specs leave out.
_GUEST: Obj = {
    "domain": {
        "memory": {"guest": "512Mi"},
        "devices": {
            "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
            "interfaces": [{"name": "default", "masquerade": {}}],
        },
        "resources": {},
    },
    "networks": [{"name": "default", "pod": {}}],
    "volumes": [{"name": "root", "containerDisk": {"image": "quay.io/kubevirt/cirros-container-disk-demo:v1.9.0"}}],
}
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Entry = tuple[str, str, Obj]
Course = dict[str, list[str]]


@functools.cache
def load(story: str) -> Obj:
    """A recording."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)((DATA / f"{story}.yaml").read_text(encoding="utf-8"))
    try:
        loaded: Obj = loader.get_single_data()
    finally:
        loader.dispose()
    return loaded


def vm_of(kind: str, obj: Obj) -> str:
    """The VM an object belongs to; an object that belongs to none stands for itself."""
    owner = annotations_of(obj).get("kubevirt.io/domain") if kind == "Pod" else dig(obj, "spec", "vmiName")
    return str(owner or name(obj))


def numbered(entries: Iterable[Entry]) -> dict[str, str]:
    """Names and UIDs that differ from run to run → ``vm/pod1``, ``vm/vmim1``, ``vm/Pod-uid1``, in the order of appearance."""
    known, counted = dict[str, str](), Counter[str]()
    for type_, kind, obj in entries:
        if type_ != "ADDED" or kind == "Event":
            continue
        vm, told = vm_of(kind, obj), {str(obj["metadata"].get("uid", "")): f"{kind}-uid"}
        known.setdefault(vm, vm)
        if name(obj).startswith(("virt-launcher-", "kubevirt-")) and kind in _NUMBERED and vm != name(obj):
            told[name(obj)] = _NUMBERED[kind]
        for text, what in told.items():
            if text and text not in known:
                counted[f"{vm}/{what}"] += 1
                known[text] = f"{vm}/{what}{counted[f'{vm}/{what}']}"
    return known


@dataclass
class Told:
    """A story's objects over time: those there at the start (``before``), and what happened ``after``."""

    before: list[Entry]
    after: list[Entry]
    recording: Obj

    def course(self) -> Course:
        """Fact by fact, its values in order; Events as a set."""
        kinds = COMPARED & {str(e.get("resource")) for e in self.recording["events"]}
        self.nodes = nodes_of(self.recording)
        before = [e for e in self.before if e[1] in kinds]
        entries = [*before, *(e for e in self.after if e[1] in kinds and not _of_another(e, kinds))]
        aliases = {self.recording["namespace"]: "NS", **{n: n for n in self.nodes}, **numbered(entries)}
        steps = stories.compare(entries, aliases=aliases)
        homes: dict[str, str] = {}
        lines = stories.timelines([self._homely(step, homes) for step in steps][len(before) :])
        return {k: v if k.endswith(" event") else _runs(v) for k, v in lines.items()}

    def _homely(self, step: stories.Step, homes: dict[str, str]) -> stories.Step:
        vm = step.who.split()[-1].partition("/")[0]

        def place(found: re.Match[str]) -> str:
            return "NODE" if step.kind == "Event" else "home" if homes.setdefault(vm, found[0]) == found[0] else "away"

        changed = {}
        for key, value in step.changed.items():
            plain = _UID.sub("UID", re.sub("|".join(map(re.escape, self.nodes)), place, value))
            changed[key] = ",".join(sorted(plain.split(","))) if key == "activePods" else plain
        return stories.Step(step.kind, step.who, changed)


def _of_another(entry: Entry, kinds: set[str]) -> bool:
    """Events about what is not compared; the scheduler's tell of all nodes, in words that depend on every Pod of the cluster."""
    return entry[1] == "Event" and entry[2]["involvedObject"]["kind"] not in kinds - {"Pod"}


def _runs(values: list[str]) -> list[str]:
    return [v for i, v in enumerate(values) if i == 0 or values[i - 1] != v]


def recorded(story: str) -> Told:
    """The recording: objects are rebuilt from their diffs, in the order of revisions."""
    found = load(story)
    entries = list(stories.entries(found))
    begun = len(found.get("initial") or [])
    return Told(entries[:begun], entries[begun:], found)


def nodes_of(recording: Obj) -> list[str]:
    """The names of the recorded nodes."""
    return [i["name"] for i in recording["initial"] if i["resource"] == "Node"]


class Paced:
    """Migrations of one duration, none of which fails."""

    def __init__(self, seconds: float) -> None:
        self.pace = seconds

    def seconds(self, vmi: Obj) -> float:
        return self.pace

    def failure(self, vmi: Obj) -> str | None:
        return None


@dataclass
class Answer:
    """What a request was answered, then and now; UIDs are taken out."""

    action: str
    wanted: tuple[int, str]
    got: tuple[int, str]


@dataclass
class Replay:
    """One story on one cluster, done by `run`.

    ``unshared``: VMs that the recording's stand-in declared not migratable; they get an RWO claim here · ``rest``: seconds after
    the last action · ``ahead``: what is done before an action · ``left_out``: actions not done · ``answers``: what requests were
    answered, then and now.
    """

    story: str
    seconds: float
    unshared: tuple[str, ...] = ()
    rest: float = 30.0
    ahead: dict[str, Callable[[Web], object]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    answers: list[Answer] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recording = load(self.story)
        self.ns = str(self.recording["namespace"])
        self.known = {short: text for text, short in numbered(stories.entries(self.recording)).items()}

    def run(self) -> Told:
        """Do what the story did, at its pace; what the cluster made of it."""
        cluster = self._prepared()
        with cluster:
            web = Web(cluster.server)
            web.request("POST", NAMESPACES.path(), {"metadata": {"name": self.ns}})
            cluster.store.subscribe(lambda c: self.changes.append(c) if namespace(c.object) == self.ns else None)
            self._start_vms(cluster, web)
            begun = len(self.changes)
            initial: list[Entry] = [("ADDED", r.kind, o) for r in (VMS, VMIS, PODS) for o in cluster.store.list(r, self.ns)]
            self._act(cluster, web)
            cluster.clock.advance(self.rest)
            assert cluster.troubles() == []
        after: list[Entry] = [(c.type, c.resource.kind, c.object) for c in self.changes[begun:]]
        return Told(initial, after, self.recording)

    def _prepared(self) -> EmbeddedCluster:
        """A cluster with the recorded nodes and KubeVirt, and nothing else that runs."""
        cluster = EmbeddedCluster(kubevirt="1.9.0", kubernetes="1.36", platform="upstream")
        world = cluster.world
        kept = [i for i in world.items if i[0].key not in (NODES.key, PODS.key) and "tenant-a" not in (namespace(i[1]), name(i[1]))]
        world.items, world.late = [*self._nodes(), *kept], []
        world.find(KUBEVIRTS, "kubevirt")["spec"]["configuration"]["developerConfiguration"] = {"useEmulation": True}
        cluster.context.migrations = Paced(self.seconds)
        return cluster

    def _nodes(self) -> list[Item]:
        found = [copy(i["object"]) for i in self.recording["initial"] if i["resource"] == "Node"]
        for number, node in enumerate(found, 1):
            node["status"]["addresses"] = [{"type": "InternalIP", "address": f"10.88.250.{number}"}]
            node["metadata"] = {"name": name(node), "labels": node["metadata"]["labels"]}
            node["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        return [(NODES, node) for node in found]

    def _start_vms(self, cluster: EmbeddedCluster, web: Web) -> None:
        """What the recording found running; a recording without VMs tells what they look like in their VMIs."""
        told = {(i["resource"], i["name"]): i["object"] for i in self.recording["initial"]}
        for kind, vm in told:
            if kind != "VirtualMachineInstance":
                continue
            template = {"metadata": {"labels": {"app": "desched-test"}}, "spec": {**_GUEST, **told[kind, vm]["spec"]}}
            spec = {"runStrategy": "Always", "template": template, **told.get(("VirtualMachine", vm), {}).get("spec", {})}
            body = {"metadata": {"name": vm}, "spec": copy(spec)}
            if vm in self.unshared:
                self._unshare(web, body)
            reply = web.request("POST", VMS.path(self.ns), body)
            assert reply.code == 201, reply
        cluster.clock.advance(10)

    def _unshare(self, web: Web, vm: Obj) -> None:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        web.request("POST", PVCS.path(self.ns), {"metadata": {"name": name(vm)}, "spec": claim})
        vm["spec"]["template"]["spec"]["volumes"] = [{"name": "root", "persistentVolumeClaim": {"claimName": name(vm)}}]

    def _act(self, cluster: EmbeddedCluster, web: Web) -> None:
        asked = [e for e in self.recording["events"] if "action" in e and (e["action"] in self.ahead or _complete(e))]
        before = asked[0]["t"]
        for event in asked:
            cluster.clock.advance((event["t"] - before) / 1000)
            before = event["t"]
            self.ahead.get(event["action"], _nothing)(web)
            if "request" in event and event["action"] not in self.left_out:
                self._request(web, event)

    def _request(self, web: Web, event: Obj) -> None:
        asked = event["request"]
        unprivileged = "ServiceAccount without rights" in event["action"]
        by = Web(web.server, f"system:serviceaccount:{self.ns}:nobody") if unprivileged else web
        media = asked.get("contentType") or "application/json"
        reply = by.request(
            asked["method"], self._mine(asked["path"]), json.loads(self._mine(json.dumps(asked.get("body")))), media=media
        )
        told = [e["response"] for e in self.recording["events"] if e.get("response", {}).get("to") == event["action"]]
        response = told[0] if told else {"httpStatus": reply.code, "body": reply.body}
        wanted = response["body"].get("message", "") if isinstance(response["body"], dict) else ""
        got = reply.body.get("message", "") if isinstance(reply.body, dict) else ""
        self.answers.append(Answer(event["action"], self._plain(response["httpStatus"], wanted), self._plain(reply.code, got)))

    def _mine(self, text: str) -> str:
        """A recorded path or body with this run's names and UIDs."""
        own = {short: found for found, short in numbered((c.type, c.resource.kind, c.object) for c in self.changes).items()}
        for short, recorded_text in sorted(self.known.items(), key=lambda i: -len(i[1])):
            if recorded_text in text and short in own:
                text = text.replace(recorded_text, own[short])
        return text

    def _plain(self, code: int, message: str) -> tuple[int, str]:
        for short, text in self.known.items():
            message = message.replace(text, short)
        for text, short in numbered((c.type, c.resource.kind, c.object) for c in self.changes).items():
            message = message.replace(text, short)
        return code, _UID.sub("UID", message)


def _complete(event: Obj) -> bool:
    """Whether a request was recorded with its body; those of the folded beginning were not."""
    asked = event.get("request") or {}
    return asked.get("body") is not None or asked.get("method") == "DELETE"


def _nothing(_: Web) -> None:
    """What most actions need ahead of them."""
