"""What the tests of the scenario share: a cluster, plays of the scenario on it, what must be the same afterwards, death."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fixtures.cluster import discover
from fixtures.cluster.api import Cluster, Edit, Watch
from fixtures.cluster.embedded import EmbeddedUnderTest, reference_engine
from fixtures.embedded import errors
from fixtures.embedded.api.context import answer
from fixtures.embedded.api.http import Response
from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.embedded.plugins import Defect
from fixtures.embedded.ports import ApiError
from fixtures.embedded.server import Arrival
from fixtures.embedded.world import World
from fixtures.engine.installed import InstalledEngine
from fixtures.engine.reference.behaviour import DEFAULT
from fixtures.kube.objects import dig, full_name, labels, uid
from fixtures.kube.resources import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CONFIGMAPS,
    CRONJOBS,
    DEPLOYMENTS,
    HYPERCONVERGEDS,
    JOBS,
    KUBEVIRTS,
    LEASES,
    MIGRATIONPOLICIES,
    NAMESPACES,
    PODS,
    PRIORITYCLASSES,
    RESOURCEPATCHES,
    VMIMS,
    VMIS,
    VMS,
    Obj,
)
from fixtures.scenario.run import Inputs, Scenario

NS = "descheduler"


def start(*, prepare: Callable[[World], None] | None = None, **options: Any) -> EmbeddedUnderTest:
    """A cluster with the reference engine installed, behaving as the descheduler release; ``prepare`` edits its world first."""
    version = options.get("descheduler", DEFAULT)
    world = EmbeddedCluster(run_container=partial(reference_engine, version=version), **options)
    if prepare is not None:
        nothing: frozenset[str] = frozenset()
        world.plugins.append(Defect("prepared", "", nothing, nothing, prepare, lambda _: None))
    return EmbeddedUnderTest(world)


def as_deployment(world: World) -> None:
    """The descheduler as a Deployment with an interval instead of a CronJob."""
    cronjob = world.find(CRONJOBS, "descheduler")
    pod = dict(cronjob["spec"]["jobTemplate"]["spec"]["template"]["spec"], restartPolicy="Always")
    pod["containers"][0]["args"].append("--descheduling-interval=2m")
    marks = {"app": "descheduler"}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": marks},
        "template": {"metadata": {"labels": marks}, "spec": pod},
    }
    world.drop(CRONJOBS, "descheduler")
    world.late.append((DEPLOYMENTS, {"metadata": cronjob["metadata"], "spec": spec}))


def inputs(cluster: Cluster, ns: str = NS, *, engine: Callable[[Cluster, Obj], Any] | None = None, **more: Any) -> Inputs:
    """What discovery finds on that cluster."""
    found = discover.find_installation(cluster, ns)
    consumer = found.consumer
    policy = found.policy.configmap
    assert policy is not None
    workload = {"apiVersion": consumer.resource.api_version, "kind": consumer.resource.kind, **consumer.object}
    make = engine or InstalledEngine
    given: dict[str, Any] = {"descheduler_version": "0.36.0", **more}
    return Inputs(
        policy=policy,
        consumer=workload,
        consumer_resource=consumer.resource,
        engine=lambda guarded: make(guarded, workload),
        **given,
    )


def scenario(cluster: Cluster, folder: Path, run: str = "r1", ns: str = NS, **more: Any) -> Scenario:
    """A scenario ready to be played."""
    return Scenario(cluster, inputs(cluster, ns, **more), run=run, folder=folder)


def footprint(cluster: EmbeddedUnderTest) -> dict[str, Any]:
    """Everything that a run must leave as it was, as the store holds it."""
    store = cluster.world.store
    found: dict[str, Any] = {}
    for resource in (CONFIGMAPS, CRONJOBS, DEPLOYMENTS, RESOURCEPATCHES, HYPERCONVERGEDS, KUBEVIRTS):
        for obj in store.list(resource):
            parts = {"uid": uid(obj), "labels": labels(obj), "data": obj.get("data"), "spec": obj.get("spec")}
            found[f"{resource.plural} {full_name(obj)}"] = parts
    for resource in (NAMESPACES, PRIORITYCLASSES, LEASES, VMS, VMIS, MIGRATIONPOLICIES, CLUSTERROLES, CLUSTERROLEBINDINGS):
        for obj in store.list(resource):
            found[f"{resource.plural} {full_name(obj)}"] = uid(obj)
    for obj in store.list(VMIMS):
        if dig(obj, "status", "phase") not in ("Succeeded", "Failed"):
            found[f"unfinished {full_name(obj)}"] = uid(obj)
    for obj in store.list(JOBS):
        if "-cycle-" in full_name(obj):
            found[f"job {full_name(obj)}"] = uid(obj)
    for obj in store.list(PODS):
        if full_name(obj).startswith("rebalance-"):
            found[f"pod {full_name(obj)}"] = uid(obj)
    return found


def outage(cluster: EmbeddedUnderTest, *, until: float = math.inf, seconds: float = math.inf) -> None:
    """The API server answers nobody but the cluster itself until then (its own clock), or for so many real seconds.

    Open watches are cut by the real outage only: virtual time stands still until they have caught up.
    """
    end, real = time.monotonic() + seconds, seconds < math.inf

    def intercept(arrival: Arrival) -> Response | None:
        if not real and arrival.target.verb == "watch":
            return None
        if cluster.now() >= until or time.monotonic() >= end or not arrival.target.is_resource or arrival.user.name != "admin":
            return None
        refusal = ApiError(503, "the API server is shutting down", reason="ServiceUnavailable")
        return answer(errors.status(refusal), 503)

    cluster.world.server.interceptors.append(intercept)
    if real:
        cluster.world.server.end_watches()


class Killed(BaseException):
    """The process is gone: nothing catches it, and nothing works any more."""


class Mortal:
    """A cluster whose user dies at its ``at``-th write, before the request went out or right after it.

    From then on every use of it is death again: no roll-back, no note in the journal, as with SIGKILL.
    """

    def __init__(self, inner: EmbeddedUnderTest, at: int, *, after: bool) -> None:
        object.__setattr__(self, "_inner", inner)
        object.__setattr__(self, "_at", at)
        object.__setattr__(self, "_after", after)
        object.__setattr__(self, "writes", [])
        object.__setattr__(self, "opened", [])
        object.__setattr__(self, "dead", False)

    def __getattr__(self, name: str) -> Any:
        if self.dead:
            raise Killed
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if self.dead:
            raise Killed
        setattr(self._inner, name, value)

    def change(self, edit: Edit) -> Obj:
        """As the cluster's, until the end."""
        if self.dead:
            raise Killed
        self.writes.append(f"{edit.verb} {edit.resource.plural} {edit.why}")
        last = len(self.writes) == self._at
        if last and not self._after:
            self._die()
        try:
            answer: Obj = self._inner.change(edit)
        finally:
            if last:
                self._die()
        return answer

    def watch(self, *args: Any, **options: Any) -> Watch:
        """As the cluster's; connections of a dead process end."""
        if self.dead:
            raise Killed
        opened: Watch = self._inner.watch(*args, **options)
        self.opened.append(opened)
        return opened

    def _die(self) -> None:
        object.__setattr__(self, "dead", True)
        self._inner.journal = None
        for watch in self.opened:
            watch.close()
        raise Killed
