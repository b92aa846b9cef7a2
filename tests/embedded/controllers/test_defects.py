"""Seeded defects and faults: all load, all come up, and each has its effect."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from fixtures.embedded import defects, faults
from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.embedded.ports import ContainerRun
from fixtures.kube.objects import annotations_of, condition, dig, labels, name, uid
from fixtures.kube.resources import CONFIGMAPS, CRDS, CRONJOBS, KUBEVIRTS, PODS, RESOURCEPATCHES, VMIMS, VMIS, VMS, Obj
from tests.embedded.controllers.web import Web

Start = Callable[..., EmbeddedCluster]
CHECK = re.compile(r"[A-Z]{3}-\d+")


def test_every_defect_is_complete() -> None:
    for defect in map(defects.load, defects.names()):
        assert defect.fails
        assert all(CHECK.fullmatch(c) for c in defect.fails | defect.undecided)
        assert not defect.fails & defect.undecided
        assert defect.says
        assert "\n" not in defect.says


@pytest.mark.parametrize("defect", defects.names())
def test_a_cluster_with_the_defect_comes_up(defect: str) -> None:
    with EmbeddedCluster(defects=[defect]) as cluster:
        assert {dig(v, "status", "printableStatus") for v in cluster.store.list(VMS)} == {"Running"}
        assert cluster.server.crashes == []


def argument(fault: str) -> str:
    return f"{fault}:600s" if fault == "migration-slow" else fault


@pytest.mark.parametrize("fault", [argument(f) for f in faults.names()])
def test_a_cluster_with_the_fault_comes_up(fault: str) -> None:
    assert faults.load(fault).says
    with EmbeddedCluster(faults=[fault]) as cluster:
        assert {dig(v, "status", "printableStatus") for v in cluster.store.list(VMS)} == {"Running"}


def launcher(cluster: EmbeddedCluster, vm: str = "erp-db") -> Obj:
    mine = [p for p in cluster.store.list(PODS, "tenant-a") if annotations_of(p).get("kubevirt.io/domain") == vm]
    return next(p for p in mine if dig(p, "status", "phase") == "Running")


def vmi(cluster: EmbeddedCluster) -> Obj:
    found = cluster.store.get(VMIS, "tenant-a", "erp-db")
    assert found is not None
    return found


def evicted(cluster: EmbeddedCluster, seconds: float = 20.0) -> int:
    """Evict a tenant's launcher, let time pass; the answer's code."""
    code = Web(cluster.server).evict("tenant-a", name(launcher(cluster))).code
    cluster.clock.advance(seconds)
    return code


def container(cluster: EmbeddedCluster) -> Obj:
    cronjob = cluster.store.get(CRONJOBS, "descheduler", "descheduler") or {}
    found: Obj = cronjob["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    return found


def policy(cluster: EmbeddedCluster) -> str:
    return str((cluster.store.get(CONFIGMAPS, "descheduler", "descheduler") or {})["data"]["policy.yaml"])


def test_policy_defects(embedded: Start) -> None:
    assert labels(embedded(defects=["policy-label-missing"]).store.get(CONFIGMAPS, "descheduler", "descheduler") or {}) == {}
    assert "[unclosed" in policy(embedded(defects=["policy-not-yaml"]))
    assert "PodsWithLocalStorage" not in policy(embedded(defects=["local-storage-protected"]))
    assert "evictLocalStoragePods" not in policy(embedded(defects=["local-storage-protected"], descheduler="0.33.0"))
    assert "include:" in policy(embedded(defects=["namespaces-included"]))


def test_rendering_defects(embedded: Start) -> None:
    assert container(embedded(defects=["gate-not-rendered"]))["args"] == ["--policy-config-file=/policy-dir/policy.yaml", "--v=3"]
    assert container(embedded(defects=["verbosity-too-low"]))["args"][-1] == "--v=1"
    assert container(embedded(defects=["policy-path-elsewhere"]))["args"][0] == "--policy-config-file=/etc/descheduler/policy.yaml"
    assert len(embedded(defects=["two-consumers"]).store.list(CRONJOBS)) == 2


def spec_properties(cluster: EmbeddedCluster, crd: str, version: str) -> Obj:
    found = cluster.store.get(CRDS, None, crd) or {}
    schema = next(v["schema"] for v in found["spec"]["versions"] if v["name"] == version)
    properties: Obj = schema["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return properties


def test_schema_defects(embedded: Start) -> None:
    kdo = spec_properties(embedded(defects=["kubedescheduler-shape"]), "kubedeschedulers.operator.openshift.io", "v1")
    assert kdo["profiles"]["type"] == "string"
    hco = embedded(defects=["hco-path-moved"])
    assert "evictionStrategy" not in spec_properties(hco, "hyperconvergeds.hco.kubevirt.io", "v1beta1")
    vm = spec_properties(embedded(defects=["vm-path-missing"]), "virtualmachines.kubevirt.io", "v1")
    assert "evictionStrategy" not in vm["template"]["properties"]["spec"]["properties"]


def test_the_strategy_differs_for_good(embedded: Start) -> None:
    cluster = embedded(defects=["kubevirt-strategy-differs"])
    cluster.clock.advance(60)
    assert dig(cluster.store.list(KUBEVIRTS)[0], "spec", "configuration", "evictionStrategy") == "LiveMigrate"


@pytest.mark.parametrize("defect", ["interceptor-not-registered", "interceptor-allows"])
def test_without_interception_the_vm_is_shut_down(embedded: Start, defect: str) -> None:
    cluster = embedded(defects=[defect])
    before = uid(vmi(cluster))
    assert evicted(cluster) == 201
    assert uid(vmi(cluster)) != before


def test_one_launcher_lacks_the_annotation(embedded: Start) -> None:
    cluster = embedded(defects=["launcher-annotation-missing"])
    key = "descheduler.alpha.kubernetes.io/request-evict-only"
    assert [key in annotations_of(launcher(cluster, vm)) for vm in ("erp-db", "erp-app")] == [False, True]


def test_no_marker_on_the_source(embedded: Start) -> None:
    cluster = embedded(defects=["in-progress-annotation-missing"])
    source = name(launcher(cluster))
    assert evicted(cluster, 2) == 429
    assert "descheduler.alpha.kubernetes.io/eviction-in-progress" not in annotations_of(
        cluster.store.get(PODS, "tenant-a", source) or {}
    )


def test_nothing_is_migratable(embedded: Start) -> None:
    cluster = embedded(defects=["never-migratable"])
    assert dig(condition(vmi(cluster), "LiveMigratable"), "status") == "False"


def test_labels_are_not_carried(embedded: Start) -> None:
    cluster = embedded(defects=["label-not-carried"])
    assert labels(vmi(cluster))["app"] == "erp-db"
    assert "app" not in labels(launcher(cluster))


@pytest.mark.parametrize(
    ("defect", "names"),
    [("no-evacuation", []), ("evacuation-vmim-misnamed", ["move-"]), ("migration-fails", ["kubevirt-evacuation-"] * 2)],
)
def test_migrations_that_do_not_come_as_they_should(embedded: Start, defect: str, names: list[str]) -> None:
    cluster = embedded(defects=[defect])
    assert evicted(cluster, 25) == 429
    found = [m["metadata"]["generateName"] for m in cluster.store.list(VMIMS)]
    assert found == names


def test_the_vm_is_restarted(embedded: Start) -> None:
    cluster = embedded(defects=["vm-restarted-instead"])
    before = uid(vmi(cluster))
    finished: list[str] = []
    cluster.store.subscribe(
        lambda c: finished.append(str(dig(c.object, "status", "phase"))) if c.resource.key == VMIMS.key else None
    )
    assert evicted(cluster) == 429
    assert "Succeeded" in finished
    assert uid(vmi(cluster)) != before


def test_leftovers(embedded: Start) -> None:
    cluster = embedded(defects=["old-launcher-stays"])
    source = name(launcher(cluster))
    evicted(cluster, 60)
    assert dig(cluster.store.get(PODS, "tenant-a", source), "status", "phase") == "Running"
    cluster = embedded(defects=["marker-left-behind"])
    evicted(cluster)
    assert annotations_of(vmi(cluster))["kubevirt.io/eviction-source"] == "descheduler"
    assert vmi(cluster)["status"]["nodeName"] == "worker-b"


def test_a_roll_back_that_does_not_hold(embedded: Start) -> None:
    cluster = embedded(defects=["rollback-reverted"])
    web = Web(cluster.server)
    web.merge(CONFIGMAPS, "descheduler", "descheduler", {"data": {"policy.yaml": "edited: 1\n"}})
    cluster.clock.advance(5)
    (patch,) = web.list(RESOURCEPATCHES, "descheduler")
    web.request("DELETE", RESOURCEPATCHES.path("descheduler", name(patch)))
    cluster.clock.advance(60)
    assert policy(cluster) == "edited: 1\n"
    assert web.list(RESOURCEPATCHES, "descheduler") == []


def test_the_engine_reads_the_old_policy(embedded: Start) -> None:
    read: list[str] = []

    def engine(run: ContainerRun):  # type: ignore[no-untyped-def]
        read.append(run.files["/policy-dir/policy.yaml"])
        yield 1.0
        return 0

    cluster = embedded(defects=["engine-reads-stale-policy"], run_container=engine)
    shipped = policy(cluster)
    web = Web(cluster.server)
    web.merge(CONFIGMAPS, "descheduler", "descheduler", {"data": {"policy.yaml": "edited: 1\n"}})
    cluster.clock.advance(150)
    assert read == [shipped]


def test_a_second_vm_is_asked_for(embedded: Start) -> None:
    def engine(run: ContainerRun):  # type: ignore[no-untyped-def]
        pod = launcher(cluster)
        Web(cluster.server).evict("tenant-a", name(pod))
        run.write(f'I 1 evictions.go:641] "Eviction in background assumed" pod="tenant-a/{name(pod)}"\n'.encode())
        run.write(b'I 1 descheduler.go:252] "Number of evictions/requests" totalEvicted=0 evictionRequests=1\n')
        yield 1.0
        return 0

    cluster = embedded(defects=["two-requests-in-a-cycle"], run_container=engine)
    web = Web(cluster.server)
    twin = web.get(VMS, "tenant-a", "erp-db")
    body = {"apiVersion": twin["apiVersion"], "kind": twin["kind"], "metadata": {"name": "erp-db-2"}, "spec": twin["spec"]}
    assert web.request("POST", VMS.path("tenant-a"), body).code == 201
    cluster.clock.advance(120)
    run = next(p for p in web.list(PODS, "descheduler"))
    log = web.request("GET", PODS.path("descheduler", name(run), "log")).body
    assert log.count("Eviction in background assumed") == 2
    assert "evictionRequests=2" in log
    assert len(web.list(VMIMS)) == 2


def test_the_version_is_missing(embedded: Start) -> None:
    from fixtures.kube.resources import HYPERCONVERGEDS

    assert embedded(defects=["version-unknown"]).store.list(HYPERCONVERGEDS)[0]["status"]["versions"] == []


def test_faults_act(embedded: Start) -> None:
    cluster = embedded(faults=["migration-fails:1"])
    evicted(cluster, 60)
    assert [dig(m, "status", "phase") for m in cluster.store.list(VMIMS)].count("Failed") == 1
    assert vmi(cluster)["status"]["nodeName"] == "worker-b"
    cluster = embedded(faults=["migration-slow:300s"])
    evicted(cluster, 290)
    assert [dig(m, "status", "phase") for m in cluster.store.list(VMIMS)] == ["Running"]
    cluster.clock.advance(20)
    assert [dig(m, "status", "phase") for m in cluster.store.list(VMIMS)] == ["Succeeded"]
    cluster = embedded(faults=["node-down"])
    evicted(cluster, 10)
    assert [dig(m, "status", "phase") for m in cluster.store.list(VMIMS)] == ["Failed"]
    assert evicted(embedded(faults=["interceptor-down"]), 0) == 500


@pytest.mark.parametrize(
    ("fault", "verb", "code"), [("api-429:3", "GET", 429), ("api-500:3", "GET", 500), ("conflict-storm:3", "PATCH", 409)]
)
def test_every_third_request_is_refused(embedded: Start, fault: str, verb: str, code: int) -> None:
    web = Web(embedded(faults=[fault]).server)
    path = CONFIGMAPS.path("descheduler", "descheduler")
    media = "application/merge-patch+json"
    codes = [web.request(verb, path, {} if verb == "PATCH" else None, media=media).code for _ in range(6)]
    assert codes == [200, 200, code] * 2


def test_watches_are_cut_again_and_again(embedded: Start) -> None:
    cluster = embedded(faults=["watch-drop:5"])
    cut: list[float] = []
    cluster.server.end_watches = lambda *_: cut.append(cluster.clock.now())  # type: ignore[method-assign]
    cluster.clock.advance(21)
    assert len(cut) == 4


@pytest.mark.parametrize("spec", ["api-429:1", "api-500:x", "conflict-storm:0", "watch-drop:soon"])
def test_arguments_of_api_faults_are_numbers(spec: str) -> None:
    with pytest.raises(ValueError, match="takes a number above 1, got"):
        faults.load(spec)
