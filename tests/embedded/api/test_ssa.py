"""Server-side apply: ownership, conflicts, removal, and what other writers take over."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.embedded.api.registry import Served, builtins
from fixtures.embedded.api.ssa import apply, track
from fixtures.embedded.ports import ApiError
from fixtures.kube.resources import DEPLOYMENTS, Obj, Resource

SERVED = {served.resource.key: served for served, _ in builtins()}
DEPLOYMENT = SERVED[DEPLOYMENTS.key]


def wanted(*containers: Obj, **spec: Any) -> Obj:
    body = {"template": {"spec": {"containers": list(containers)}}, **spec} if containers else spec
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": body}


def by(manager: str, live: Obj | None, obj: Obj, *, force: bool = False, served: Served = DEPLOYMENT) -> Obj:
    return apply(live, obj, served, manager, "2026-11-29T12:00:00Z", force=force)


def owned(obj: Obj, manager: str) -> Obj:
    return next((e["fieldsV1"] for e in obj["metadata"]["managedFields"] if e["manager"] == manager), {})


def containers(obj: Obj) -> list[Obj]:
    found: list[Obj] = obj["spec"]["template"]["spec"]["containers"]
    return found


def test_fields_are_written_down_as_fields_v1() -> None:
    live = by("a", None, wanted({"name": "c", "image": "i", "command": ["x"]}, replicas=2))
    entry = live["metadata"]["managedFields"][0]
    assert (entry["operation"], entry["apiVersion"], entry["fieldsType"]) == ("Apply", "apps/v1", "FieldsV1")
    item = {".": {}, "f:name": {}, "f:image": {}, "f:command": {}}
    assert entry["fieldsV1"] == {"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {'k:{"name":"c"}': item}}}}}


def test_what_is_no_longer_applied_goes_and_the_rest_of_others_stays() -> None:
    live = by("a", None, wanted({"name": "c", "image": "i"}, {"name": "old", "image": "i"}, replicas=2))
    live = by("b", live, wanted({"name": "extra", "image": "j"}))
    live = by("a", live, wanted({"name": "c", "image": "i"}))
    assert [c["name"] for c in containers(live)] == ["c", "extra"]
    assert "replicas" not in live["spec"]


def test_shared_fields_survive_the_withdrawal_of_one_owner() -> None:
    live = by("a", None, wanted(replicas=2, paused=True))
    live = by("b", live, wanted(replicas=2))
    live = by("a", live, wanted(paused=True))
    assert live["spec"]["replicas"] == 2
    assert owned(live, "b") == {"f:spec": {"f:replicas": {}}}


def test_conflicts_name_the_owner_and_every_field() -> None:
    live = by("a", None, wanted({"name": "c", "image": "i"}, replicas=2))
    with pytest.raises(ApiError) as problem:
        by("b", live, wanted({"name": "c", "image": "j"}, replicas=3))
    assert problem.value.code == 409
    assert problem.value.message == (
        'Apply failed with 2 conflicts: conflicts with "a":\n- .spec.replicas\n- .spec.template.spec.containers[name="c"].image'
    )
    assert {cause["reason"] for cause in problem.value.details["causes"]} == {"FieldManagerConflict"}


def test_force_takes_the_field_over() -> None:
    live = by("a", None, wanted(replicas=2, paused=True))
    live = by("b", live, wanted(replicas=3), force=True)
    assert live["spec"]["replicas"] == 3
    assert owned(live, "a") == {"f:spec": {"f:paused": {}}}
    assert by("a", live, wanted(paused=True))["spec"]["replicas"] == 3


def test_same_value_is_no_conflict() -> None:
    live = by("b", by("a", None, wanted(replicas=2)), wanted(replicas=2))
    assert owned(live, "a") == owned(live, "b")


def test_another_writer_takes_fields_over_and_then_conflicts() -> None:
    live = by("a", None, wanted(replicas=2))
    scaled = {**live, "spec": {**live["spec"], "replicas": 5}}
    scaled = track(live, scaled, DEPLOYMENT, "kubectl-scale", "2026-11-29T12:00:01Z")
    assert owned(scaled, "kubectl-scale") == {"f:spec": {"f:replicas": {}}}
    assert owned(scaled, "a") == {}
    with pytest.raises(ApiError, match=r'conflict with "kubectl-scale": \.spec\.replicas'):
        by("a", scaled, wanted(replicas=2))


def test_objects_that_nobody_applies_carry_no_managed_fields() -> None:
    live = wanted(replicas=2)
    assert "managedFields" not in track(live, wanted(replicas=3), DEPLOYMENT, "m", "t")["metadata"]


def test_empty_list_resets_ownership() -> None:
    live = by("a", None, wanted(replicas=2))
    reset = {**live, "metadata": {**live["metadata"], "managedFields": []}}
    assert "managedFields" not in track(live, reset, DEPLOYMENT, "m", "t")["metadata"]


def test_labels_are_granular_and_emptied_maps_go() -> None:
    first, second = wanted(replicas=1), wanted(replicas=1)
    first["metadata"]["labels"], second["metadata"]["labels"] = {"a": "1"}, {"b": "2"}
    live = by("y", by("x", None, first), second)
    assert live["metadata"]["labels"] == {"a": "1", "b": "2"}
    live = by("x", live, wanted(replicas=1))
    assert live["metadata"]["labels"] == {"b": "2"}
    assert "labels" not in by("y", live, wanted(replicas=1))["metadata"]


def test_custom_resources_follow_their_schema() -> None:
    properties = {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
    }
    resource = Resource("g", "v1", "things", "Thing")
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    served = Served(resource, resource, custom=True, schema=schema)

    def thing(**spec: Any) -> Obj:
        return {"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}

    live = by("a", None, thing(set=["x"], plain=["x"]), served=served)
    live = by("b", live, thing(set=["y"]), served=served)
    assert live["spec"] == {"set": ["x", "y"], "plain": ["x"]}
    with pytest.raises(ApiError, match="conflict with"):
        by("b", live, thing(set=["y"], plain=["y"]), served=served)
    assert by("a", live, thing(plain=["x"]), served=served)["spec"]["set"] == ["y"]
