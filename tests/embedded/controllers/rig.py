"""Controllers over a bare store: four workers, KubeVirt, no HTTP; requests go through the admission hooks by hand."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, ClassVar

from fixtures import versions
from fixtures.embedded.clock import Clock
from fixtures.embedded.controllers import assembly
from fixtures.embedded.controllers.base import Context, set_condition
from fixtures.embedded.controllers.kubelet import Kubelet
from fixtures.embedded.controllers.manager import Manager
from fixtures.embedded.controllers.virt.admission import KubeVirtAdmission
from fixtures.embedded.controllers.virt.handler import PlainMigrations
from fixtures.embedded.controllers.virt.interceptor import Interceptor
from fixtures.embedded.installed import base, kubevirt
from fixtures.embedded.ports import AdmissionRequest, ApiError, Change, ContainerRun, RunContainer
from fixtures.embedded.store import Store, Traits, copy
from fixtures.kube.objects import name, uid
from fixtures.kube.resources import (
    ENDPOINTS,
    KUBEVIRTS,
    PODS,
    VALIDATING_WEBHOOKS,
    VMIMS,
    VMIS,
    VMS,
    Obj,
    Resource,
)

NS = "story"
EPOCH = 1_764_579_234.0
DESCHEDULER = {"requested-by": "sigs.k8s.io/descheduler"}


class Planned(PlainMigrations):
    """Migrations with a fixed duration and a number of failures to come."""

    def __init__(self, seconds: float = 10.0, failures: int = 0) -> None:
        self.pace, self.failures = seconds, failures

    def seconds(self, vmi: Obj) -> float:
        return self.pace

    def failure(self, vmi: Obj) -> str | None:
        if self.failures:
            self.failures -= 1
            return "Live migration failed: injected failure"
        return None


def idle(_: ContainerRun) -> Generator[float, None, int]:
    yield 1.0
    return 0


class Rig:
    """A cluster without server; ``changes`` holds every commit."""

    #: The rigs of the running test, whose controllers must not have crashed at its end.
    made: ClassVar[list[Rig]] = []

    def __init__(
        self,
        *,
        kubevirt_version: str = "1.9.0",
        kubernetes: str = "1.36",
        workers: int = 4,
        strategy: str | None = "LiveMigrate",
        migrations: Planned | None = None,
        run_container: RunContainer = idle,
        emulation: bool = True,
    ) -> None:
        Rig.made.append(self)
        self.clock = Clock(epoch=EPOCH)
        self.store = Store(self.clock)
        self.store.describe(VMIS.key, Traits(status=False))
        facts = versions.kubevirt(kubevirt_version)
        self.migrations = migrations or Planned()
        self.ctx = Context(self.store, self.clock, facts, versions.kubernetes(kubernetes), self.migrations)
        self.logs: dict[str, bytes] = {}
        self.kubelet = Kubelet(self.ctx, run_container=run_container, kubeconfig=lambda user: {"user": user}, log=self._log)
        self.manager = Manager(
            self.store, self.clock, assembly.kubernetes(self.ctx, self.kubelet) + assembly.kubevirt(self.ctx, self.kubelet)
        )
        self.hooks: list[Callable[[AdmissionRequest], None]] = [KubeVirtAdmission(self.ctx), Interceptor(self.ctx)]
        self.changes: list[Change] = []
        self.store.subscribe(self.changes.append)
        self._furnish(facts, workers, strategy, emulation=emulation)

    def _furnish(self, facts: versions.KubeVirtFacts, workers: int, strategy: str | None, *, emulation: bool) -> None:
        configuration: Obj = {"developerConfiguration": {"useEmulation": emulation}}
        if strategy is not None:
            configuration["evictionStrategy"] = strategy
        cr = {"metadata": {"name": "kubevirt", "namespace": "kubevirt"}, "spec": {"configuration": configuration}}
        self.store.create(KUBEVIRTS, cr)
        self.store.create(
            VALIDATING_WEBHOOKS,
            kubevirt.webhook_configuration(facts, kubevirt.Install("kubevirt", "kubevirt", None, f"v{facts.version}")),
        )
        ready = {"metadata": {"name": "virt-api", "namespace": "kubevirt"}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}
        self.store.create(ENDPOINTS, ready)
        for i in range(workers):
            self.store.create(
                *base.node(f"worker-{i}", f"10.88.250.{i + 1}", base.Shape("", (f"worker-{i}",)), kubelet="v1.36.0", marks={})
            )

    def _log(self, pod_uid: str, container: str, data: bytes) -> None:
        self.logs[pod_uid] = self.logs.get(pod_uid, b"") + data

    # ---- requests

    def create(self, resource: Resource, obj: Obj, *, user: str = "admin") -> Obj:
        obj = copy(obj)
        obj.setdefault("kind", resource.kind)
        obj.setdefault("apiVersion", resource.api_version)
        ns = obj["metadata"].setdefault("namespace", NS) if resource.namespaced else ""
        self._admit("CREATE", resource, obj, None, ns=ns, user=user)
        return self.store.create(resource, obj)

    def update(self, resource: Resource, obj: Obj, *, user: str = "admin") -> Obj:
        old = self.store.get(resource, obj["metadata"].get("namespace"), name(obj))
        obj = copy(obj)
        self._admit("UPDATE", resource, obj, old, ns=obj["metadata"].get("namespace", ""), user=user)
        return self.store.update(resource, obj)

    def _admit(self, operation: str, resource: Resource, obj: Obj, old: Obj | None, *, ns: str, user: str, sub: str = "") -> None:
        request = AdmissionRequest(operation, resource, sub, ns, name(obj), obj, old, user, False)
        for hook in self.hooks:
            hook(request)

    def evict(self, pod: str, *, ns: str = NS, dry_run: bool = False, descheduler: bool = True, **more: Any) -> tuple[int, str]:
        """Code and message; an allowed eviction deletes the Pod."""
        by = dict(DESCHEDULER) if descheduler else {}
        eviction: Obj = {"metadata": {"name": pod, "namespace": ns, "annotations": by}, **more}
        request = AdmissionRequest("CREATE", PODS, "eviction", ns, pod, eviction, None, "descheduler", dry_run)
        try:
            for hook in self.hooks:
                hook(request)
        except ApiError as answer:
            assert not answer.headers  # noqa: PT017  no Retry-After, whatever the answer
            assert answer.code == 500 or not answer.reason  # noqa: PT017
            return answer.code, answer.message
        if self.store.get(PODS, ns, pod) is not None and not dry_run:
            now = self.clock.stamp()
            target = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
            self.store.edit(PODS, ns, pod, lambda p: set_condition(p, "DisruptionTarget", "True", now, **target))
            self.store.delete(PODS, ns, pod)
        return 201, ""

    # ---- looks

    def vm(self, vm_name: str = "vm-a", *, guest: str = "512Mi", **spec: Any) -> Obj:
        """Create a VM from the smallest migratable template, ``spec`` merged over the template's."""
        template: Obj = {
            "domain": {
                "memory": {"guest": guest},
                "devices": {
                    "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                    "interfaces": [{"name": "default", "masquerade": {}}],
                },
                "resources": {},
            },
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [{"name": "root", "containerDisk": {"image": "quay.io/kubevirt/cirros:v1"}}],
        }
        meta = {"labels": {"app": "desched-test"}, "annotations": dict(spec.pop("annotations", {}))}
        body = {"runStrategy": "Always", "template": {"metadata": meta, "spec": {**template, **spec}}}
        return self.create(VMS, {"metadata": {"name": vm_name}, "spec": body})

    def running(self, vm_name: str = "vm-a", **spec: Any) -> str:
        """Create a VM, let it run; the launcher's name."""
        self.vm(vm_name, **spec)
        self.clock.advance(2)
        return name(self.pods(vm_name)[0])

    def vmi(self, vmi_name: str = "vm-a") -> Obj:
        found = self.store.get(VMIS, NS, vmi_name)
        assert found is not None
        return found

    def pods(self, vmi_name: str = "vm-a") -> list[Obj]:
        """Launchers of a VM by name, oldest first."""
        mine = [p for p in self.store.list(PODS, NS) if p["metadata"].get("annotations", {}).get("kubevirt.io/domain") == vmi_name]
        return sorted(mine, key=self.ctx.index.born)

    def migrations_of(self, vmi_name: str | None = None) -> list[Obj]:
        found = [m for m in self.store.list(VMIMS, NS) if vmi_name in (None, m["spec"]["vmiName"])]
        return sorted(found, key=self.ctx.index.born)

    def mark(self, vmi_name: str = "vm-a") -> None:
        """Mark a VMI as the webhook does."""
        pod = next(p for p in self.pods(vmi_name) if p["spec"].get("nodeName") == self.vmi(vmi_name)["status"]["nodeName"])
        assert self.evict(name(pod))[0] == 429

    def wait(self, condition: Callable[[], Any], within: float = 60.0) -> Any:
        """Step until the condition holds."""
        end = self.clock.now() + within
        while not condition():
            assert self.clock.step(end), f"not reached within {within} virtual seconds"
        return condition()


def events(rig: Rig, about: str) -> list[tuple[str, str]]:
    """Reason and message of the Events about objects of that name, oldest first."""
    return [
        (c.object["reason"], c.object["message"])
        for c in rig.changes
        if c.resource.plural == "events" and c.type == "ADDED" and c.object["involvedObject"]["name"] == about
    ]


def same_uid(one: Obj, other: Obj) -> bool:
    return uid(one) == uid(other)
