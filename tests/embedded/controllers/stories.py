"""Recorded stories and observed changes in one form: facts of an object over time, names and moments taken out."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fixtures.embedded.ports import Change
from fixtures.embedded.store import copy
from fixtures.kube.objects import annotations_of, dig, labels, name
from fixtures.kube.resources import Obj

DATA = Path(__file__).parent / "data"
Facts = dict[str, str]
_KINDS = {"VirtualMachine": "VM", "VirtualMachineInstance": "VMI", "VirtualMachineInstanceMigration": "VMIM", "Pod": "Pod"}
_ANNOTATIONS = (
    "kubevirt.io/eviction-source", "kubevirt.io/nonroot", "kubevirt.io/latest-observed-api-version",
    "kubevirt.io/evacuationMigration", "descheduler.alpha.kubernetes.io/eviction-in-progress",
    "descheduler.alpha.kubernetes.io/request-evict-only", "kubevirt.io/migration-target-ready-timestamp",
)  # fmt: skip
_LABELS = ("kubevirt.io/nodeName", "kubevirt.io/migrationTargetNodeName", "kubevirt.io/vmi-name", "app", "kubevirt.io")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(Z| \+0000 UTC)")
_ADDRESS = re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b")


@dataclass
class Step:
    """One commit: what kind of object, which one, what changed (fact → value, "-" when it is gone)."""

    kind: str
    who: str
    changed: Facts

    def __str__(self) -> str:
        return f"{self.who}: " + ", ".join(f"{k}={v}" for k, v in sorted(self.changed.items()))


@dataclass
class Namer:
    """Gives nodes, Pods and migrations numbers in the order of appearance."""

    known: dict[str, str] = field(default_factory=dict)

    def __call__(self, kind: str, text: str) -> str:
        if not text:
            return ""
        if text not in self.known:
            self.known[text] = f"{kind}#{sum(1 for v in self.known.values() if v.startswith(f'{kind}#')) + 1}"
        return self.known[text]

    def clean(self, text: str) -> str:
        for original, short in sorted(self.known.items(), key=lambda i: -len(i[0])):
            text = text.replace(original, short)
        return _ADDRESS.sub("ADDRESS", _MOMENT.sub("MOMENT", text))

    def alias(self, text: str, short: str) -> None:
        self.known[text] = short


def facts(obj: Obj, namer: Namer) -> Facts:
    """What is compared of an object."""
    found: Facts = {}
    for key in _ANNOTATIONS:
        if key in annotations_of(obj):
            found[f"annotation {key}"] = annotations_of(obj)[key]
    for key in _LABELS:
        if key in labels(obj):
            found[f"label {key}"] = labels(obj)[key]
    status = obj.get("status") or {}
    for condition in status.get("conditions") or []:
        shown = condition.get("status", "")
        if condition.get("reason") not in (None, "", "ReadinessGatesNotReady"):
            shown += f" {condition['reason']}"
        found[f"condition {condition['type']}"] = shown
    for field_ in (
        "phase",
        "printableStatus",
        "created",
        "ready",
        "nodeName",
        "evacuationNodeName",
        "migrationMethod",
        "runStrategy",
    ):
        if status.get(field_) is not None:
            found[field_] = str(status[field_])
    state = status.get("migrationState") or {}
    for key, value in state.items():
        if key in ("migrationConfiguration", "targetDirectMigrationNodePorts"):
            found[f"migrationState.{key}"] = ",".join(sorted(value))
        else:
            found[f"migrationState.{key}"] = str(value)
    if dig(obj, "spec", "nodeName"):
        found["bound"] = obj["spec"]["nodeName"]
    if dig(obj, "spec", "priority") and isinstance(obj["spec"]["priority"], str):
        found["priority"] = obj["spec"]["priority"]
    if dig(obj, "metadata", "finalizers"):
        found["finalizers"] = ",".join(obj["metadata"]["finalizers"])
    if dig(obj, "metadata", "deletionTimestamp"):
        found["deleting"] = "yes"
    if any((status.get("activePods") or {}).values()):
        found["activePods"] = ",".join(sorted(namer.clean(v) for v in status["activePods"].values() if v))
    return {k: namer.clean(v) for k, v in found.items()}


def _meet(kind: str, type_: str, obj: Obj, namer: Namer) -> None:
    """Number what appears for the first time."""
    if kind == "Pod" and dig(obj, "spec", "nodeName"):
        namer("node", obj["spec"]["nodeName"])
    if type_ == "ADDED":
        namer({"Pod": "pod", "VirtualMachineInstanceMigration": "vmim"}.get(kind, "vm"), name(obj))
        namer("uid", dig(obj, "metadata", "uid", default=""))


def compare(entries: Iterable[tuple[str, str, Obj]], *, aliases: dict[str, str]) -> list[Step]:
    """The steps with their changed facts; commits that change nothing compared are left out."""
    namer, last, found = Namer(dict(aliases)), dict[str, Facts](), list[Step]()
    for type_, kind, obj in entries:
        if kind == "Event":
            if type_ == "ADDED":
                about = _KINDS[obj["involvedObject"]["kind"]]
                text = f"{obj['type']} {obj['reason']}: {namer.clean(obj['message'])}"
                found.append(Step("Event", f"Event about {about}", {"event": text}))
            continue
        _meet(kind, type_, obj, namer)
        who = f"{_KINDS[kind]} {namer.clean(name(obj))}"
        new = {"deleted": "yes"} if type_ == "DELETED" else facts(obj, namer)
        old = last.get(who, {})
        gone = {} if type_ == "DELETED" else {k: "-" for k in old if k not in new}
        changed = {k: v for k, v in new.items() if old.get(k) != v} | gone
        last[who] = new
        if changed:
            found.append(Step(_KINDS[kind], who, changed))
    return found


def observed(changes: Iterable[Change], namespace: str, *, initial: Sequence[Obj] = ()) -> list[Step]:
    """Steps of what the embedded cluster committed, from ``initial`` objects on."""
    kinds = {*_KINDS, "Event"}
    before = [("ADDED", str(o["kind"]), o) for o in initial]
    after = [(c.type, c.resource.kind, c.object) for c in changes if c.resource.kind in kinds]
    return compare([*before, *after], aliases={namespace: "NS"})[len(before) :]


@functools.cache
def load(story: str) -> Obj:
    """A recording."""
    loaded: Obj = yaml.safe_load((DATA / f"{story}.yaml").read_text(encoding="utf-8"))
    return loaded


def recorded(story: Obj) -> list[Step]:
    """Steps of a recording."""
    found = compare(entries(story), aliases={story["namespace"]: "NS", "stand-in injected": "injected"})
    return found[len(story.get("initial") or []) :]


def entries(story: Obj) -> Iterator[tuple[str, str, Obj]]:
    """What a recording tells: change, kind, object, the initial ones first; objects are rebuilt from diffs, in revision order."""
    current = {(i["resource"], i["name"]): i["object"] for i in story.get("initial") or []}
    yield from (("ADDED", kind, obj) for (kind, _), obj in list(current.items()))
    for event in sorted((e for e in story["events"] if "type" in e), key=lambda e: e["rev"]):
        key = (event["resource"], event["name"])
        if event["resource"] == "Event" and event["type"] != "ADDED":
            continue
        obj = copy(event["object"]) if "object" in event else copy(current.get(key) or {})
        for change in event.get("diff") or []:
            _apply(obj, change)
        current[key] = obj
        yield event["type"], event["resource"], obj


def _apply(obj: Any, change: Obj) -> None:
    path = _split(change["path"])
    for step in path[:-1]:
        obj = _child(obj, step)
    last = path[-1]
    if isinstance(last, tuple):
        obj[:] = [e for e in obj if e.get(last[0]) != last[1]]
        if "new" in change:
            obj.append(copy({"v": change["new"]})["v"])
    elif "new" in change:
        obj[last] = copy({"v": change["new"]})["v"]
    else:
        obj.pop(last, None)


def _child(obj: Any, step: str | tuple[str, str]) -> Any:
    if isinstance(step, tuple):
        return next(e for e in obj if e.get(step[0]) == step[1])
    if step not in obj:
        obj[step] = {}
    return obj[step]


def _split(path: str) -> list[str | tuple[str, str]]:
    found: list[str | tuple[str, str]] = []
    for part in re.findall(r"/((?:\[[^\]]*\]|[^/\[])+|\[[^\]]*\])", path):
        plain, _, selector = part.partition("[")
        if plain:
            found.append(plain.replace("~1", "/").replace("~0", "~"))
        if selector:
            key, _, value = selector.rstrip("]").partition("=")
            found.append((key, value))
    return found


def timelines(found: Iterable[Step]) -> dict[str, list[str]]:
    """Fact by fact, its values in order; Events as a set (recorders count repeats, the recorded stand-ins did not)."""
    lines: dict[str, list[str]] = {}
    for step in found:
        for key, value in step.changed.items():
            lines.setdefault(f"{step.who} {key}", []).append(value)
    return {k: sorted(set(v)) if k.endswith(" event") else v for k, v in lines.items()}
