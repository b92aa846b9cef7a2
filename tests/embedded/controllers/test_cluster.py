"""The assembled cluster: what is there at the start, versions, platforms, the CronJob's engine, determinism."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.embedded.plugins import UnknownPlugin
from fixtures.embedded.ports import ContainerRun
from fixtures.kube import nodefit
from fixtures.kube.objects import annotations_of, dig, full_name, is_true, labels, name
from fixtures.kube.podresources import pod_requests
from fixtures.kube.resources import (
    CONFIGMAPS,
    CRONJOBS,
    DEPLOYMENTS,
    ENDPOINTS,
    EVENTS,
    HYPERCONVERGEDS,
    JOBS,
    KUBEDESCHEDULERS,
    KUBEVIRTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCEPATCHES,
    VALIDATING_WEBHOOKS,
    VMIMS,
    VMIS,
    VMS,
)
from fixtures.versions import UnknownVersion
from tests.embedded.controllers.web import Web

Start = Callable[..., EmbeddedCluster]
ARGS = ["--policy-config-file=/policy-dir/policy.yaml", "--feature-gates=EvictionsInBackground=true", "--v=3"]
#: As the options of the command line have it.
OPENSHIFT = {
    "platform": "openshift",
    "workload": "deployment",
    "kubedescheduler": True,
    "kubevirt": "1.7.1",
    "descheduler": "0.34.0",
}


def arguments(web: Web, ns: str) -> list[str]:
    cronjob = web.get(CRONJOBS, ns, "descheduler")
    found: list[str] = cronjob["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


@pytest.mark.parametrize(
    ("platform", "ns", "cr"), [("acp", "descheduler", "kubevirt-kubevirt-hyperconverged"), ("upstream", "kube-system", "kubevirt")]
)
def test_everything_has_settled(embedded: Start, platform: str, ns: str, cr: str) -> None:
    cluster = embedded(platform=platform)
    web = Web(cluster.server)
    assert [name(n) for n in web.list(NODES)] == ["control-plane-1", "worker-a", "worker-b"]
    assert {dig(p, "status", "phase") for p in web.list(PODS)} == {"Running"}
    assert all(is_true(p, "Ready") for p in web.list(PODS))
    assert {dig(v, "status", "printableStatus") for v in web.list(VMS)} == {"Running"}
    assert {v["status"]["nodeName"] for v in web.list(VMIS)} == {"worker-a", "worker-b"}
    assert all(is_true(v, "LiveMigratable") for v in web.list(VMIS))
    assert arguments(web, ns) == ARGS
    marks = labels(web.get(CONFIGMAPS, ns, "descheduler"))
    assert marks["app.kubernetes.io/name"] == "descheduler"
    assert web.get(KUBEVIRTS, "kubevirt", cr)["status"]["observedKubeVirtVersion"] == "v1.8.4"
    assert len(dig(web.get(ENDPOINTS, "kubevirt", "virt-api"), "subsets", 0, "addresses")) == 2
    assert web.list(JOBS) == []
    assert not [e for e in web.list(EVENTS) if e["type"] != "Normal"]
    served = web.request("GET", HYPERCONVERGEDS.path()).code, web.request("GET", RESOURCEPATCHES.path()).code
    assert served == ((200, 200) if platform == "acp" else (404, 404))
    assert (cluster.global_server is not None) is (platform == "acp")
    assert web.request("GET", KUBEDESCHEDULERS.path()).code == 404


@pytest.mark.parametrize(
    ("options", "kubevirt", "deployments"),
    [
        (
            {
                "platform": "openshift",
                "workload": "deployment",
                "kubedescheduler": True,
                "kubevirt": "1.7.1",
                "descheduler": "0.34.0",
            },
            ("openshift-cnv", "kubevirt-kubevirt-hyperconverged", "v1.7.1-12-g0a1b2c3d4"),
            {"openshift-kube-descheduler-operator/" + n for n in ("descheduler", "descheduler-operator", "softtainter")},
        ),
        (
            {"platform": "harvester", "workload": "deployment"},
            ("harvester-system", "kubevirt", "1.8.4-150700.3.21.1"),
            {"kube-system/descheduler"},
        ),
        (
            {"platform": "upstream", "hco": "1.18.1"},
            ("kubevirt-hyperconverged", "kubevirt-kubevirt-hyperconverged", "v1.8.4"),
            set(),
        ),
        ({"nodes": 1, "hco": "none"}, ("kubevirt", "kubevirt", "v1.8.4"), set()),
    ],
    ids=["openshift", "harvester", "upstream with HCO", "single node without HCO"],
)
def test_every_flavour_settles(
    embedded: Start, options: dict[str, Any], kubevirt: tuple[str, str, str], deployments: set[str]
) -> None:
    web = Web(embedded(**options).server)
    assert {dig(p, "status", "phase") for p in web.list(PODS)} == {"Running"}
    assert all(is_true(p, "Ready") for p in web.list(PODS))
    assert {dig(v, "status", "printableStatus") for v in web.list(VMS)} == {"Running"}
    assert {dig(v, "spec", "evictionStrategy") for v in web.list(VMIS)} <= {"LiveMigrate", "LiveMigrateIfPossible"}
    ns, cr, version = kubevirt
    assert web.get(KUBEVIRTS, ns, cr)["status"]["observedKubeVirtVersion"] == version
    assert len(dig(web.get(ENDPOINTS, ns, "virt-api"), "subsets", 0, "addresses")) == 2
    assert deployments <= {full_name(d) for d in web.list(DEPLOYMENTS)}
    assert not [e for e in web.list(EVENTS) if e["type"] != "Normal"]


def test_a_defect_of_something_that_is_not_there_is_refused() -> None:
    for defect, options in (("version-unknown", {"hco": "none"}), ("verbosity-too-low", {"workload": "deployment"})):
        with pytest.raises(ValueError, match=f"'{defect}' does not fit this cluster, which has no "):
            EmbeddedCluster(defects=[defect], **options).start()  # type: ignore[arg-type]


def test_the_workers_leave_room_for_the_procedure_s_thresholds(embedded: Start) -> None:
    web = Web(embedded().server)
    for node in web.list(NODES)[1:]:
        pods = [p for p in web.list(PODS) if dig(p, "spec", "nodeName") == name(node) and not nodefit.terminal(p)]
        have = nodefit.allocatable(node)
        share = {
            r: 100 * sum(pod_requests(p)[r].nano for p in pods if r in pod_requests(p)) / have[r].nano for r in ("cpu", "memory")
        }
        assert 60 < share["cpu"] < 70
        assert 50 < share["memory"] < 60
        assert 100 * len(pods) / have["pods"].value() < 20


def test_a_vm_live_migrates_after_an_eviction_over_http(embedded: Start) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    before = web.get(VMIS, "tenant-a", "erp-db")
    pod = next(name(p) for p in web.list(PODS, "tenant-a") if annotations_of(p).get("kubevirt.io/domain") == "erp-db")
    reply = web.evict("tenant-a", pod)
    assert reply.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: '
        'Eviction triggered evacuation of VMI "tenant-a/erp-db"',
        "code": 429,
    }
    cluster.clock.advance(15)
    after = web.get(VMIS, "tenant-a", "erp-db")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert (before["status"]["nodeName"], after["status"]["nodeName"]) == ("worker-a", "worker-b")
    (vmim,) = web.list(VMIMS)
    assert name(vmim).startswith("kubevirt-evacuation-")
    assert (vmim["status"]["phase"], vmim["status"]["migrationState"]["targetNode"]) == ("Succeeded", "worker-b")


def test_subresources_answer_as_virt_api_does(embedded: Start) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    base = "/apis/subresources.kubevirt.io/v1/namespaces/tenant-a/virtualmachines/erp-db"
    assert web.request("PUT", f"{base}/migrate", {}, accept="application/json").code == 406
    assert web.request("PUT", f"{base}/migrate", {}, accept="application/json, */*").code == 202
    cluster.clock.advance(1)
    assert web.request("PUT", f"{base}/migrate", {}).code == 400
    assert web.request("PUT", f"{base}/evacuate/cancel", {}).code == 200
    assert web.request("PUT", base.replace("erp-db", "none") + "/stop", {}).code == 404
    assert web.request("PUT", f"{base}/stop", {}).code == 202
    cluster.clock.advance(3)
    assert dig(web.get(VMS, "tenant-a", "erp-db"), "status", "printableStatus") == "Stopped"


def test_the_cron_job_runs_the_injected_engine_with_access_to_the_api(embedded: Start) -> None:
    seen: list[tuple[tuple[str, ...], int]] = []

    def engine(run: ContainerRun) -> Generator[float, None, int]:
        web = Web(cluster.server, run.kubeconfig["users"][0]["name"])
        seen.append((run.argv, web.request("GET", NODES.path()).code))
        seen.append((tuple(run.files), web.request("GET", VMIS.path()).code))
        run.write(b"done\n")
        yield 1.0
        return 3 if len(seen) == 2 else 0

    cluster = embedded(run_container=engine)
    cluster.clock.advance(150)
    web = Web(cluster.server)
    assert seen[:2] == [(("/bin/descheduler", *ARGS), 200), (("/policy-dir/policy.yaml",), 403)]
    (job,) = web.list(JOBS, "descheduler")
    assert (job["status"]["failed"], job["status"]["succeeded"]) == (1, 1)
    failed = next(p for p in web.list(PODS, "descheduler") if p["status"]["phase"] == "Failed")
    assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert failed["spec"]["priority"] == 2_000_000_000
    log = web.request("GET", PODS.path("descheduler", name(failed), "log"))
    assert log.body == "done\n"


def test_the_priority_of_a_pod_is_resolved(embedded: Start) -> None:
    web = Web(embedded().server)
    spec = {"containers": [{"name": "c", "image": "i"}], "priorityClassName": "system-cluster-critical"}
    created = web.request("POST", PODS.path("default"), {"metadata": {"name": "p"}, "spec": spec})
    assert created.body["spec"]["priority"] == 2_000_000_000
    refused = web.request("POST", PODS.path("default"), {"metadata": {"name": "q"}, "spec": {**spec, "priorityClassName": "x"}})
    assert (refused.code, refused.body["message"]) == (403, 'pods "q" is forbidden: no PriorityClass with name x was found')


def test_an_old_package_does_not_render_the_gate_and_an_old_release_speaks_the_old_dialect(embedded: Start) -> None:
    web = Web(embedded(package="v0.36.0-4", descheduler="0.33.0").server)
    assert arguments(web, "descheduler") == [ARGS[0], ARGS[2]]
    assert "evictLocalStoragePods: true" in web.get(CONFIGMAPS, "descheduler", "descheduler")["data"]["policy.yaml"]


@pytest.mark.parametrize(
    ("version", "path", "policy"), [("1.4.0", "/launcher-eviction-validate", "Ignore"), ("1.9.0", "/pod-eviction-validate", "Fail")]
)
def test_the_interceptor_is_registered_as_the_release_does(embedded: Start, version: str, path: str, policy: str) -> None:
    web = Web(embedded(kubevirt=version).server)
    hook = web.get(VALIDATING_WEBHOOKS, None, "virt-api-validator")["webhooks"][0]
    assert hook["name"] == "virt-launcher-eviction-interceptor.kubevirt.io"
    assert (hook["clientConfig"]["service"]["path"], hook["failurePolicy"]) == (path, policy)
    assert ("matchConditions" in hook) is (version == "1.9.0")


def test_two_clusters_of_one_seed_are_alike() -> None:
    def names() -> list[str]:
        cluster = EmbeddedCluster(seed=7)
        cluster.start()
        cluster.clock.advance(300)
        cluster.stop()
        return [full_name(o) for r in (PODS, JOBS, VMIS, EVENTS) for o in cluster.store.list(r)] + [str(cluster.store.rv)]

    assert names() == names()


def test_a_bare_cluster_is_only_an_api_server() -> None:
    with EmbeddedCluster(controllers=()) as cluster:
        web = Web(cluster.server)
        assert web.list(NODES) == []
        assert [name(n) for n in web.list(NAMESPACES)] == ["default", "kube-node-lease", "kube-public", "kube-system"]
        assert cluster.server.admission == []


def test_only_the_wanted_controllers_run() -> None:
    with EmbeddedCluster(controllers=("scheduler",)) as cluster:
        assert [c.name for c in cluster.manager.controllers] == ["scheduler"]
        assert {dig(p, "status", "phase") for p in cluster.store.list(PODS)} == {"Pending"}


def test_the_kubedescheduler_crd_is_served_on_demand(embedded: Start) -> None:
    web = Web(embedded(kubedescheduler=True).server)
    assert web.list(KUBEDESCHEDULERS) == []


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"kubevirt": "1.2.0"}, UnknownVersion, "no facts about KubeVirt '1.2.0'; known: 1.3.0, "),
        ({"kubernetes": "1.20"}, UnknownVersion, "known: 1.30, 1.31"),
        ({"descheduler": "x"}, UnknownVersion, "no facts about descheduler 'x'"),
        ({"package": "newest"}, UnknownVersion, "newer than v0.36.0-4"),
        ({"platform": "moon"}, ValueError, "no platform 'moon'; known: acp, upstream, openshift, harvester"),
        ({"nodes": 3}, ValueError, "no shape with 3 nodes that take VMs; known: 1, 2"),
        ({"defects": ["nope"]}, UnknownPlugin, "no defect 'nope'; known: "),
        ({"faults": ["migration-slow:x"]}, ValueError, "takes seconds, got 'x'"),
        ({"faults": ["migration-fails:x"]}, ValueError, "takes a number of attempts, got 'x'"),
        ({"defects": ["policy-not-yaml:1"]}, ValueError, "takes no argument"),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(options: dict[str, str], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        EmbeddedCluster(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"domain": {"devices": {"interfaces": "none"}}},
        {"domain": {"memory": {"guest": {}}}},
        {"domain": [], "volumes": {}},
        {"volumes": [{"containerDisk": "x"}]},
        {"networks": ["pod"]},
        {"nodeSelector": {"a": 1}},
        {"terminationGracePeriodSeconds": "soon"},
        {"evictionStrategy": 1},
    ],
)
def test_a_misshapen_vm_is_refused_and_harms_nothing(embedded: Start, wrong: dict[str, object]) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    spec = {"runStrategy": "Always", "template": {"spec": {"domain": {}, **wrong}}}
    body = {"apiVersion": VMS.api_version, "kind": VMS.kind, "metadata": {"name": "odd"}, "spec": spec}
    assert web.request("POST", VMS.path("default"), body).code == 422
    cluster.clock.advance(5)


def test_odd_but_legal_values_do_not_stop_the_controllers(embedded: Start) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    spec = {"runStrategy": "Always", "template": {"spec": {"domain": {"memory": {"guest": "lots"}, "cpu": {"cores": 0}}}}}
    body = {"apiVersion": VMS.api_version, "kind": VMS.kind, "metadata": {"name": "odd"}, "spec": spec}
    assert web.request("POST", VMS.path("default"), body).code == 201
    cluster.clock.advance(5)
    assert dig(web.get(VMS, "default", "odd"), "status", "printableStatus") == "Running"
