"""Publicly reported situations (tests/data/cases) as files: what a release gate or a dump would hold of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.cluster.files.on_paper import DATA

CASES: list[dict[str, Any]] = yaml.safe_load((DATA / "cases" / "reports.yaml").read_text(encoding="utf-8"))["cases"]


def written(case: dict[str, Any], folder: Path, *, release: str = "0.36.0") -> Path:
    """The case's policy, gate, nodes, Pods and VMs as manifests in a folder."""
    given = case["given"]
    labels = {
        "app.kubernetes.io/name": "descheduler",
        "app.kubernetes.io/version": release,
        "helm.sh/chart": f"descheduler-{release}",
    }
    meta = {"name": "descheduler", "namespace": "descheduler", "labels": labels}
    args = ["--policy-config-file=/policy-dir/policy.yaml", "--v=3"]
    args += [f"--feature-gates={k}={'true' if v else 'false'}" for k, v in given.get("gates", {}).items()]
    args += ["--dry-run"] if given.get("dryRun") else []
    container = {
        "name": "descheduler",
        "image": f"registry.k8s.io/descheduler/descheduler:v{release}",
        "command": ["/bin/descheduler"],
        "args": args,
        "volumeMounts": [{"name": "policy-volume", "mountPath": "/policy-dir"}],
    }
    pod = {
        "restartPolicy": "Never",
        "serviceAccountName": "descheduler",
        "containers": [container],
        "volumes": [{"name": "policy-volume", "configMap": {"name": "descheduler"}}],
    }
    spec = {"schedule": "*/2 * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"policy.yaml": yaml.safe_dump(given["policy"])}},
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec},
        *[_node(n) for n in given.get("nodes", [])],
        *[o for p in given.get("pods", []) for o in _pods(p)],
    ]
    folder.mkdir(exist_ok=True)
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects, sort_keys=False), encoding="utf-8")
    return folder


def _node(given: dict[str, Any]) -> dict[str, Any]:
    size = {"cpu": str(given["cpu"]), "memory": given["memory"], "pods": str(given.get("pods", 110))}
    size |= {k: str(v) for k, v in given.get("extended", {}).items()}
    meta = {"name": given["name"], "labels": {"kubernetes.io/hostname": given["name"], **given.get("labels", {})}}
    ready = {"type": "Ready", "status": "False" if given.get("notReady") else "True"}
    spec = {k: given[k] for k in ("taints", "unschedulable") if k in given}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": spec,
        "status": {"allocatable": size, "capacity": size, "conditions": [ready]},
    }


def _pods(given: dict[str, Any]) -> list[dict[str, Any]]:
    count = given.get("count")
    names = [given["name"]] if count is None else [f"{given['name']}-{i}" for i in range(count)]
    return [o for n in names for o in _pod(n, given)]


def _pod(name: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    ns, vm = given.get("namespace", "default"), given.get("vm")
    labels, annotations = dict(given.get("labels", {})), dict(given.get("annotations", {}))
    made: list[dict[str, Any]] = []
    if vm is not None:
        labels["kubevirt.io"] = "virt-launcher"
        if not vm.get("noEvictOnlyAnnotation"):
            annotations["descheduler.alpha.kubernetes.io/request-evict-only"] = ""
        made.append(_vmi(str(vm.get("name", name)), ns, vm, given))
    requests = {k: str(given[k]) for k in ("cpu", "memory") if k in given}
    volumes = [{"name": "scratch", "emptyDir": {}}] if vm is not None or given.get("emptyDir") else []
    volumes += [{"name": "data", "persistentVolumeClaim": {"claimName": given["pvc"]}}] if "pvc" in given else []
    spec = {"nodeName": given.get("node"), "containers": [{"name": "c", "resources": {"requests": requests}}], "volumes": volumes}
    meta = {"name": name, "namespace": ns, "labels": labels, "annotations": annotations}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": given.get("phase", "Running")}}
    return [pod, *made]


def _vmi(name: str, ns: str, vm: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    movable = {"type": "LiveMigratable", "status": "True" if vm.get("migratable", True) else "False"}
    status = {"phase": "Running", "nodeName": vm.get("node", given.get("node")), "conditions": [movable]}
    spec = {"evictionStrategy": vm["strategy"]} if "strategy" in vm else {}
    meta = {"name": name, "namespace": ns}
    return {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": meta, "spec": spec, "status": status}
