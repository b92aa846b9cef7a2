"""What keeps a run from touching a cluster: each obstacle is refused with a reason, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.cluster.api import Edit, Verb
from fixtures.cluster.client import KubeCluster
from fixtures.cluster.embedded import EmbeddedUnderTest, client_of
from fixtures.embedded.installed import base
from fixtures.embedded.store import Store
from fixtures.foreseeing import refusals
from fixtures.found import Found
from fixtures.kube.objects import condition, name
from fixtures.kube.resources import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CRDS,
    ENDPOINTSLICES,
    KUBEVIRTS,
    NODES,
    PODS,
    VMIMS,
    VMIS,
    Obj,
    Resource,
)
from fixtures.options import Settings
from fixtures.scenario import preflight
from fixtures.scenario.record import Reached
from tests.scenario import cases

Change = Callable[[Store], object]


@pytest.fixture
def acp() -> Iterator[EmbeddedUnderTest]:
    cluster = cases.start()
    yield cluster
    cluster.close()


def node(edit: Callable[[Obj], object], which: str = "worker-b") -> Change:
    def change(found: Obj) -> None:
        edit(found)

    return lambda store: store.edit(NODES, None, which, change)


def labelled(key: str, value: str) -> Callable[[Obj], object]:
    return lambda n: n["metadata"]["labels"].update({key: value})


def not_ready(n: Obj) -> None:
    ready = condition(n, "Ready")
    assert ready is not None
    ready["status"] = "Unknown"


def limit(store: Store, key: str, value: int) -> None:
    found = store.list(KUBEVIRTS)[0]["metadata"]
    store.edit(
        KUBEVIRTS, found["namespace"], found["name"],
        lambda k: k["spec"]["configuration"].setdefault("migrations", {}).update({key: value}),
    )  # fmt: skip


def stranger(store: Store) -> None:
    pod: Obj = {"metadata": {"name": "odd", "namespace": "tenant-a", "labels": {"app": "rebalance-conformance-r1"}}}
    store.create(PODS, {**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}})


def migration(store: Store) -> None:
    meta = {"name": "theirs", "namespace": "tenant-a", "finalizers": ["kept"]}
    store.create(VMIMS, {"metadata": meta, "spec": {"vmiName": "gone"}, "status": {"phase": "Running"}})


MAINTENANCES = Resource("nodemaintenance.medik8s.io", "v1beta1", "nodemaintenances", "NodeMaintenance", namespaced=False)


def maintenance(store: Store) -> None:
    """The node maintenance operator's CRD, and a node about to be drained: neither cordoned nor tainted yet."""
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    version["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] = True
    names = {"plural": MAINTENANCES.plural, "kind": MAINTENANCES.kind}
    spec = {"group": MAINTENANCES.group, "names": names, "scope": "Cluster", "versions": [version]}
    store.create(CRDS, {"metadata": {"name": MAINTENANCES.key}, "spec": spec})
    store.create(MAINTENANCES, {"metadata": {"name": "swap-disk"}, "spec": {"nodeName": "worker-b", "reason": "a new disk"}})


def marked_launcher(store: Store) -> None:
    pod = next(p for p in store.list(PODS, "tenant-a") if p["metadata"]["labels"].get("kubevirt.io") == "virt-launcher")
    store.edit(
        PODS, "tenant-a", name(pod),
        lambda p: p["metadata"].setdefault("annotations", {}).update({"descheduler.alpha.kubernetes.io/eviction-in-progress": ""}),
    )  # fmt: skip


OBSTACLES: dict[str, tuple[Change, str]] = {
    "cordoned": (node(lambda n: n["spec"].update(unschedulable=True)), "worker-b: cordoned"),
    "drain taint": (
        node(lambda n: n["spec"].update(taints=[{"key": "kubevirt.io/drain", "effect": "NoSchedule"}])),
        "worker-b: taint kubevirt.io/drain:NoSchedule",
    ),
    "about to be scaled down": (
        node(lambda n: n["spec"].update(taints=[{"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}])),
        "worker-b: taint DeletionCandidateOfClusterAutoscaler",
    ),
    "autoscaled": (
        node(labelled("karpenter.sh/nodepool", "spot")),
        "worker-b: label karpenter.sh/nodepool: its group is autoscaled",
    ),
    "maintenance": (maintenance, "worker-b: NodeMaintenance swap-disk"),
    "taken out by its taint": (
        node(lambda n: n["spec"].update(taints=[{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}])),
        "worker-b: taint node.kubernetes.io/out-of-service:NoExecute",
    ),
    "no hostname": (
        node(lambda n: n["metadata"]["labels"].pop("kubernetes.io/hostname")),
        "worker-b: label kubernetes.io/hostname is missing",
    ),
    "control plane": (node(labelled("node-role.kubernetes.io/control-plane", "")), "worker-b: control plane"),
    "not ready": (node(not_ready), "worker-b: condition Ready is Unknown"),
    "no KVM": (node(labelled("kubevirt.io/schedulable", "false")), "worker-b: label kubevirt.io/schedulable is 'false'"),
    "too full": (
        lambda store: [
            store.edit(NODES, None, w, lambda n: n["status"]["allocatable"].update(memory="9Gi")) for w in ("worker-a", "worker-b")
        ],
        "no imbalance fits on the two workers",
    ),
    "limit of the cluster": (
        lambda store: limit(store, "parallelMigrationsPerCluster", 0),
        "parallelMigrationsPerCluster is 0, wanted 1",
    ),
    "limit of a node": (
        lambda store: limit(store, "parallelOutboundMigrationsPerNode", 0),
        "parallelOutboundMigrationsPerNode is 0, wanted 1",
    ),
    "stranger's label": (
        stranger,
        "Pods outside rebalance-conformance-r1 carry the run's label app=rebalance-conformance-r1: tenant-a/odd",
    ),
    "others migrate": (migration, "live migrations are under way: tenant-a/theirs"),
    "already marked": (
        lambda store: store.edit(VMIS, "tenant-a", "erp-db", lambda v: v["status"].update(evacuationNodeName="nowhere")),
        "evictions are in progress already: VMI tenant-a/erp-db",
    ),
    "a launcher already marked": (marked_launcher, "evictions are in progress already: Pod tenant-a/virt-launcher-"),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_an_obstacle_is_refused_with_its_reason(acp: EmbeddedUnderTest, tmp_path: Path, obstacle: str) -> None:
    change, says = OBSTACLES[obstacle]
    change(acp.world.store)
    before = cases.footprint(acp)
    record = cases.scenario(acp, tmp_path).play()
    assert record.stopped_at is Reached.PREFLIGHT
    assert says in record.stopped_because
    assert cases.footprint(acp) == before
    assert not list(tmp_path.iterdir())


def test_a_plan_foresees_the_refusal_and_touches_nothing(acp: EmbeddedUnderTest) -> None:
    settings = Settings()
    assert refusals(acp, Found(acp, settings), settings) == ()
    node(lambda n: n["spec"].update(unschedulable=True))(acp.world.store)
    migration(acp.world.store)
    before = cases.footprint(acp)
    told = refusals(acp, Found(acp, settings), settings)
    assert [t.partition(":")[0] for t in told] == [
        "live migrations are under way", "1 suitable worker(s) found, wanted at least 2 (control-plane-1",
    ]  # fmt: skip
    assert cases.footprint(acp) == before


def test_what_was_discovered_to_stand_in_the_way_is_refused_too(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    record = cases.scenario(acp, tmp_path, obstacles=("it is managed by Flux",)).play()
    assert (record.stopped_at, record.stopped_because) == (Reached.PREFLIGHT, "it is managed by Flux")


def test_missing_rights_are_named_before_anything_is_done(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    role = {"metadata": {"name": "reader"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]}
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "User", "name": "jo", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    acp.change(Edit(Verb.CREATE, CLUSTERROLES, "reader", body=role))
    acp.change(Edit(Verb.CREATE, CLUSTERROLEBINDINGS, "reader", body=binding))
    jo = KubeCluster(client_of(acp.world.server, "jo"), user="jo")
    before = cases.footprint(acp)
    record = cases.scenario(jo, tmp_path).play()
    jo.close()
    assert record.stopped_at is Reached.PREFLIGHT
    assert "may not create namespaces, delete namespaces" in record.stopped_because
    assert "grant these rights" in record.stopped_because
    assert cases.footprint(acp) == before


def test_a_policy_that_its_release_refuses_is_an_obstacle() -> None:
    assert preflight.refused("apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles: []\n", "0.36.0") is None
    told = preflight.refused("nonsense: [", "0.36.0")
    assert told is not None
    assert told.startswith("descheduler 0.36.0 would refuse the installed policy: ")


def test_an_interceptor_without_endpoints_is_an_obstacle(acp: EmbeddedUnderTest) -> None:
    assert preflight.endpoints_missing(acp, ("kubevirt", "virt-api")) is None
    for found in acp.world.store.list(ENDPOINTSLICES, "kubevirt"):
        acp.world.store.delete(ENDPOINTSLICES, "kubevirt", name(found))
    assert "Service kubevirt/virt-api has no ready endpoint" in str(preflight.endpoints_missing(acp, ("kubevirt", "virt-api")))


def nodes(count: int) -> Callable[[Any], None]:
    """A world with that many workers; the further ones are as empty as a new node is."""

    def prepare(world: Any) -> None:
        for number in range(count - 2):
            more = f"worker-{'cde'[number]}"
            world.items.insert(0, base.node(more, f"10.0.1.{number}", base.Shape("", (more,)), kubelet="v1.35.0", marks={}))

    return prepare


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 5])
def test_of_several_workers_the_two_emptiest_are_taken(count: int, tmp_path: Path) -> None:
    cluster = cases.start(prepare=nodes(count))
    try:
        before = cases.footprint(cluster)
        record = cases.scenario(cluster, tmp_path).play()
        assert record.reached is Reached.ROLLED_BACK, record.stopped_because
        assert {record.source, record.target} & {"worker-c", "worker-d", "worker-e"}
        assert cases.footprint(cluster) == before
    finally:
        cluster.close()
