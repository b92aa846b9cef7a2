"""A very small API server on loopback with an eviction webhook, for tests of the engine's process alone."""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Obj = dict[str, Any]
GROUPS = ("policy", "events.k8s.io", "scheduling.k8s.io", "coordination.k8s.io")


class FakeApi:
    """``objects``: collection path → name → object. ``webhook(pod, eviction)`` → (code, message) refuses, None evicts."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Obj]] = {}
        self.history: list[tuple[int, Obj]] = []
        self.version = 100
        self.oldest = 0
        self.clock = 1_800_000_000.0
        self.webhook: Callable[[Obj, Obj], tuple[int, str] | None] = lambda pod, eviction: None
        self.evictions: list[tuple[str, int, str, Obj]] = []
        self.requests: list[tuple[str, str]] = []
        self.faults: list[tuple[str, int, Obj, dict[str, str]]] = []
        self.watch_faults: list[int] = []
        self.headers: list[dict[str, str]] = []
        self.groups = GROUPS
        self.pages = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def kubeconfig(self) -> Obj:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": "secret-token"}}],
        }

    # ------------------------------------------------------------ the store, as golden traces want it
    def put(self, collection: str, obj: Obj, *, event: str = "") -> Obj:
        meta = obj.setdefault("metadata", {})
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        meta.setdefault("uid", f"uid-{self.version}")
        key = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
        kind = event or ("MODIFIED" if key in self.objects.setdefault(collection, {}) else "ADDED")
        self.objects[collection][key] = obj
        if collection == "/api/v1/pods":
            self.history.append((self.version, {"type": kind, "object": copy.deepcopy(obj)}))
        return obj

    def pods(self) -> list[Obj]:
        return list(self.objects.get("/api/v1/pods", {}).values())

    def nodes(self) -> list[Obj]:
        return list(self.objects.get("/api/v1/nodes", {}).values())

    def create(self, manifest: Obj, age: float | None) -> Obj:
        pod = copy.deepcopy(manifest)
        if age is not None:
            pod["status"]["startTime"] = self.stamp(self.clock - age)
        return self.put("/api/v1/pods", pod)

    def stamp(self, at: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))

    def _changed(self, ns: str, name: str) -> Obj:
        return copy.deepcopy(self.objects["/api/v1/pods"][f"{ns}/{name}"])

    def patch_meta(self, ns: str, name: str, change: Obj) -> None:
        pod = self._changed(ns, name)
        for part, values in change.items():
            merged = (pod["metadata"].get(part) or {}) | values
            pod["metadata"][part] = {k: v for k, v in merged.items() if v is not None}
        self.put("/api/v1/pods", pod)

    def set_phase(self, ns: str, name: str, phase: str) -> None:
        pod = self._changed(ns, name)
        pod["status"] |= {"phase": phase}
        self.put("/api/v1/pods", pod)

    def delete(self, ns: str, name: str) -> None:
        pod = self._changed(ns, name)
        self.put("/api/v1/pods", pod, event="DELETED")
        del self.objects["/api/v1/pods"][f"{ns}/{name}"]

    def patch_node(self, name: str, change: Obj) -> None:
        node = copy.deepcopy(self.objects["/api/v1/nodes"][name])
        for key, value in change.items():
            if key == "unschedulable":
                node["spec"]["unschedulable"] = value
            elif key == "labels":
                node["metadata"]["labels"] |= value
            else:
                raise ValueError(key)
        self.put("/api/v1/nodes", node)

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    # ------------------------------------------------------------ requests
    def answer(self, method: str, path: str, query: dict[str, str], body: Obj) -> tuple[int, Obj, dict[str, str]]:
        for fault in self.faults:
            start, code, refusal, headers = fault
            if f"{method} {path}".startswith(start):
                self.faults.remove(fault)
                return code, refusal, headers
        if path == "/version":
            return 200, {"major": "1", "minor": "36", "gitVersion": "v1.36.2"}, {}
        if path == "/apis":
            return 200, {"groups": [{"name": g} for g in self.groups]}, {}
        if path == "/api/v1":
            return 200, {"resources": [{"name": "pods/eviction", "kind": "Eviction", "namespaced": True}]}, {}
        if path.endswith("/eviction"):
            return self.evict(path, body)
        if method == "POST":
            return 201, self.put(path, body), {}
        collection, _, name = path.rpartition("/")
        found = self.objects.get(collection, {})
        if method == "PUT":
            return 200, self.put(collection, body), {}
        for key, obj in found.items():
            if key.rpartition("/")[2] == name:
                return 200, obj, {}
        if path in self.objects or (path.count("/") <= 4 and not path.startswith("/apis/scheduling")):
            return self.list(path, query)
        kind = "priorityclasses.scheduling.k8s.io" if "priorityclasses" in path else collection.rpartition("/")[2]
        return 404, status(404, f'{kind} "{name}" not found', "NotFound"), {}

    def list(self, path: str, query: dict[str, str]) -> tuple[int, Obj, dict[str, str]]:
        items = list(self.objects.get(path, {}).values())
        start = int(query.get("continue") or 0)
        size = min(int(query.get("limit") or 0) or len(items), self.pages or len(items) or 1)
        more = str(start + size) if start + size < len(items) else ""
        meta = {"resourceVersion": str(self.version), **({"continue": more} if more else {})}
        return 200, {"kind": "List", "metadata": meta, "items": items[start : start + size]}, {}

    def evict(self, path: str, body: Obj) -> tuple[int, Obj, dict[str, str]]:
        _, _, _, _, ns, _, name, _ = path.split("/")
        pod = self.objects["/api/v1/pods"].get(f"{ns}/{name}")
        if pod is None:
            refusal: tuple[int, str] | None = (404, f'pods "{name}" not found')
        else:
            refusal = self.webhook(pod, body)
        code, message = refusal or (201, "")
        self.evictions.append((f"{ns}/{name}", code, message, body))
        if refusal:
            return code, status(code, message, ""), {}
        assert pod is not None
        gone = copy.deepcopy(pod)
        gone["metadata"]["deletionTimestamp"] = self.stamp(self.clock + 30)
        self.put("/api/v1/pods", gone)
        return 201, status(201, "", ""), {}


def status(code: int, message: str, reason: str) -> Obj:
    state = "Success" if code < 300 else "Failure"
    return {"kind": "Status", "apiVersion": "v1", "status": state, "message": message, "reason": reason, "code": code}


def _handler(api: FakeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10
        wbufsize = -1

        def handle_one(self) -> None:
            parts = urlsplit(self.path)
            query = {k: v[0] for k, v in parse_qs(parts.query).items()}
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            api.requests.append((self.command, self.path))
            api.headers.append(dict(self.headers))
            if query.get("watch"):
                self.watch(int(query["resourceVersion"]))
                return
            code, found, headers = api.answer(self.command, parts.path, query, body)
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for key, value in headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = handle_one

        def watch(self, since: int) -> None:
            fault = api.watch_faults.pop() if api.watch_faults else None
            if fault:
                data = json.dumps(status(fault, "watch refused", "Forbidden")).encode()
                self.send_response(fault)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                return
            if since < api.oldest:
                lost = status(410, "too old resource version", "Expired")
                events = [{"type": "ERROR", "object": lost}]
            else:
                events = [event for version, event in api.history if version > since]
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if fault == 0:
                self.wfile.write(b"40\r\n{")
                self.close_connection = True
                return
            for event in events:
                data = json.dumps(event).encode() + b"\n"
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
