"""The official Python client works unmodified: CRUD, selectors, paging, patches, subresources, custom resources."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client, dynamic
from kubernetes.client.rest import ApiException

from fixtures.kube.resources import Obj

Make = Callable[..., Obj]


def reason(problem: pytest.ExceptionInfo[ApiException]) -> str:
    return str(json.loads(problem.value.body)["reason"])


@pytest.fixture
def pods(core: client.CoreV1Api, pod: Make) -> client.CoreV1Api:
    """Three Pods: p1 and p2 on bn1, p3 nowhere."""
    core.create_namespaced_pod("bat", pod("p1", {"app": "x", "t": "1"}, "bn1"))
    core.create_namespaced_pod("bat", pod("p2", {"app": "y"}, "bn1"))
    core.create_namespaced_pod("bat", pod("p3", {"z": "1"}))
    return core


def deployment(name: str) -> Obj:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": name}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}}


def test_version(api: client.ApiClient) -> None:
    version = client.VersionApi(api).get_code()
    assert (version.major, version.minor) == ("1", "35")
    assert version.git_version == "v1.35.0+emulated"


def test_created_pod_gets_uid_version_time_and_namespace(core: client.CoreV1Api, pod: Make) -> None:
    meta = core.create_namespaced_pod("bat", pod("p1", {}, "bn1")).metadata
    assert meta.uid
    assert meta.resource_version
    assert meta.creation_timestamp
    assert meta.namespace == "bat"


def test_generate_name(core: client.CoreV1Api) -> None:
    body = {"metadata": {"generateName": "g-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    names = {core.create_namespaced_pod("bat", body).metadata.name for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("g-") and len(name) == 7 for name in names)


def test_duplicate_create_conflicts(core: client.CoreV1Api, pod: Make) -> None:
    core.create_namespaced_pod("bat", pod("p1"))
    with pytest.raises(ApiException) as problem:
        core.create_namespaced_pod("bat", pod("p1"))
    assert (problem.value.status, reason(problem)) == (409, "AlreadyExists")


def test_missing_object_is_not_found(core: client.CoreV1Api) -> None:
    with pytest.raises(ApiException) as problem:
        core.read_namespaced_pod("nope", "bat")
    assert (problem.value.status, reason(problem)) == (404, "NotFound")


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=x", ["p1"]),
        ("app!=x", ["p2", "p3"]),
        ("app in (x,y)", ["p1", "p2"]),
        ("app notin (x)", ["p2", "p3"]),
        ("app", ["p1", "p2"]),
        ("!app", ["p3"]),
        ("app=x,t=1", ["p1"]),
        ("t>0", ["p1"]),
    ],
)
def test_label_selectors(pods: client.CoreV1Api, selector: str, names: list[str]) -> None:
    found = pods.list_namespaced_pod("bat", label_selector=selector)
    assert found.kind == "PodList"
    assert found.metadata.resource_version.isdigit()
    assert [item.metadata.name for item in found.items] == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=p1", ["p1"]),
        ("spec.nodeName=bn1", ["p1", "p2"]),
        ("status.phase!=Failed", ["p1", "p2", "p3"]),
        ("spec.nodeName=bn1,metadata.name!=p1", ["p2"]),
        ("spec.nodeName=", ["p3"]),
    ],
)
def test_field_selectors(pods: client.CoreV1Api, selector: str, names: list[str]) -> None:
    assert [item.metadata.name for item in pods.list_namespaced_pod("bat", field_selector=selector).items] == names


def test_unknown_field_selector_is_refused(pods: client.CoreV1Api) -> None:
    with pytest.raises(ApiException) as problem:
        pods.list_namespaced_pod("bat", field_selector="spec.foo=1")
    assert problem.value.status == 400
    assert "field label not supported: spec.foo" in problem.value.body


def test_paging_sees_everything_once(pods: client.CoreV1Api) -> None:
    page = pods.list_namespaced_pod("bat", limit=2)
    assert page.metadata.remaining_item_count == 1
    names = [item.metadata.name for item in page.items]
    while page.metadata._continue:
        page = pods.list_namespaced_pod("bat", limit=2, _continue=page.metadata._continue)
        names += [item.metadata.name for item in page.items]
    assert names == ["p1", "p2", "p3"]


def test_strategic_patch_merges_containers_by_name(core: client.CoreV1Api, api: client.ApiClient) -> None:
    apps = client.AppsV1Api(api)
    apps.create_namespaced_deployment("bat", deployment("smp"))
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "c2", "image": "j"}]}}}}
    found = apps.patch_namespaced_deployment("smp", "bat", patch)
    assert sorted(c.name for c in found.spec.template.spec.containers) == ["c", "c2"]


def test_merge_patch_replaces_lists_and_deletes_by_null(pods: client.CoreV1Api, dyn: dynamic.DynamicClient) -> None:
    resource = dyn.resources.get(api_version="v1", kind="Pod")
    for patch in ({"labels": {"t": None}, "finalizers": ["a/b"]}, {"finalizers": ["c/d"]}):
        resource.patch(name="p1", namespace="bat", body={"metadata": patch}, content_type="application/merge-patch+json")
    meta = pods.read_namespaced_pod("p1", "bat").metadata
    assert meta.finalizers == ["c/d"]
    assert meta.labels == {"app": "x"}


def test_json_patch(pods: client.CoreV1Api) -> None:
    pods.patch_namespaced_pod("p1", "bat", [{"op": "add", "path": "/metadata/labels/jp", "value": "1"}])
    assert pods.read_namespaced_pod("p1", "bat").metadata.labels["jp"] == "1"


def test_failing_json_patch_test_is_422_and_changes_nothing(pods: client.CoreV1Api) -> None:
    patch = [{"op": "add", "path": "/metadata/labels/q", "value": "1"}, {"op": "test", "path": "/metadata/labels/t", "value": "2"}]
    with pytest.raises(ApiException) as problem:
        pods.patch_namespaced_pod("p1", "bat", patch)
    assert problem.value.status == 422
    assert "q" not in pods.read_namespaced_pod("p1", "bat").metadata.labels


def test_stale_put_conflicts_and_fresh_put_bumps_the_version(pods: client.CoreV1Api, api: client.ApiClient) -> None:
    obj = api.sanitize_for_serialization(pods.read_namespaced_pod("p1", "bat"))
    version = obj["metadata"]["resourceVersion"]
    obj["metadata"]["labels"]["put"] = "1"
    assert pods.replace_namespaced_pod("p1", "bat", obj).metadata.resource_version != version
    with pytest.raises(ApiException) as problem:
        pods.replace_namespaced_pod("p1", "bat", obj)
    assert (problem.value.status, reason(problem)) == (409, "Conflict")


def test_put_drops_absent_keys(pods: client.CoreV1Api, api: client.ApiClient) -> None:
    obj = api.sanitize_for_serialization(pods.read_namespaced_pod("p1", "bat"))
    obj["metadata"]["labels"] = {"only": "1"}
    assert pods.replace_namespaced_pod("p1", "bat", obj).metadata.labels == {"only": "1"}


def test_patch_without_effect_keeps_the_version(pods: client.CoreV1Api) -> None:
    before = pods.read_namespaced_pod("p1", "bat").metadata.resource_version
    assert pods.patch_namespaced_pod("p1", "bat", {"metadata": {"labels": {"t": "1"}}}).metadata.resource_version == before


def test_status_is_written_only_through_its_subresource(pods: client.CoreV1Api) -> None:
    pods.patch_namespaced_pod_status("p1", "bat", {"status": {"phase": "Running"}})
    pods.patch_namespaced_pod("p1", "bat", {"status": {"phase": "Failed"}})
    pods.patch_namespaced_pod_status("p1", "bat", {"spec": {"priority": 5}, "metadata": {"labels": {"no": "way"}}})
    found = pods.read_namespaced_pod("p1", "bat")
    assert found.status.phase == "Running"
    assert found.spec.priority == 0
    assert "no" not in found.metadata.labels


def test_binding_sets_the_node_once(pods: client.CoreV1Api) -> None:
    body = {"metadata": {"name": "p3"}, "target": {"kind": "Node", "name": "bn1"}}
    pods.create_namespaced_pod_binding("p3", "bat", body, _preload_content=False)
    found = pods.read_namespaced_pod("p3", "bat")
    assert found.spec.node_name == "bn1"
    assert [(c.type, c.status) for c in found.status.conditions] == [("PodScheduled", "True")]
    with pytest.raises(ApiException) as problem:
        pods.create_namespaced_pod_binding("p3", "bat", body, _preload_content=False)
    assert problem.value.status == 409
    assert "is already assigned to node" in problem.value.body


def test_eviction_deletes_the_pod(pods: client.CoreV1Api) -> None:
    body = client.V1Eviction(metadata=client.V1ObjectMeta(name="p3", namespace="bat"))
    pods.create_namespaced_pod_eviction("p3", "bat", body)
    with pytest.raises(ApiException) as problem:
        pods.read_namespaced_pod("p3", "bat")
    assert problem.value.status == 404


def test_finalizer_keeps_the_object_until_removed(core: client.CoreV1Api) -> None:
    core.create_namespaced_config_map("bat", {"metadata": {"name": "f", "finalizers": ["x.y/z"]}})
    core.delete_namespaced_config_map("f", "bat")
    assert core.read_namespaced_config_map("f", "bat").metadata.deletion_timestamp
    core.patch_namespaced_config_map("f", "bat", [{"op": "remove", "path": "/metadata/finalizers"}])
    with pytest.raises(ApiException) as problem:
        core.read_namespaced_config_map("f", "bat")
    assert problem.value.status == 404


def test_delete_with_another_uid_conflicts(core: client.CoreV1Api) -> None:
    core.create_namespaced_config_map("bat", {"metadata": {"name": "pc"}})
    options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="bad"))
    with pytest.raises(ApiException) as problem:
        core.delete_namespaced_config_map("pc", "bat", body=options)
    assert problem.value.status == 409


def test_deletecollection_obeys_the_selector(core: client.CoreV1Api) -> None:
    for name, labels in (("d1", {"d": "1"}), ("d2", {"d": "1"}), ("kept", {})):
        core.create_namespaced_config_map("bat", {"metadata": {"name": name, "labels": labels}})
    core.delete_collection_namespaced_config_map("bat", label_selector="d=1")
    assert [item.metadata.name for item in core.list_namespaced_config_map("bat").items] == ["kept"]


def test_dry_run_persists_nothing(core: client.CoreV1Api) -> None:
    made = core.create_namespaced_config_map("bat", {"metadata": {"name": "dry"}}, dry_run="All")
    assert made.metadata.uid
    core.create_namespaced_config_map("bat", {"metadata": {"name": "real"}})
    core.delete_namespaced_config_map("real", "bat", body=client.V1DeleteOptions(dry_run=["All"]))
    assert [item.metadata.name for item in core.list_namespaced_config_map("bat").items] == ["real"]


def test_create_in_a_missing_namespace_is_not_found(core: client.CoreV1Api, pod: Make) -> None:
    with pytest.raises(ApiException) as problem:
        core.create_namespaced_pod("no-such-ns", pod("x"))
    assert problem.value.status == 404


def test_invalid_name_is_refused(core: client.CoreV1Api) -> None:
    with pytest.raises(ApiException) as problem:
        core.create_namespaced_config_map("bat", {"metadata": {"name": "Bad_Name"}})
    assert problem.value.status == 422
    assert "a lowercase RFC 1123 subdomain must consist of" in problem.value.body


def test_generation_counts_changes_of_the_spec_only(core: client.CoreV1Api, api: client.ApiClient) -> None:
    apps = client.AppsV1Api(api)
    assert apps.create_namespaced_deployment("bat", deployment("dep")).metadata.generation == 1
    assert apps.patch_namespaced_deployment("dep", "bat", {"metadata": {"labels": {"q": "1"}}}).metadata.generation == 1
    assert apps.patch_namespaced_deployment("dep", "bat", {"spec": {"replicas": 2}}).metadata.generation == 2


def test_pod_spec_is_immutable(pods: client.CoreV1Api) -> None:
    with pytest.raises(ApiException) as problem:
        pods.patch_namespaced_pod("p1", "bat", {"spec": {"containers": [{"name": "c2", "image": "j"}]}})
    assert problem.value.status == 422
    assert "pod updates may not change fields other than" in problem.value.body


def test_crd_is_established_and_serves_objects(widgets: Any, api: client.ApiClient) -> None:
    crd = client.ApiextensionsV1Api(api).read_custom_resource_definition("widgets.bat.example.com")
    assert {(c.type, c.status) for c in crd.status.conditions} == {("NamesAccepted", "True"), ("Established", "True")}
    body = {"status": {"ok": True}}
    widgets.status.patch(name="w", namespace="bat", body=body, content_type="application/merge-patch+json")
    found = widgets.get(name="w", namespace="bat")
    assert (found.spec.size, found.spec.mode, found.status.ok, found.metadata.generation) == (3, "plain", True, 1)


def test_schema_violation_is_refused(widgets: Any) -> None:
    body = {"apiVersion": "bat.example.com/v1", "kind": "Widget", "metadata": {"name": "w2"}, "spec": {"size": "big"}}
    with pytest.raises(ApiException) as problem:
        widgets.create(namespace="bat", body=body)
    assert problem.value.status == 422
    assert 'spec.size in body must be of type integer: \\"string\\"' in problem.value.body


def test_unknown_fields_of_custom_resources_are_pruned(widgets: Any) -> None:
    widgets.patch(name="w", namespace="bat", body={"spec": {"bogus": 1}}, content_type="application/merge-patch+json")
    assert "bogus" not in widgets.get(name="w", namespace="bat").spec.to_dict()


def test_put_of_a_custom_resource_needs_a_version(widgets: Any, core: client.CoreV1Api) -> None:
    body = {"apiVersion": "bat.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 4}}
    with pytest.raises(ApiException) as problem:
        widgets.replace(name="w", namespace="bat", body=body)
    assert problem.value.status == 422
    core.create_namespaced_config_map("bat", {"metadata": {"name": "c"}})
    core.replace_namespaced_config_map("c", "bat", {"metadata": {"name": "c"}, "data": {"q": "1"}})
    assert core.read_namespaced_config_map("c", "bat").data == {"q": "1"}


@pytest.mark.provokes(404)
def test_deleted_crd_takes_its_objects_and_its_path_along(widgets: Any, api: client.ApiClient) -> None:
    client.ApiextensionsV1Api(api).delete_custom_resource_definition("widgets.bat.example.com")
    with pytest.raises(ApiException) as problem:
        client.CustomObjectsApi(api).list_cluster_custom_object("bat.example.com", "v1", "widgets")
    assert problem.value.status == 404


def test_server_side_apply_owns_conflicts_and_forces(core: client.CoreV1Api, dyn: dynamic.DynamicClient) -> None:
    resource = dyn.resources.get(api_version="v1", kind="ConfigMap")

    def apply(manager: str, force: bool = False, **data: str) -> Any:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa"}, "data": data}
        more = {"force_conflicts": True} if force else {}
        return resource.server_side_apply(namespace="bat", name="ssa", body=body, field_manager=manager, **more)

    apply("m1", a="1", b="x")
    apply("m1", a="2")
    assert resource.get(namespace="bat", name="ssa").data.to_dict() == {"a": "2"}
    with pytest.raises(ApiException) as problem:
        apply("m2", a="3")
    assert problem.value.status == 409
    assert 'conflict with \\"m1\\": .data.a' in problem.value.body
    apply("m2", force=True, a="3")
    assert resource.get(namespace="bat", name="ssa").data.a == "3"


def test_pod_log(core: client.CoreV1Api, pods: client.CoreV1Api, server: Any) -> None:
    uid = core.read_namespaced_pod("p1", "bat").metadata.uid
    server.logs.append(uid, "c", b"one\ntwo\nthree")
    assert core.read_namespaced_pod_log("p1", "bat") == "one\ntwo\nthree"
    assert core.read_namespaced_pod_log("p1", "bat", tail_lines=1) == "three"


def test_events_of_both_groups_are_the_same_objects(core: client.CoreV1Api, api: client.ApiClient) -> None:
    events = client.EventsV1Api(api)
    body = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "bat"},
        "note": "hello",
        "reason": "Test",
        "type": "Normal",
        "action": "Do",
        "eventTime": "2026-11-29T12:00:00.000000Z",
        "reportingController": "me",
        "reportingInstance": "me-1",
    }
    events.create_namespaced_event("bat", body)
    found = core.read_namespaced_event("e", "bat")
    assert (found.involved_object.name, found.message, found.reporting_component) == ("p", "hello", "me")
    assert [e.note for e in events.list_namespaced_event("bat", field_selector="regarding.name=p").items] == ["hello"]


def test_leases_are_created_by_put(core: client.CoreV1Api, api: client.ApiClient) -> None:
    leases = client.CoordinationV1Api(api)
    body = {"metadata": {"name": "lead"}, "spec": {"holderIdentity": "me", "renewTime": "2026-11-29T12:00:00.000000Z"}}
    leases.replace_namespaced_lease("lead", "bat", body)
    assert leases.read_namespaced_lease("lead", "bat").spec.holder_identity == "me"


def test_token_of_a_service_account_authenticates(core: client.CoreV1Api, server: Any) -> None:
    core.create_namespaced_service_account("bat", {"metadata": {"name": "robot"}})
    answer = core.create_namespaced_service_account_token("robot", "bat", {"spec": {"audiences": [], "expirationSeconds": 3600}})
    assert answer.status.token == server.token("system:serviceaccount:bat:robot")
