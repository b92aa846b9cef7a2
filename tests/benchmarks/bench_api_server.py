"""Figures of the embedded API server: ``python tests/benchmarks/bench_api_server.py``. It asserts nothing.

TLS is on and one kept-alive connection is used, as a client would. Pods have the shape of launcher Pods (about 1.5 KB).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

STARTED = time.perf_counter()

import urllib3  # noqa: E402

from fixtures.embedded.clock import Clock  # noqa: E402
from fixtures.embedded.server import ApiServer  # noqa: E402
from fixtures.embedded.store import Store  # noqa: E402
from fixtures.kube.resources import PODS  # noqa: E402

PODS_IN_LIST = 5000
PATH = "/api/v1/namespaces/default/pods"


def say(what: str, value: float, unit: str, goal: str = "") -> None:
    """One line of the report."""
    sys.stdout.write(f"{what:<46}{value:>10.1f} {unit:<8}{f'(goal {goal})' if goal else ''}\n")


def launcher(name: str) -> dict[str, Any]:
    """A Pod of about the size of a virt-launcher."""
    labels = {"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": name, "app": "bench", "kubevirt.io/nodeName": "worker-0"}
    annotations = {"kubevirt.io/domain": name, "descheduler.alpha.kubernetes.io/request-evict-only": ""}
    requests = {"cpu": "100m", "memory": "817889280", "devices.kubevirt.io/kvm": "1"}
    compute = {"name": "compute", "image": "quay.io/kubevirt/virt-launcher:v1.9.0", "resources": {"requests": requests}}
    volumes = [{"name": f"volume-{n}", "emptyDir": {}} for n in range(7)]
    meta = {"name": name, "labels": labels, "annotations": annotations}
    return {"metadata": meta, "spec": {"nodeName": "worker-0", "containers": [compute], "volumes": volumes}}


class Client:
    """One kept-alive connection."""

    def __init__(self, server: ApiServer) -> None:
        with tempfile.NamedTemporaryFile(suffix=".pem", delete=False) as file:
            file.write(server.ca_pem)
        self.headers = {"Authorization": f"Bearer {server.token('admin')}", "Content-Type": "application/json"}
        self.pool = urllib3.HTTPSConnectionPool("127.0.0.1", int(server.url.rpartition(":")[2]), ca_certs=file.name, maxsize=1)

    def __call__(self, method: str, path: str, body: bytes | None = None) -> bytes:
        return bytes(self.pool.urlopen(method, path, body=body, headers=self.headers).data)


def rate(action: Any, count: int) -> float:
    """Calls per second."""
    started = time.perf_counter()
    for n in range(count):
        action(n)
    return count / (time.perf_counter() - started)


def resident() -> float:
    """MiB of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def latency(server: ApiServer, client: Client) -> list[float]:
    """Milliseconds from a commit in this process until a watcher has read its line."""
    watcher = Client(server)
    answer = watcher.pool.urlopen(
        "GET", f"/api/v1/pods?watch=1&resourceVersion={server.store.rv}", headers=watcher.headers, preload_content=False
    )
    sent: dict[int, float] = {}
    took: list[float] = []
    done = threading.Event()

    def read() -> None:
        for chunk in answer.read_chunked():
            now = time.perf_counter()
            for line in chunk.splitlines():
                rv = int(json.loads(line)["object"]["metadata"]["resourceVersion"])
                took.append((now - sent.get(rv, now)) * 1000)
            if len(took) == 300:
                done.set()
                return

    threading.Thread(target=read, daemon=True).start()
    for n in range(300):
        at = time.perf_counter()
        new = server.store.edit(PODS, "default", f"p{n}", lambda o, n=n: o["metadata"]["labels"].update(bench=str(n)))
        sent[int(new["metadata"]["resourceVersion"])] = at
        time.sleep(0.002)
    done.wait(10)
    answer.close()
    return took


def main() -> None:
    """Print the figures."""
    say("imports", (time.perf_counter() - STARTED) * 1000, "ms")
    started = time.perf_counter()
    clock = Clock()
    server = ApiServer(Store(clock), clock)
    server.start()
    client = Client(server)
    client("GET", "/readyz")
    say("ready (construct, listen, first answer)", (time.perf_counter() - started) * 1000, "ms", "<= 500")
    bodies = [json.dumps(launcher(f"p{n}")).encode() for n in range(PODS_IN_LIST)]
    say("creates, one connection", rate(lambda n: client("POST", PATH, bodies[n]), PODS_IN_LIST), "/s", ">= 1200")
    bodies.clear()
    say("memory of the process, client included", resident(), "MiB", "<= 150")
    say("gets, one connection", rate(lambda n: client("GET", f"{PATH}/p{n}"), PODS_IN_LIST), "/s", ">= 2500")
    for what, query in (("", ""), (", label selector", "?labelSelector=app%3Dnone"), (", pages of 500", "?limit=500")):
        times = [rate(lambda _, q=query: client("GET", f"/api/v1/pods{q}"), 1) for _ in range(9)]
        say(f"list of {PODS_IN_LIST}{what}", 1000 / statistics.median(times), "ms", "" if what else "<= 50")
    took = sorted(latency(server, client))
    say("watch event, median", statistics.median(took), "ms", "<= 2")
    say("watch event, 99th of 100", took[int(len(took) * 0.99) - 1], "ms")
    say("fork of the store", 1000 / rate(lambda _: server.store.fork(clock), 20), "ms", "<= 20")
    say("fork with its server", 1000 / rate(lambda _: ApiServer(server.store.fork(clock), clock), 10), "ms", "<= 20")
    started = time.perf_counter()
    server.stop()
    say("stop", (time.perf_counter() - started) * 1000, "ms")


if __name__ == "__main__":
    main()
