"""What a read-only certification costs a large cluster: ``python tests/benchmarks/bench_certification.py``; it asserts nothing.

The embedded cluster's store is filled with nodes, VMs with their VMIs and launchers, and other Pods (shapes and sizes as recorded
on a real control plane, managedFields included), and the suite certifies it as ``--cluster=live`` by a kubeconfig in a process of
its own. CPU seconds are that process's, start-up included; "empty" is the same run on the cluster before it was filled, so that the
difference is what the size costs. Wall time contains the work of the embedded server, which shares the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from fixtures.cluster.embedded import EmbeddedUnderTest, start_embedded  # noqa: E402
from fixtures.kube.resources import NODES, PODS, VMIS, VMS, Resource  # noqa: E402
from fixtures.options import Settings  # noqa: E402

DUMP = ROOT / "tests" / "data" / "dump"
Item = dict[str, Any]


def recorded(file: str, chosen: Callable[[Item], bool] = lambda _: True) -> str:
    """The first such object of a recorded list, as JSON without UID and version."""
    found = next(o for o in yaml.safe_load((DUMP / file).read_text())["items"] if chosen(o))
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        found["metadata"].pop(key, None)
    return json.dumps(found)


def managed(size: int) -> list[Item]:
    """managedFields of about so many bytes, as every API server adds them."""
    fields = {f"f:field-{n}": {".": {}, f'k:{{"name":"volume-{n}"}}': {"f:name": {}}} for n in range(size // 70)}
    return [{"manager": "virt-controller", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]


def filling(nodes: int, vms: int, others: int) -> Iterator[tuple[Resource, Item]]:
    """The objects, spread evenly."""
    node = recorded("cluster/nodes.yaml", lambda o: "node-role.kubernetes.io/control-plane" not in o["metadata"]["labels"])
    name = json.loads(node)["metadata"]["name"]
    for n in range(nodes):
        yield NODES, json.loads(node.replace(name, f"big-{n:03}"))
    parts = [
        (VMS, recorded("namespaces/rebalance-test/virtualmachines.yaml"), 1200),
        (VMIS, recorded("namespaces/rebalance-test/virtualmachineinstances.yaml"), 1800),
        (PODS, recorded("namespaces/rebalance-test/pods.yaml", lambda o: o["status"]["phase"] == "Running"), 3500),
    ]
    for n in range(vms):
        for resource, text, size in parts:
            obj = json.loads(text.replace("vm-0", f"vm-{n:04}"))
            obj["metadata"] |= {"namespace": f"tenant-{n % 40}", "managedFields": managed(size)}
            if resource is PODS:
                obj["spec"]["nodeName"] = f"big-{n % nodes:03}"
            elif resource is VMIS:
                obj["status"]["nodeName"] = f"big-{n % nodes:03}"
            yield resource, obj
    pod = recorded("namespaces/filler/pods.yaml")
    name = json.loads(pod)["metadata"]["name"]
    for n in range(others):
        obj = json.loads(pod.replace(name, f"app-{n:05}"))
        obj["metadata"] |= {"namespace": f"app-{n % 60}", "managedFields": managed(2000)}
        obj["spec"]["nodeName"] = f"big-{n % nodes:03}"
        yield PODS, obj


def certified(cluster: EmbeddedUnderTest, folder: Path, *options: str) -> tuple[dict[str, Any], float, float]:
    """The certificate, wall seconds and CPU seconds of one certification."""
    command = [sys.executable, "-m", "fixtures.launcher", "run", "--cluster=live", f"--report-dir={folder}"]
    command += ["-p", "no:hypothesispytest"]  # only the project's own tests have it
    command += [f"--cluster-kubeconfig={cluster.kubeconfig}", f"--global-kubeconfig={cluster.global_kubeconfig}", *options]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    report = folder / "report.yaml"
    if not report.exists():
        raise SystemExit(output)
    certificate = yaml.safe_load(report.read_text())
    return certificate, wall, used.ru_utime + used.ru_stime


def line(what: str, run: tuple[dict[str, Any], float, float]) -> None:
    """One line of the report."""
    certificate, wall, cpu = run
    cost = certificate["cost"]
    sys.stdout.write(
        f"{what:<8}{cost['requests']:>9} {cost['bytes'] / 2**20:>9.1f} {cost['seconds']:>9.2f} {cost['apiSeconds']:>9.2f}"
        f" {cost['seconds'] - cost['apiSeconds']:>9.2f} {wall:>9.2f} {cpu:>9.2f}  {certificate['verdict']['text']}\n"
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--vms", type=int, default=3000)
    parser.add_argument("--pods", type=int, default=10_000, help="launchers included")
    parser.add_argument("--requests", action="store_true", help="list the requests, too")
    parser.add_argument("options", nargs="*", help="more options of the certification")
    given = parser.parse_args()
    cluster = start_embedded(Settings())
    try:
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            sys.stdout.write(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
            names = ("requests", "MiB", "run s", "API s", "own s", "wall s", "CPU s")
            sys.stdout.write(" " * 8 + " ".join(f"{n:>9}" for n in names) + "\n")
            line("empty", certified(cluster, folder / "empty", *given.options))
            for resource, obj in filling(given.nodes, given.vms, given.pods - given.vms):
                cluster.world.store.create(resource, obj, prepared=True)
            for server in filter(None, (cluster.world.server, cluster.world.global_server)):
                server.audit.entries.clear()
            run = certified(cluster, folder / "full", *given.options)
            line("full", run)
            if given.requests:
                asked = Counter(f"{e.verb} {e.key or e.path}" for e in cluster.world.server.audit.entries)
                sys.stdout.write("".join(f"{n:>4} {what}\n" for what, n in asked.most_common()))
                for check in sorted(run[0]["checks"], key=lambda c: -c["seconds"])[:12]:
                    sys.stdout.write(f"{check['seconds']:>8.3f} s {check['id']} {check['outcome']}\n")
            sys.stdout.write(f"load {os.getloadavg()[0]:.1f}\n")
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
