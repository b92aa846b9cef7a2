"""Before and after are compared field by field."""

from __future__ import annotations

import copy

from fixtures.kube.resources import CRONJOBS, Obj
from fixtures.scenario.inventory import Inventory, differences


def inventory() -> Inventory:
    policy: Obj = {
        "kind": "ConfigMap",
        "metadata": {"name": "p", "namespace": "d", "uid": "1", "labels": {"a": "b"}},
        "data": {"policy.yaml": "x"},
    }
    cron: Obj = {"kind": "CronJob", "metadata": {"name": "c", "namespace": "d", "uid": "2"}, "spec": {"suspend": False}}
    patch: Obj = {"kind": "ResourcePatch", "metadata": {"name": "rp-1", "namespace": "d", "uid": "3"}, "spec": {"jsonPatch": []}}
    return Inventory(policy, cron, CRONJOBS, {"3": patch})


def test_the_same_is_no_difference() -> None:
    assert differences(inventory(), copy.deepcopy(inventory())) == []


def test_each_difference_names_object_field_and_both_values() -> None:
    after = copy.deepcopy(inventory())
    after.policy["data"]["policy.yaml"] = "y"
    after.policy["metadata"]["labels"] = {}
    after.consumer["spec"]["suspend"] = True
    assert differences(inventory(), after) == [
        "ConfigMap d/p: metadata.labels was {'a': 'b'}, now {}",
        'ConfigMap d/p: data.policy.yaml was "x", now "y"',
        "CronJob d/c: spec.suspend was false, now true",
    ]


def test_resource_patches_gone_and_new_are_told() -> None:
    after = copy.deepcopy(inventory())
    assert after.patches is not None
    after.patches = None
    new = copy.deepcopy(inventory())
    assert new.patches is not None
    new.patches["4"] = {"kind": "ResourcePatch", "metadata": {"name": "rp-2", "namespace": "d", "uid": "4"}}
    assert differences(inventory(), after) == ["ResourcePatch d/rp-1 existed before and is gone"]
    assert differences(inventory(), new) == ["ResourcePatch d/rp-2 did not exist before; delete it"]


def test_a_replaced_object_is_told() -> None:
    after = copy.deepcopy(inventory())
    after.consumer["metadata"]["uid"] = "9"
    assert differences(inventory(), after) == ["CronJob d/c: uid was 2, now 9: the object was replaced"]


def test_a_resource_patch_made_anew_alike_is_the_same_and_any_other_is_not() -> None:
    again, other = copy.deepcopy(inventory()), copy.deepcopy(inventory())
    assert again.patches is not None
    assert other.patches is not None
    again.patches["4"] = again.patches.pop("3") | {"metadata": {"name": "rp-2", "namespace": "d", "uid": "4"}}
    assert differences(inventory(), again) == []
    other.patches["4"] = again.patches["4"] | {"spec": {"jsonPatch": [{"op": "remove", "path": "/data"}]}}
    del other.patches["3"]
    assert differences(inventory(), other) == [
        "ResourcePatch d/rp-1 existed before and is gone",
        "ResourcePatch d/rp-2 did not exist before; delete it",
    ]
