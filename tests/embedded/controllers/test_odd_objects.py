"""Objects that the API server lets in although nobody means them: controllers cope, and go on with everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.embedded.controllers.base import Base
from fixtures.embedded.ports import ApiError, Change, Key
from fixtures.kube.objects import dig
from fixtures.kube.resources import (
    CONFIGMAPS,
    CRONJOBS,
    DEPLOYMENTS,
    HYPERCONVERGEDS,
    JOBS,
    KUBEVIRTS,
    PDBS,
    PODS,
    RESOURCEPATCHES,
    SERVICES,
    VMIS,
    VMS,
    Resource,
)
from tests.embedded.controllers.rig import NS, Rig
from tests.embedded.controllers.web import Web

Start = Callable[..., EmbeddedCluster]
SELECTOR = {"matchLabels": {"a": "b"}}
NO_OPERATOR = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
CONTAINER = {"name": "c", "image": "descheduler"}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
ONCE = {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
APART = {"labelSelector": NO_OPERATOR, "topologyKey": "kubernetes.io/hostname"}
ODD: list[tuple[Resource, dict[str, Any]]] = [
    (DEPLOYMENTS, {"selector": SELECTOR, "template": TEMPLATE, "strategy": None}),
    (PDBS, {"minAvailable": "abc", "selector": SELECTOR}),
    (PDBS, {"maxUnavailable": "x%", "selector": SELECTOR}),
    (PDBS, {"minAvailable": 1, "selector": NO_OPERATOR}),
    (PDBS, {"minAvailable": 1}),
    (JOBS, {"template": ONCE, "completions": 0}),
    (JOBS, {"template": ONCE, "parallelism": 0}),
    (JOBS, {"template": ONCE, "activeDeadlineSeconds": -5, "backoffLimit": -1}),
    (CRONJOBS, {"schedule": "99 99 * * *", "jobTemplate": {"spec": {"template": ONCE}}}),
    (CRONJOBS, {"schedule": "0 0 31 2 *", "jobTemplate": {"spec": {"template": ONCE}}}),
    (CRONJOBS, {"schedule": "@hourly", "successfulJobsHistoryLimit": -1, "jobTemplate": {"spec": {"template": ONCE}}}),
    (
        PODS,
        {"containers": [CONTAINER], "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}},
    ),
    (PODS, {"containers": [{**CONTAINER, "volumeMounts": [{"name": "no", "mountPath": "/x"}], "env": [{"name": "A"}]}]}),
    (PODS, {"containers": [CONTAINER], "volumes": [{"name": "v", "configMap": {}}]}),
    (PODS, {"containers": [CONTAINER], "nodeName": "no-such-node"}),
    (PODS, {"containers": [CONTAINER], "readinessGates": [{}], "tolerations": [{"operator": "Gt", "value": "x"}]}),
    (SERVICES, {"selector": {"a": "b"}}),
    (SERVICES, {"selector": {"a": "b"}, "ports": [{"port": 80, "targetPort": "http"}]}),
    (VMIS, {"domain": {}}),
    (VMIS, {"domain": {"cpu": {"cores": -1}}}),
    (VMS, {"runStrategy": "Sometimes", "template": {"spec": {"domain": {}}}}),
    (VMS, {"runStrategy": "Always", "template": {}}),
    (VMS, {"running": True, "template": {"spec": {"domain": {}, "volumes": [{"name": "x"}], "priorityClassName": "none"}}}),
    (RESOURCEPATCHES, {"target": {"apiVersion": "v1", "kind": "X", "name": "y"}}),
    (RESOURCEPATCHES, {"target": {"apiVersion": "v1", "kind": "ConfigMap", "name": "descheduler"}, "jsonPatch": []}),
    (HYPERCONVERGEDS, {}),
    (KUBEVIRTS, {"configuration": {"migrations": {"parallelMigrationsPerCluster": 0}}}),
]


def test_no_odd_object_stops_a_controller(embedded: Start) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    for number, (resource, spec) in enumerate(ODD):
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": f"odd-{number}"}, "spec": spec}
        assert web.request("POST", resource.path("default"), body).code == 201, (number, resource.kind)
        cluster.clock.advance(3)
    cluster.clock.advance(130)
    assert web.get(CONFIGMAPS, "descheduler", "descheduler")["data"]["policy.yaml"]
    assert dig(web.get(VMS, "tenant-a", "erp-db"), "status", "printableStatus") == "Running"


class Broken(Base):
    """Fails on every ConfigMap, in its own way."""

    name = "broken"
    watches = ("configmaps",)

    def __init__(self, rig: Rig, problem: Exception) -> None:
        super().__init__(rig.ctx)
        self.problem, self.times = problem, list[float]()

    def keys(self, change: Change) -> Iterable[Key]:
        return ((NS, "x"),)

    def reconcile(self, key: Key) -> float | None:
        self.times.append(round(self.clock.now(), 2))
        raise self.problem


@pytest.mark.parametrize(
    ("problem", "crashes"),
    [(ValueError("odd"), 4), (ApiError(500, "down"), 4), (ApiError(409, "stale"), 0), (ApiError(404, "gone"), 0)],
)
def test_a_failing_reconcile_is_remembered_and_repeated_with_back_off(problem: Exception, crashes: int) -> None:
    rig = Rig()
    broken = Broken(rig, problem)
    rig.manager.add(broken)
    rig.store.create(CONFIGMAPS, {"metadata": {"name": "x", "namespace": NS}})
    rig.clock.advance(8)
    assert [(c.controller, c.key, c.problem) for c in rig.manager.crashes] == [("broken", (NS, "x"), problem)] * crashes
    gaps = [round(b - a, 2) for a, b in zip(broken.times, broken.times[1:], strict=False)]
    assert gaps[:3] == ([1.0, 2.0, 4.0] if crashes else [0.05] * 3)
