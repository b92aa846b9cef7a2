"""JSON, merge and strategic patches against small objects."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.embedded.api import registry
from fixtures.embedded.api.patch import json_patch, merge_patch, strategic_patch
from fixtures.embedded.ports import ApiError
from fixtures.kube.resources import Obj

POD = "io.k8s.api.core.v1.Pod"


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/a", "value": 1}, {"a": 1, "l": [1, 2], "m": {"x/y": "z"}}),
        ({"op": "add", "path": "/l/1", "value": 9}, {"l": [1, 9, 2], "m": {"x/y": "z"}}),
        ({"op": "add", "path": "/l/-", "value": 9}, {"l": [1, 2, 9], "m": {"x/y": "z"}}),
        ({"op": "remove", "path": "/l/0"}, {"l": [2], "m": {"x/y": "z"}}),
        ({"op": "replace", "path": "/m/x~1y", "value": None}, {"l": [1, 2], "m": {"x/y": None}}),
        ({"op": "move", "from": "/m/x~1y", "path": "/n"}, {"l": [1, 2], "m": {}, "n": "z"}),
        ({"op": "copy", "from": "/l", "path": "/k"}, {"l": [1, 2], "k": [1, 2], "m": {"x/y": "z"}}),
        ({"op": "test", "path": "/l", "value": [1, 2]}, {"l": [1, 2], "m": {"x/y": "z"}}),
        ({"op": "test", "path": "/absent", "value": None}, {"l": [1, 2], "m": {"x/y": "z"}}),
    ],
)
def test_json_patch_operations(operation: Obj, result: Obj) -> None:
    obj = {"l": [1, 2], "m": {"x/y": "z"}}
    assert json_patch(obj, [operation]) == result
    assert obj == {"l": [1, 2], "m": {"x/y": "z"}}


def test_replace_of_a_missing_member_adds_it() -> None:
    """KubeVirt's pod-eviction-admitter relies on this leniency of json-patch.v4."""
    operation = {"op": "replace", "path": "/metadata/annotations/kubevirt.io~1eviction-source", "value": "descheduler"}
    found = json_patch({"metadata": {"annotations": {}}}, [operation])
    assert found == {"metadata": {"annotations": {"kubevirt.io/eviction-source": "descheduler"}}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/nothing/here", "value": 1},
        {"op": "remove", "path": "/x"},
        {"op": "add", "path": "/l/7", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "replace", "path": "/l/2", "value": 1},
        {"op": "add", "path": "/m"},
        {"op": "test", "path": "/l/0", "value": True},
        {"op": "copy", "path": "/a"},
        {"path": "/a"},
        {"op": "remove", "path": "/l/-"},
        {"op": "move", "from": "/no", "path": "/a"},
        {"op": "add", "path": 5, "value": 1},
        {"op": "remove", "path": "/l/-1"},
    ],
)
def test_operations_that_do_not_fit_are_422(operation: Obj) -> None:
    with pytest.raises(ApiError) as problem:
        json_patch({"l": [1, 2], "m": {}}, [operation])
    assert problem.value.code == 422


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": [1]}, {"a": [2, None]}, {"a": [2, None]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1], {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_as_rfc_7386_shows_it(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


def strategic(target: Obj, patch: Any) -> Obj:
    return strategic_patch(target, patch, POD, registry.schemas())


def test_strategic_lists_merge_by_key_and_delete_by_directive() -> None:
    pod = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}}
    changes = [{"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}, {"name": "c", "image": "3"}]
    found = strategic(pod, {"spec": {"containers": changes}})
    assert found["spec"]["containers"] == [{"name": "a", "image": "2"}, {"name": "c", "image": "3"}]
    assert pod["spec"]["containers"][0]["image"] == "1"


def test_strategic_atomic_lists_are_replaced() -> None:
    pod = {"spec": {"containers": [{"name": "a", "command": ["x", "y"]}], "tolerations": [{"key": "k"}]}}
    found = strategic(pod, {"spec": {"containers": [{"name": "a", "command": ["z"]}], "tolerations": [{"key": "n"}]}})
    assert found["spec"] == {"containers": [{"name": "a", "command": ["z"]}], "tolerations": [{"key": "n"}]}


def test_strategic_primitive_lists_merge_and_delete() -> None:
    obj = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert strategic(obj, patch)["metadata"]["finalizers"] == ["b", "c"]


def test_strategic_order_directive_sorts() -> None:
    pod = {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}
    patch = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "2"}]}}
    assert [c["name"] for c in strategic(pod, patch)["spec"]["containers"]] == ["b", "a"]


def test_strategic_maps_replace_retain_and_delete() -> None:
    obj = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    assert strategic(obj, {"metadata": {"labels": {"a": None}}})["metadata"]["labels"] == {"b": "2"}
    assert strategic(obj, {"metadata": {"labels": {"$patch": "replace", "c": "3"}}})["metadata"]["labels"] == {"c": "3"}
    assert strategic(obj, {"metadata": {"labels": {"$patch": "delete"}}})["metadata"]["labels"] == {}
    pod = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}}
    assert strategic(pod, patch)["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/"}}]


@pytest.mark.parametrize("patch", [[1], "x", {"spec": {"containers": [{"image": "no name"}]}}, {"spec": {"containers": [5]}}])
def test_strategic_nonsense_is_400(patch: Any) -> None:
    with pytest.raises(ApiError) as problem:
        strategic({"spec": {"containers": [{"name": "a"}]}}, patch)
    assert problem.value.code == 400
