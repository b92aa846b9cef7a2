"""A cluster made of wire objects, for discovery: what is not there is not served, and single resources can be denied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from fixtures.cluster.api import Denied, Missing, NotServed, Presence, Probe
from fixtures.kube.resources import ALL, Obj, Resource

DATA = Path(__file__).parent / "data"
#: Served although no object is there: what every Kubernetes has.
ALWAYS = {"pods", "configmaps", "nodes", "cronjobs.batch", "deployments.apps", "namespaces"}
KINDS = {r.kind: r for r in ALL.values()}


def load(name: str) -> list[Obj]:
    found: list[Obj] = []
    for doc in yaml.safe_load_all((DATA / name).read_text()):
        found += doc["items"] if doc.get("kind") == "List" else [doc]
    return found


class Paper:
    """As much of `Cluster` as discovery uses. ``denied``: resource keys, or (key, "*") for cluster-wide lists only."""

    address = "tester@paper"
    source = "live"

    def __init__(self, *objects: Obj, denied: Any = (), served: Any = (), version: str = "v1.35.2") -> None:
        self.objects = list(objects)
        self.denied, self.extra, self.git_version = set(denied), set(served), version
        self.asked: list[tuple[str, str | None, str | None]] = []

    def _key(self, obj: Obj) -> str:
        group = str(obj.get("apiVersion", "v1")).rpartition("/")[0]
        kind = str(obj["kind"])
        return KINDS[kind].key if kind in KINDS else f"{kind.lower()}s" + (f".{group}" if group else "")

    def _served(self, resource: Resource) -> set[str]:
        found = {str(o["apiVersion"]).rpartition("/")[2] for o in self.objects if self._key(o) == resource.key}
        found |= {resource.version} if resource.key in ALWAYS | self.extra else set()
        return found

    def version(self) -> Obj:
        return {"gitVersion": self.git_version}

    def serves(self, resource: Resource) -> bool:
        return resource.version in self._served(resource)

    def probe(self, feature: str) -> Probe:
        if (feature, "probe") in self.denied:
            return Probe(feature, Presence.UNKNOWN, "discovery is denied")
        there = feature in ALWAYS | self.extra or any(self._key(o) == feature for o in self.objects)
        return Probe(feature, Presence.PRESENT if there else Presence.ABSENT, f"paper has {'' if there else 'no '}{feature}")

    def list(self, resource: Resource, *, ns: str | None = None, labels: str | None = None, fields: str | None = None) -> Any:
        self.asked.append((resource.key, ns, labels))
        if resource.key in self.denied or (not ns and (resource.key, "*") in self.denied):
            raise Denied(f'{resource.key} is forbidden: User "tester" cannot list {resource.key}')
        if not self._served(resource):
            raise NotServed(f"paper does not serve {resource.key}")
        wanted = [pair.partition("=")[::2] for pair in (labels or "").split(",") if pair]
        return [
            o
            for o in self.objects
            if self._key(o) == resource.key
            and (not ns or o["metadata"].get("namespace") == ns)
            and all((o["metadata"].get("labels") or {}).get(k) == v for k, v in wanted)
        ]

    def get(self, resource: Resource, name: str, *, ns: str | None = None) -> Obj:
        for found in self.list(resource, ns=ns):
            if found["metadata"]["name"] == name:
                return found  # type: ignore[no-any-return]
        raise Missing(f'{resource.key} "{name}" not found')
