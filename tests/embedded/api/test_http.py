"""What plain requests see: forms of answers, discovery, concurrency, hooks for faults and extra paths."""

from __future__ import annotations

import threading
from typing import Any

import orjson
import pytest

from fixtures.embedded.api.context import Call, answer
from fixtures.embedded.api.http import Request, Response
from fixtures.embedded.clock import Clock
from fixtures.embedded.ports import AdmissionRequest, ApiError
from fixtures.embedded.server import ApiServer, Arrival
from fixtures.embedded.store import Store
from fixtures.kube.resources import CONFIGMAPS, CRDS, HYPERCONVERGEDS, PODS, VMIS, Obj, Resource

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def test_aggregated_and_legacy_discovery_agree(http: Any) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    _, aggregated, headers = http("GET", "/apis", Accept=accept)
    assert headers["Content-Type"] == accept
    groups = {group["metadata"]["name"]: group for group in aggregated["items"]}
    assert {g["name"] for g in http("GET", "/apis")[1]["groups"]} == set(groups)
    rows = {r["resource"]: r for r in groups["apps"]["versions"][0]["resources"]}
    legacy = {r["name"]: r for r in http("GET", "/apis/apps/v1")[1]["resources"]}
    assert {name for name in legacy if "/" not in name} == set(rows)
    assert {s["subresource"] for s in rows["deployments"]["subresources"]} == {"scale", "status"}
    assert legacy["deployments"]["shortNames"] == rows["deployments"]["shortNames"] == ["deploy"]


def test_discovery_has_an_etag_that_changes_with_the_resources(http: Any, server: ApiServer, widget_crd: Obj) -> None:
    _, _, headers = http("GET", "/apis")
    assert http("GET", "/apis", If_None_Match=headers["ETag"])[0] == 304
    server.register_crd(widget_crd)
    assert http("GET", "/apis", If_None_Match=headers["ETag"])[0] == 200


def test_openapi_lists_merge_keys_and_what_patch_takes(http: Any, server: ApiServer, widget_crd: Obj) -> None:
    server.register_crd(widget_crd)
    index = http("GET", "/openapi/v3")[1]["paths"]
    document = http("GET", index["apis/apps/v1"]["serverRelativeURL"])[1]
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert {"fieldValidation", "dryRun"} <= {p["name"] for p in patch["parameters"]}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    containers = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    custom = http("GET", "/openapi/v3/apis/bat.example.com/v1")[1]
    schema = custom["components"]["schemas"]["com.example.bat.v1.Widget"]
    assert schema["properties"]["spec"]["properties"]["size"] == {"type": "integer"}


def test_table_rows_carry_what_is_asked_for(http: Any, server: ApiServer) -> None:
    server.store.create(CONFIGMAPS, {"metadata": {"name": "c", "namespace": "default"}, "data": {"a": "b"}})
    for include, kind in (("", "PartialObjectMetadata"), ("?includeObject=Object", "ConfigMap"), ("?includeObject=None", None)):
        row = http("GET", MAPS + include, Accept=TABLE)[1]["rows"][0]
        assert row["cells"][:2] == ["c", 1]
        assert row.get("object", {}).get("kind") == kind


def test_date_header_is_the_clusters_time(http: Any, server: ApiServer) -> None:
    assert http("GET", "/version")[2]["Date"].endswith("GMT")
    assert "30 Nov 2026" in http("GET", "/version")[2]["Date"]


def test_concurrent_patches_all_count(server: ApiServer, http: Any, http_as: Any) -> None:
    server.store.create(CONFIGMAPS, {"metadata": {"name": "c", "namespace": "default"}, "data": {}})

    others = [http_as(server.token("admin")) for _ in range(3)]

    def write(n: int) -> None:
        for k in range(20):
            patch = {"data": {f"k{n}-{k}": "x"}}
            assert others[n]("PATCH", f"{MAPS}/c", patch, type="application/merge-patch+json")[0] == 200

    def edit() -> None:
        for k in range(60):
            server.store.edit(CONFIGMAPS, "default", "c", lambda o, k=k: o["data"].update({f"e{k}": "x"}))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)] + [threading.Thread(target=edit)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(http("GET", f"{MAPS}/c")[1]["data"]) == 120


def test_mutating_hook_changes_what_is_stored(http: Any, server: ApiServer) -> None:
    def hook(review: AdmissionRequest) -> None:
        if review.operation in ("CREATE", "UPDATE") and review.resource == CONFIGMAPS:
            review.object.setdefault("data", {})["by"] = f"{review.operation} {review.user} {(review.old or {}).get('kind')}"

    server.admission.append(hook)
    assert http("POST", MAPS, {"metadata": {"name": "c"}})[1]["data"] == {"by": "CREATE admin None"}
    assert http("PATCH", f"{MAPS}/c", {"data": {"x": "y"}}, type="application/merge-patch+json")[1]["data"] == {
        "by": "UPDATE admin ConfigMap",
        "x": "y",
    }


def test_refusing_hook_on_deletion(http: Any, server: ApiServer) -> None:
    server.store.create(CONFIGMAPS, {"metadata": {"name": "c", "namespace": "default"}})

    def hook(review: AdmissionRequest) -> None:
        if review.operation == "DELETE":
            assert review.old is not None
            raise ApiError(403, "no", reason="Forbidden")

    server.admission.append(hook)
    assert http("DELETE", f"{MAPS}/c")[0] == 403
    assert server.store.get(CONFIGMAPS, "default", "c") is not None


@pytest.mark.provokes(503)
def test_interceptors_answer_instead_of_the_server(http: Any, server: ApiServer) -> None:
    def fault(arrival: Arrival) -> Response | None:
        if arrival.target.resource != "pods" or arrival.user.name != "admin":
            return None
        return answer({"kind": "Status", "code": 503}, 503)

    server.interceptors.append(fault)
    assert http("GET", "/api/v1/pods")[0] == 503
    assert http("GET", MAPS)[0] == 200
    server.interceptors[:] = [lambda arrival: Response(200, b"{}", delay=0.05)]
    assert http("GET", "/api/v1/pods")[0] == 200


def test_extra_subresource_of_another_group(http: Any, server: ApiServer, http_as: Any) -> None:
    extra = Resource("subresources.kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance")

    def cancel(call: Call, body: Obj) -> Response:
        return answer({"ns": call.ns, "name": call.name, "user": call.user.name, "dry": call.dry_run, "body": body})

    server.serve_subresource(extra, "evacuate/cancel", cancel)
    path = "/apis/subresources.kubevirt.io/v1/namespaces/d/virtualmachineinstances/x/evacuate/cancel"
    body = {"evacuationNodeName": "n"}
    assert http("PUT", path, body)[1] == {"ns": "d", "name": "x", "user": "admin", "dry": False, "body": body}
    assert http("PUT", path)[1]["body"] == {}
    refused = http_as(server.token("nobody"))("PUT", path)[1]["message"]
    assert 'cannot update resource "virtualmachineinstances/evacuate/cancel" in API group "subresources.kubevirt.io"' in refused


def crd(resource: Resource, versions: list[str]) -> Obj:
    names = {"plural": resource.plural, "kind": resource.kind}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    listed = [{"name": v, "served": True, "storage": v == versions[0], "schema": schema} for v in versions]
    spec = {"group": resource.group, "scope": "Namespaced", "names": names, "versions": listed}
    return {"metadata": {"name": resource.key}, "spec": spec}


def test_versions_without_converter_differ_in_name_only(http: Any, server: ApiServer) -> None:
    server.register_crd(crd(HYPERCONVERGEDS, ["v1", "v1beta1"]))
    base = "/apis/hco.kubevirt.io/{}/namespaces/default/hyperconvergeds"
    assert (
        http("POST", base.format("v1beta1"), {"metadata": {"name": "h"}, "spec": {"a": 1}})[1]["apiVersion"]
        == "hco.kubevirt.io/v1beta1"
    )
    for version in ("v1", "v1beta1"):
        _, found, _ = http("GET", f"{base.format(version)}/h")
        assert (found["apiVersion"], found["spec"]) == (f"hco.kubevirt.io/{version}", {"a": 1})
        assert http("GET", base.format(version))[1]["items"][0]["apiVersion"] == f"hco.kubevirt.io/{version}"
    assert (server.store.get(HYPERCONVERGEDS, "default", "h") or {})["apiVersion"] == "hco.kubevirt.io/v1"


def test_converter_rewrites_between_versions(http: Any, server: ApiServer) -> None:
    server.register_crd(crd(HYPERCONVERGEDS, ["v1", "v1beta1"]))

    def convert(obj: Obj, wanted: Resource) -> Obj:
        spec = obj.pop("spec", {})
        flat = obj["apiVersion"].endswith("v1beta1")
        return {**obj, "spec": {"nested": spec} if flat and wanted.version == "v1" else spec.get("nested", spec)}

    server.converters[HYPERCONVERGEDS.key] = convert
    base = "/apis/hco.kubevirt.io/{}/namespaces/default/hyperconvergeds"
    http("POST", base.format("v1beta1"), {"metadata": {"name": "h"}, "spec": {"a": 1}})
    assert http("GET", f"{base.format('v1')}/h")[1]["spec"] == {"nested": {"a": 1}}
    patched = http("PATCH", f"{base.format('v1beta1')}/h", {"spec": {"b": 2}}, type="application/merge-patch+json")[1]
    assert patched["spec"] == {"a": 1, "b": 2}
    assert http("GET", f"{base.format('v1')}/h")[1]["spec"] == {"nested": {"a": 1, "b": 2}}


def test_status_without_subresource_is_written_with_the_object(http: Any, server: ApiServer) -> None:
    server.register_crd(crd(VMIS, ["v1"]))
    path = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances"
    made = http("POST", path, {"metadata": {"name": "v"}, "status": {"phase": "Running"}})[1]
    assert (made["status"], made["metadata"]["generation"]) == ({"phase": "Running"}, 1)
    operations = [
        {"op": "add", "path": "/status/evacuationNodeName", "value": "n"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "replace", "path": "/metadata/annotations/kubevirt.io~1eviction-source", "value": "descheduler"},
    ]
    found = http("PATCH", f"{path}/v", operations, type="application/json-patch+json")[1]
    assert found["status"] == {"phase": "Running", "evacuationNodeName": "n"}
    assert found["metadata"]["generation"] == 2


def test_registered_resource_is_served_like_any_other(http: Any, server: ApiServer) -> None:
    thing = Resource("things.example", "v1", "things", "Thing", namespaced=False)
    server.register(thing, short=["th"])
    assert http("POST", "/apis/things.example/v1/things", {"metadata": {"name": "t"}, "spec": {"x": 1}})[0] == 201
    assert http("GET", "/apis/things.example/v1/things/t")[1]["spec"] == {"x": 1}
    assert server.store.list(CRDS) == []


def test_names_of_namespaces_and_pods_survive_hostile_patches(http: Any, server: ApiServer, pod: Any) -> None:
    server.store.create(PODS, {**pod("p"), "metadata": {"name": "p", "namespace": "default"}})
    path = "/api/v1/namespaces/default/pods/p"
    found = http("PATCH", path, [{"op": "remove", "path": "/metadata/namespace"}], type="application/json-patch+json")[1]
    assert found["metadata"]["namespace"] == "default"
    assert http("PATCH", path, {"metadata": {"namespace": "other"}}, type="application/merge-patch+json")[0] == 400


def test_same_seed_and_requests_give_the_same_answers_and_audit(tmp_path: Any, pod: Any) -> None:
    def run() -> tuple[list[Any], list[Any]]:
        clock = Clock(epoch=1_800_000_000)
        server = ApiServer(Store(clock, seed=5), clock)
        headers = {"authorization": f"Bearer {server.token('admin')}", "content-type": "application/json"}
        answers = []
        body = orjson.dumps({**pod("x"), "metadata": {"generateName": "x-"}})
        for method, path, data in (
            ("POST", "/api/v1/namespaces/default/pods", body),
            ("POST", "/api/v1/namespaces/default/pods", body),
            ("GET", "/api/v1/pods", b""),
            ("DELETE", "/api/v1/namespaces/default/pods", b""),
            ("GET", "/api/v1/nodes/none", b""),
        ):
            answers.append(server._answer(Request(method, path, {}, headers, data)).body)
            clock.advance(1)
        audit = [(e.verb, e.path, e.user, e.status, e.bytes, e.at) for e in server.audit.entries]
        return answers, audit

    assert run() == run()


def test_forked_store_serves_the_same_objects(server: ApiServer, http: Any, clock: Any) -> None:
    server.store.create(CONFIGMAPS, {"metadata": {"name": "c", "namespace": "default"}})
    other = ApiServer(server.store.fork(clock), clock)
    assert [o["metadata"]["name"] for o in other.store.list(CONFIGMAPS)] == ["c"]
    other.start()
    other.stop()


def test_starting_and_stopping_twice_is_harmless(server: ApiServer) -> None:
    server.stop()
    server.stop()
    with pytest.raises(RuntimeError, match="not started"):
        _ = server.url
    server.start()
    assert server.url.startswith("https://127.0.0.1:")
