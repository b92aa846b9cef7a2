"""Figures of the engine as a whole process: ``python tests/benchmarks/bench_engine.py [--against DESCHEDULER]``; asserts nothing.

One-shot cycles over the embedded API server, which runs in a process of its own so that its work does not count. Nodes carry
30 launcher Pods each, half of them far too many; the server refuses evictions as KubeVirt does, so no run changes
what the next one sees. Wall time and CPU seconds are medians, memory is the largest resident size.

``--against`` takes a real descheduler; it runs twice, once as it is and once without WatchList, with which it, too, lists
in protobuf (the embedded server watches in JSON).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

PODS_PER_NODE = 30
SIZES = (10, 100, 1000, 5000)
RUNS = 3
GATE = "--feature-gates=EvictionsInBackground=true"
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
maxNoOfPodsToEvictTotal: 5
profiles:
- name: vms
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: FIT, podProtections: {defaultDisabled: [PodsWithLocalStorage]}}
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 30}, targetThresholds: {cpu: 50}}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
"""


def serve(nodes: int, folder: Path, json_only: bool) -> None:
    """The server's process: ready when the kubeconfig is there, ends with its standard input."""
    from fixtures.embedded.clock import Clock
    from fixtures.embedded.ports import AdmissionRequest, ApiError
    from fixtures.embedded.server import ApiServer
    from fixtures.embedded.store import Store
    from fixtures.kube.resources import NODES, PODS

    def webhook(review: AdmissionRequest) -> None:
        if review.subresource == "eviction":
            text = f'Eviction triggered evacuation of VMI "{review.ns}/{review.name}"'
            raise ApiError(429, f'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: {text}')

    clock = Clock()
    server = ApiServer(Store(clock), clock, kubernetes="1.36")
    server.admission.append(webhook)
    if json_only:
        server.interceptors.append(lambda arrival: arrival.request.headers.update(accept="application/json"))
    for number in range(nodes):
        server.store.create(NODES, node(f"worker-{number}"))
        for other in range(PODS_PER_NODE):
            server.store.create(PODS, launcher(f"vm-{number}-{other}", f"worker-{number}", "300m" if number % 2 else "100m"))
    server.start()
    made = folder / "new"
    made.write_text(json.dumps(server.kubeconfig()))
    made.rename(folder / "kubeconfig")
    sys.stdin.read()
    server.stop()


def node(name: str) -> dict[str, Any]:
    """A worker with 10 cores."""
    room = {"cpu": "10", "memory": "64Gi", "pods": "110", "devices.kubevirt.io/kvm": "1k"}
    status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": status}


def launcher(name: str, on: str, cpu: str) -> dict[str, Any]:
    """A Pod with the parts and about the size of a virt-launcher."""
    labels = {"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": name, "app": "bench", "kubevirt.io/nodeName": on}
    annotations = {"kubevirt.io/domain": name, "descheduler.alpha.kubernetes.io/request-evict-only": ""}
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": name,
        "uid": f"uid-{name}",
        "controller": True,
    }
    requests = {"cpu": cpu, "memory": "817889280", "ephemeral-storage": "50M", "devices.kubevirt.io/kvm": "1"}
    mounts = [{"name": f"volume-{n}", "mountPath": f"/var/run/kubevirt/{n}"} for n in range(7)]
    command = ["/usr/bin/virt-launcher-monitor", "--qemu-timeout", "331s", "--name", name, "--namespace", "default"]
    compute = {
        "name": "compute", "image": "quay.io/kubevirt/virt-launcher:v1.9.0", "command": command, "volumeMounts": mounts,
        "resources": {"requests": requests, "limits": {"devices.kubevirt.io/kvm": "1"}},
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
    }  # fmt: skip
    volumes = [{"name": f"volume-{n}", "emptyDir": {}} for n in range(7)]
    tolerations = [
        {"key": f"node.kubernetes.io/{k}", "operator": "Exists", "effect": "NoExecute"} for k in ("not-ready", "unreachable")
    ]
    times = {"startTime": "2026-01-02T03:04:05Z", "conditions": [{"type": "Ready", "status": "True"}]}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": [owner]},
        "spec": {"nodeName": on, "containers": [compute], "volumes": volumes, "tolerations": tolerations},
        "status": {"phase": "Running", "qosClass": "Burstable", **times},
    }


def measured(command: Sequence[str], env: dict[str, str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and MiB of one run."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def report(what: str, nodes: int, command: Sequence[str], **env: str) -> None:
    """One line: the medians of a few runs after one that does not count."""
    runs = [measured(command, {**os.environ, **env}) for _ in range(RUNS + 1)][1:]
    wall, cpu, memory = (statistics.median(column) for column in zip(*runs, strict=True))
    sys.stdout.write(f"{nodes:>6} {nodes * PODS_PER_NODE:>7}  {what:<34}{wall:>8.2f} s {cpu:>8.2f} s {memory:>7.0f} MiB\n")
    sys.stdout.flush()


def benchmark(nodes: int, against: str | None, json_only: bool, fit: bool) -> None:
    """All engines on one server."""
    with tempfile.TemporaryDirectory() as folder:
        config, policy = Path(folder, "kubeconfig"), Path(folder, "policy.yaml")
        policy.write_text(POLICY.replace("FIT", str(fit).lower()))
        command = [sys.executable, __file__, "--serve", str(nodes), folder, *(["--json"] if json_only else [])]
        server = subprocess.Popen(command, stdin=subprocess.PIPE)
        while not config.exists():
            if server.poll() is not None:
                raise SystemExit("the server has ended")
            time.sleep(0.1)
        try:
            flags = [f"--policy-config-file={policy}", f"--kubeconfig={config}", GATE, "--v=3"]
            engine = [sys.executable, "-m", "fixtures.engine.reference.process", *flags]
            report(f"rebalance-engine, {'JSON' if json_only else 'protobuf'}", nodes, engine, PYTHONPATH=str(ROOT))
            if against:
                real = [against, *flags, "--secure-port=0"]
                report(
                    f"descheduler, {'JSON lists' if json_only else 'protobuf lists'}",
                    nodes,
                    real,
                    KUBE_FEATURE_WatchListClient="false",
                )
                if not json_only:
                    report("descheduler, WatchList (JSON)", nodes, real)
        finally:
            server.communicate(b"")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="DESCHEDULER", help="a real descheduler to run on the same server")
    parser.add_argument("--nodes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--fit", action="store_true", help="with nodeFit, whose cost in the original grows with Pods times nodes")
    parser.add_argument(
        "--forms", nargs="*", default=("protobuf", "json"), choices=("protobuf", "json"), help="what the server has"
    )
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(int(given.serve[0]), Path(given.serve[1]), given.json)
        return
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    sys.stdout.write(f"{'nodes':>6} {'Pods':>7}  {'':<34}{'wall':>8}   {'CPU':>8}   {'memory':>11}\n")
    for nodes in given.nodes:
        for form in given.forms:
            benchmark(nodes, given.against, form == "json", given.fit)
    sys.stdout.write(f"load {os.getloadavg()[0]:.1f}\n")


if __name__ == "__main__":
    main()
