"""Finding KubeVirt, HyperConverged, the interceptor, KubeDescheduler, schemas and versions; absent is not denied."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.cluster.api import Presence
from fixtures.cluster.discover import (
    fields_of,
    find_hco,
    find_interceptor,
    find_kubedescheduler,
    find_kubevirt,
    find_versions,
    launchers,
    ready_endpoints,
    schema_at,
    served_versions,
)
from fixtures.cluster.discover import versions as found_versions
from fixtures.cluster.discover.moduleinfo import find_modules
from fixtures.cluster.embedded import EmbeddedUnderTest, start_embedded
from fixtures.embedded_spec import spec_of
from fixtures.kube.resources import Obj
from fixtures.options import Settings
from tests.cluster.paper import Paper, load

HCO_KEY = "hyperconvergeds.hco.kubevirt.io"


def crd(key: str, **versions: Obj) -> Obj:
    """A CRD whose versions have these schemas; the last one is stored."""
    names = list(versions)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": key},
        "spec": {
            "group": key.partition(".")[2],
            "versions": [
                {"name": n, "served": True, "storage": n == names[-1], "schema": {"openAPIV3Schema": versions[n]}} for n in names
            ],
        },
    }


def nested(*path: str, **leaf: Any) -> Obj:
    schema: Obj = {"type": "string", **leaf}
    for step in reversed(path):
        schema = {"type": "object", "properties": {step: schema}}
    return schema


STRATEGIES = ["None", "LiveMigrate", "LiveMigrateIfPossible", "External"]
HCO_CRD = crd(
    HCO_KEY,
    v1=nested("spec", "virtualization", "evictionStrategy", enum=STRATEGIES),
    v1beta1=nested("spec", "evictionStrategy", enum=STRATEGIES),
)


def of(paper: Paper) -> Any:
    return paper


# ---- schemas


def test_a_field_of_the_schema() -> None:
    found = schema_at(HCO_CRD, "v1", "{.spec.virtualization.evictionStrategy}")
    assert found
    assert (found.type, found.enum) == ("string", tuple(STRATEGIES))
    assert found.evidence.startswith(
        f"CustomResourceDefinition {HCO_KEY} version v1: {{.spec.virtualization.evictionStrategy}} is string"
    )


@pytest.mark.parametrize(
    ("version", "path", "says"),
    [
        ("v1", "spec.evictionStrategy", "{.spec.evictionStrategy} is not in the schema; {.spec} has virtualization"),
        ("v1", ".status.x", "{.} has spec"),
        ("v1beta1", "spec.evictionStrategy.more", "{.spec.evictionStrategy} is string without fields"),
        ("v9", "spec", "version v9 does not exist; versions: v1, v1beta1"),
    ],
)
def test_where_the_schema_ends(version: str, path: str, says: str) -> None:
    found = schema_at(HCO_CRD, version, path)
    assert not found
    assert says in found.evidence
    assert (found.type, found.enum) == ("", ())


def test_lists_and_maps_and_open_schemas() -> None:
    conditions = {"type": "array", "items": nested("type")}
    status = {"type": "object", "properties": {"conditions": conditions, "open": {"x-kubernetes-preserve-unknown-fields": True}}}
    schema = {"type": "object", "properties": {"status": status, "labels": {"additionalProperties": {"type": "string"}}}}
    made = crd("things.x", v1=schema)
    assert schema_at(made, "v1", "{.status.conditions[*].type}").type == "string"
    assert schema_at(made, "v1", "labels.app\\.kubernetes\\.io/name").type == "string"
    assert "takes any field, so the schema does not tell" in schema_at(made, "v1", "status.open.a").evidence
    assert not schema_at(made, "v1", "status.conditions.type")
    assert served_versions(made) == ("v1",)


def test_a_path_in_every_served_version() -> None:
    found, probe = fields_of(of(Paper(HCO_CRD)), HCO_KEY, "spec.evictionStrategy")
    assert [(f.version, bool(f)) for f in found] == [("v1", False), ("v1beta1", True)]
    assert probe.evidence == f"CustomResourceDefinition {HCO_KEY} serves v1, v1beta1"
    assert fields_of(of(Paper()), HCO_KEY, "spec")[1].presence is Presence.ABSENT
    denied = fields_of(of(Paper(denied=["customresourcedefinitions.apiextensions.k8s.io"])), HCO_KEY, "spec")[1]
    assert denied.presence is Presence.UNKNOWN


wire = st.recursive(
    st.none() | st.booleans() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["properties", "items", "spec", "versions", "schema"]), inner)
    ),
    max_leaves=10,
)


@given(wire, st.text(max_size=12))
def test_no_shape_of_a_crd_breaks_reading_it(spec: Any, path: str) -> None:
    found = schema_at({"metadata": {"name": "x"}, "spec": spec}, "v1", path)
    assert found.evidence


# ---- KubeVirt


def test_kubevirt_is_found_in_any_namespace() -> None:
    found = find_kubevirt(of(Paper(*load("kubevirt-1.9.yaml"))))
    assert found.where == "KubeVirt kubevirt/kubevirt"
    assert (found.strategy, found.effective_strategy) == ("LiveMigrate", "LiveMigrate")
    assert found.migrations["parallelMigrationsPerCluster"] == 5
    assert not found.upgrading


def test_kubevirt_absent_denied_and_several() -> None:
    absent = find_kubevirt(of(Paper()))
    assert not absent
    assert absent.probe.presence is Presence.ABSENT
    assert absent.where == "paper does not serve kubevirts.kubevirt.io"
    assert absent.effective_strategy == "None"
    assert find_kubevirt(of(Paper(denied=["kubevirts.kubevirt.io"]))).probe.presence is Presence.UNKNOWN
    no_cr = find_kubevirt(of(Paper(served=["kubevirts.kubevirt.io"])))
    assert no_cr.probe.presence is Presence.ABSENT
    assert "lists no kubevirts.kubevirt.io" in no_cr.probe.evidence
    deployed = load("kubevirt-1.9.yaml")[0]
    stray = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "a", "namespace": "a"}, "spec": {}}
    deployed["status"] |= {"phase": "Deployed", "observedKubeVirtVersion": "v1.9.0", "targetKubeVirtVersion": "v1.9.1"}
    found = find_kubevirt(of(Paper(stray, deployed)))
    assert (found.namespace, len(found.others), found.upgrading) == ("kubevirt", 1, True)


def test_the_interceptor_as_recorded() -> None:
    found = find_interceptor(of(Paper(*load("virt-api-validator-1.9.yaml"))))
    assert found.where.startswith("ValidatingWebhookConfiguration virt-api-validator, webhook virt-launcher-eviction")
    assert found.covers_evictions
    assert (found.service, found.path) == (("kubevirt", "virt-api"), "/pod-eviction-validate")
    assert found.failure_policy == "Fail"
    assert found.match_conditions == ('object.metadata.name.startsWith("virt-launcher")',)


@pytest.mark.parametrize(
    ("key", "value", "covers"),
    [
        ("resources", ["pods"], False),
        ("resources", ["pods/*"], True),
        ("operations", ["DELETE"], False),
        ("operations", ["CREATE"], True),
        ("apiGroups", ["apps"], False),
        ("apiVersions", "v1", False),
        ("resources", None, False),
    ],
)
def test_rules_that_cover_evictions(key: str, value: Any, covers: bool) -> None:
    configuration = load("virt-api-validator-1.9.yaml")[0]
    configuration["webhooks"][0]["rules"][0][key] = value
    assert find_interceptor(of(Paper(configuration))).covers_evictions is covers


def test_a_missing_interceptor_is_absent_and_a_hidden_one_unknown() -> None:
    configuration = load("virt-api-validator-1.9.yaml")[0]
    del configuration["webhooks"][0]
    absent = find_interceptor(of(Paper(configuration)))
    assert (absent.probe.presence, absent.covers_evictions, absent.service) == (Presence.ABSENT, False, ("", ""))
    assert "(virt-api-validator)" in absent.where
    key = "validatingwebhookconfigurations.admissionregistration.k8s.io"
    assert find_interceptor(of(Paper(denied=[key]))).probe.presence is Presence.UNKNOWN


def test_ready_endpoints_are_counted() -> None:
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "virt-api-1", "namespace": "kubevirt", "labels": {"kubernetes.io/service-name": "virt-api"}},
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": False}},
            {"addresses": ["10.0.0.3"]},
        ],
    }
    ready, probe = ready_endpoints(of(Paper(slice_)), "kubevirt", "virt-api")
    assert (ready, probe.evidence) == (2, "service kubevirt/virt-api has 2 ready of 3 endpoints in 1 EndpointSlices")
    none = Paper(served=["endpointslices.discovery.k8s.io"])
    assert ready_endpoints(of(none), "kubevirt", "virt-api")[1].presence is Presence.ABSENT
    assert ready_endpoints(of(Paper(denied=["endpointslices.discovery.k8s.io"])), "a", "b")[1].presence is Presence.UNKNOWN


def test_running_launchers_leave_out_ended_deleted_and_temporary_ones() -> None:
    def pod(name: str, phase: str = "Running", **meta: Any) -> Obj:
        labels = {"kubevirt.io": "virt-launcher"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "n", "labels": labels, **meta},
            "status": {"phase": phase},
        }

    gone = pod("c", deletionTimestamp="2026-01-01T00:00:00Z")
    temporary = pod("d", annotations={"kubevirt.io/ephemeral-provisioning": "true"})
    other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e", "namespace": "n"}, "status": {"phase": "Running"}}
    found = launchers(of(Paper(pod("a"), pod("b", "Succeeded"), gone, temporary, other)))
    assert len(found.pods) == 4
    assert [p["metadata"]["name"] for p in found.running] == ["a"]


# ---- HyperConverged and KubeDescheduler


def test_hyperconverged_is_read_at_the_path_of_each_version() -> None:
    v1 = load("hyperconverged-v1.yaml")[0]
    v1beta1 = copy.deepcopy(v1) | {"apiVersion": "hco.kubevirt.io/v1beta1", "spec": {"evictionStrategy": "None"}}

    class Converting(Paper):
        def list(self, resource: Any, **more: Any) -> Any:
            found = super().list(resource, **more)
            return [o for o in found if o["apiVersion"] == resource.api_version]

    found = find_hco(of(Converting(HCO_CRD, v1, v1beta1)))
    assert [(v.version, v.path, v.strategy, v.storage, bool(v.field)) for v in found.versions] == [
        ("v1", "{.spec.virtualization.evictionStrategy}", "LiveMigrateIfPossible", False, True),
        ("v1beta1", "{.spec.evictionStrategy}", "None", True, True),
    ]
    assert found.strategy == "LiveMigrateIfPossible"
    assert found.where == "HyperConverged kubevirt-hyperconverged/kubevirt-hyperconverged"
    assert (found.operator_version, found.tainted) == ("", False)


def test_a_moved_path_and_an_unknown_version_are_seen() -> None:
    moved = crd(HCO_KEY, v2=nested("spec", "x"), v1=nested("spec", "evictionStrategy"))
    found = find_hco(of(Paper(moved)))
    assert not found
    assert [(v.version, v.path, bool(v.field)) for v in found.versions] == [
        ("v2", "", False),
        ("v1", "{.spec.virtualization.evictionStrategy}", False),
    ]
    assert found.versions[1].field is not None
    assert "{.spec} has evictionStrategy" in found.versions[1].field.evidence


def test_without_the_crd_discovery_tells_the_versions() -> None:
    denied = ["customresourcedefinitions.apiextensions.k8s.io"]
    found = find_hco(of(Paper(*load("hyperconverged-v1.yaml"), denied=denied)))
    assert found.crd.presence is Presence.UNKNOWN
    assert [(v.version, v.field) for v in found.versions] == [("v1", None)]
    assert found.strategy == "LiveMigrateIfPossible"
    absent = find_hco(of(Paper(denied=denied)))
    assert (absent.probe.presence, absent.versions) == (Presence.ABSENT, ())


def test_hyperconverged_says_when_it_is_tainted_and_its_version() -> None:
    hco = load("hyperconverged-v1.yaml")[0]
    hco["status"] = {
        "conditions": [{"type": "TaintedConfiguration", "status": "True"}],
        "versions": [{"name": "kubevirt", "version": "x"}, {"name": "operator", "version": "1.18.1"}],
    }
    found = find_hco(of(Paper(HCO_CRD, hco)))
    assert (found.operator_version, found.tainted) == ("1.18.1", True)


def test_kubedescheduler_served_or_not() -> None:
    absent = find_kubedescheduler(of(Paper()))
    assert not absent
    assert absent.field("spec.mode").evidence == "paper has no kubedeschedulers.operator.openshift.io"
    key = "kubedeschedulers.operator.openshift.io"
    instance = {
        "apiVersion": "operator.openshift.io/v1",
        "kind": "KubeDescheduler",
        "metadata": {"name": "cluster", "namespace": "o"},
        "spec": {"mode": "Predictive"},
    }
    found = find_kubedescheduler(of(Paper(crd(key, v1=nested("spec", "mode")), instance)))
    assert found
    assert found.field("spec.mode").type == "string"
    assert found.spec("mode") == "Predictive"
    assert found.where == "KubeDescheduler o/cluster"
    denied = find_kubedescheduler(of(Paper(instance, denied=["customresourcedefinitions.apiextensions.k8s.io"])))
    assert (bool(denied), denied.crd_probe.presence) == (True, Presence.UNKNOWN)


# ---- versions


def node(name: str, kubelet: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"nodeInfo": {"kubeletVersion": kubelet}}}


def test_versions_and_where_they_were_read() -> None:
    paper = Paper(*load("chart-cronjob.yaml"), *load("kubevirt-1.9.yaml"), node("a", "v1.9.1"), node("b", "v1.10.0"))
    found = find_versions(of(paper), {})
    value = {row.product: row.value for row in found.rows}
    assert value["Kubernetes"] == "v1.35.2"
    assert value["kubelet"] == "v1.9.1 to v1.10.0"
    assert (value["platform"], value["HyperConverged"]) == ("not installed", "not installed")
    assert (value["descheduler package"], value["descheduler image"]) == ("0.36.0", "v0.36.0")
    assert found["descheduler package"].read_from.startswith("label app.kubernetes.io/version of CronJob descheduler/descheduler")
    assert found.verified is None
    assert [row.product for row in found.rows] == list(found_versions.PRODUCTS.values())
    with pytest.raises(KeyError):
        _ = found["moon"]


def test_unknown_is_not_not_installed() -> None:
    everything = ["configmaps", "cronjobs.batch", "deployments.apps", "kubevirts.kubevirt.io", "nodes", HCO_KEY]
    denied = [*everything, ("config.openshift.io", "probe"), ("clusterversions.config.openshift.io", "probe"), (HCO_KEY, "probe")]
    found = find_versions(of(Paper(denied=denied)), {})
    assert {row.product for row in found.unknown} == set(found_versions.PRODUCTS.values()) - {"Kubernetes"}
    nothing = find_versions(of(Paper()), {})
    assert {row.product for row in nothing.unknown} == {"kubelet"}


def test_record_supplies_only_what_the_cluster_does_not_tell() -> None:
    paper = Paper(*load("chart-cronjob.yaml"), served=["resourcepatches.operator.alauda.io"])
    found = find_versions(of(paper), {"acp": "4.4", "package": "v9"})
    assert found["platform"].value == "ACP 4.4"
    assert found["platform"].read_from.startswith("--record acp=4.4 (")
    assert found["descheduler package"].value == "0.36.0"
    untold = find_versions(of(paper), {})
    assert untold["platform"].value == "unknown"
    assert "--record acp=VERSION" in untold["platform"].read_from


def platform_object(kind: str, name: str, **parts: Any) -> Obj:
    group = {"ClusterVersion": "config.openshift.io/v1", "Setting": "harvesterhci.io/v1beta1"}
    version = parts.pop("version", "v1alpha2")
    return {"apiVersion": group.get(kind, f"product.alauda.io/{version}"), "kind": kind, "metadata": {"name": name}, **parts}


@pytest.mark.parametrize(
    ("obj", "value"),
    [
        (platform_object("ClusterVersion", "version", status={"desired": {"version": "4.20.3"}}), "OpenShift 4.20.3"),
        (platform_object("ClusterVersion", "version"), "unknown"),
        (platform_object("Setting", "server-version", value="v1.6.0"), "Harvester v1.6.0"),
        (platform_object("ProductBase", "base", version="v1alpha1", spec={"version": "v4.4.1"}), "ACP 4.4.1"),
        (platform_object("ProductBase", "base", status={"version": "v4.4.0"}), "ACP 4.4"),
        (platform_object("ProductBase", "base", spec={"version": "next"}), "ACP next"),
        (platform_object("ProductBase", "base"), "unknown"),
    ],
)
def test_the_platform_tells_its_release(obj: Obj, value: str) -> None:
    class Platform(Paper):
        def _key(self, obj: Obj) -> str:
            return {"ProductBase": "productbases.product.alauda.io"}.get(str(obj["kind"]), super()._key(obj))

    row = found_versions.platform(of(Platform(obj)))
    assert row.value == value
    assert obj["kind"] in row.read_from or value == "unknown"


def test_an_image_by_digest_and_no_labels() -> None:
    objects = load("chart-cronjob.yaml")
    for obj in objects:
        obj["metadata"]["labels"] = {"app.kubernetes.io/name": "descheduler"}
        if obj["kind"] == "CronJob":
            pod = obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]
            pod["containers"][0]["image"] = "mirror:5000/descheduler@sha256:abc"
    found = find_versions(of(Paper(*objects)), {})
    assert found["descheduler image"].value == "sha256:abc"
    assert found["descheduler package"].value == "unknown"
    assert "--record package=VERSION" in found["descheduler package"].read_from


def module_info(name: str, version: str) -> Obj:
    labels = {"cpaas.io/module-name": "descheduler", "cpaas.io/cluster-name": name}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "cluster.alauda.io/v1alpha1", "kind": "ModuleInfo", "metadata": meta, "spec": {"version": version}}


@pytest.mark.parametrize(
    ("versions", "address", "package"),
    [
        ({"a": "v0.36.0-5", "b": "v0.36.0-5"}, "https://10.0.0.1:6443", "v0.36.0-5"),
        ({"a": "v0.36.0-5", "b": "v0.36.0-4"}, "https://10.0.0.1:6443", "0.36.0"),
        ({"a": "v0.36.0-5", "b": "v0.36.0-4"}, "me@https://acp.example/kubernetes/b", "v0.36.0-4"),
        ({"a": "v0.36.0-5", "b": "v0.36.0-5"}, "me@https://acp.example/kubernetes/c/", "0.36.0"),
    ],
)
def test_module_infos_count_when_they_agree_or_the_address_names_one(versions: dict[str, str], address: str, package: str) -> None:
    here = of(Paper(*load("chart-cronjob.yaml")))
    modules = find_modules(of(Paper(*(module_info(*m) for m in versions.items()))), address)
    assert find_versions(here, {}, modules=modules)["descheduler package"].value == package


def test_a_cluster_without_module_info_is_no_global_cluster() -> None:
    found = find_modules(of(Paper()))
    assert found.probe.presence is Presence.UNKNOWN
    assert found.probe.evidence.startswith("tester@paper is no global cluster, it serves no ModuleInfo")


@pytest.fixture(scope="module")
def embedded() -> Any:
    cluster = start_embedded(Settings())
    yield cluster
    cluster.close()


def test_the_embedded_default_is_the_verified_combination(embedded: EmbeddedUnderTest) -> None:
    beside = embedded.global_cluster
    assert beside is not None
    found = find_versions(embedded, {}, global_cluster=beside, modules=find_modules(beside))
    assert found.verified is not None
    assert not found.unknown
    assert found.combination.endswith("verified combination")
    assert found["platform"].value == "ACP 4.4"
    alone = find_versions(embedded, {"acp": "4.4"})
    assert alone.verified is not None


def test_everything_is_found_on_the_embedded_cluster(embedded: EmbeddedUnderTest) -> None:
    before = embedded.cost.requests
    assert find_kubevirt(embedded).observed == "v1.8.4"
    hco = find_hco(embedded)
    assert all(v.field and v.strategy == "LiveMigrateIfPossible" for v in hco.versions)
    assert len(hco.versions) == 2
    interceptor = find_interceptor(embedded)
    assert interceptor.covers_evictions
    assert ready_endpoints(embedded, *interceptor.service)[0] > 0
    assert launchers(embedded).running
    assert not find_kubedescheduler(embedded)
    assert embedded.cost.requests - before <= 12


def test_upstream_has_no_platform_and_no_hyperconverged() -> None:
    cluster = start_embedded(Settings(embedded=spec_of(platform="upstream")))
    found = find_versions(cluster, {})
    assert found["platform"].value == "not installed"
    assert found["HyperConverged"].value == "not installed"
    assert not found.unknown
    cluster.close()
