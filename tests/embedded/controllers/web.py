"""A few requests over HTTPS to an embedded cluster."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from fixtures.embedded.server import ApiServer
from fixtures.kube.resources import Obj, Resource


@dataclass
class Reply:
    """Status, decoded body, Warning headers."""

    code: int
    body: Any
    warnings: list[str] = field(default_factory=list)


class Web:
    """One user's requests to one server."""

    def __init__(self, server: ApiServer, user: str = "admin") -> None:
        self.server, self.token = server, server.token(user)
        self.tls = ssl.create_default_context(cadata=server.ca_pem.decode())

    def request(self, method: str, path: str, body: Any = None, *, media: str = "application/json", accept: str = "*/*") -> Reply:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": media, "Accept": accept}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server.url + path, data, headers, method=method)  # noqa: S310  loopback
        try:
            with urllib.request.urlopen(request, context=self.tls, timeout=10) as answer:  # noqa: S310
                return _reply(answer.status, answer.read(), answer.headers.get_all("Warning"))
        except urllib.error.HTTPError as refusal:
            with refusal:
                return _reply(refusal.code, refusal.read(), refusal.headers.get_all("Warning"))

    def get(self, resource: Resource, ns: str | None, name: str) -> Obj:
        reply = self.request("GET", resource.path(ns, name))
        assert reply.code == 200, reply
        found: Obj = reply.body
        return found

    def list(self, resource: Resource, ns: str | None = None) -> list[Obj]:
        reply = self.request("GET", resource.path(ns))
        assert reply.code == 200, reply
        found: list[Obj] = reply.body["items"]
        return found

    def merge(self, resource: Resource, ns: str | None, name: str, patch: Obj, *, dry_run: bool = False) -> Reply:
        path = resource.path(ns, name) + ("?dryRun=All" if dry_run else "")
        return self.request("PATCH", path, patch, media="application/merge-patch+json")

    def evict(self, ns: str, pod: str) -> Reply:
        meta = {"name": pod, "namespace": ns, "annotations": {"requested-by": "sigs.k8s.io/descheduler"}}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        return self.request("POST", f"/api/v1/namespaces/{ns}/pods/{pod}/eviction", body)


def _reply(code: int, raw: bytes, warnings: list[str] | None) -> Reply:
    try:
        body = json.loads(raw) if raw else None
    except ValueError:
        body = raw.decode()
    return Reply(code, body, warnings or [])
