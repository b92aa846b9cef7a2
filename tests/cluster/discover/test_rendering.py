"""ResourcePatches and field managers: whether the consumer is as rendered."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.cluster.api import Presence
from fixtures.cluster.discover import find_installation
from fixtures.cluster.discover.rendering import find_patches, foreign_managers, patched_arguments, policy_modified
from fixtures.kube.resources import Obj
from tests.cluster.paper import Paper, load


def patch(path: str, *, kind: str = "CronJob", ns: str = "descheduler", name: str = "descheduler") -> Obj:
    return {
        "apiVersion": "operator.alauda.io/v1alpha1",
        "kind": "ResourcePatch",
        "metadata": {"name": "rp-1", "namespace": ns},
        "spec": {"jsonPatch": [{"op": "replace", "path": path}], "target": {"kind": kind, "namespace": ns, "name": name}},
    }


POD = "/spec/jobTemplate/spec/template/spec"


@pytest.mark.parametrize(
    ("path", "reaches"),
    [(f"{POD}/containers/0/args", True), (f"{POD}/containers/0/args/1", True), (f"{POD}/containers/0", True),
     (f"{POD}/containers", True), (POD, True), ("/spec", True), ("", True), (f"{POD}/containers/0/command", True),
     (f"{POD}/containers/0/env/0/value", True), (f"{POD}/containers/0/resources", False), ("/spec/suspend", False),
     ("/spec/schedule", False), (f"{POD}/nodeSelector", False), ("/metadata/labels/a", False)],
)  # fmt: skip
def test_a_resource_patch_that_reaches_the_arguments(path: str, reaches: bool) -> None:
    paper: Any = Paper(*load("chart-cronjob.yaml"), patch(path))
    found = list(patched_arguments(find_patches(paper), find_installation(paper).consumer))
    assert bool(found) is reaches


def test_a_patch_of_something_else_is_none_of_ours() -> None:
    paper: Any = Paper(*load("chart-cronjob.yaml"), patch("/spec", name="other"), patch("/data", kind="ConfigMap"))
    patches = find_patches(paper)
    assert list(patched_arguments(patches, find_installation(paper).consumer)) == []
    assert policy_modified(patches, "descheduler", "descheduler") is Presence.PRESENT
    assert policy_modified(patches, "descheduler", "other") is Presence.ABSENT


def test_patches_that_may_not_be_listed_leave_it_open() -> None:
    paper: Any = Paper(patch("/data", kind="ConfigMap"), denied=["resourcepatches.operator.alauda.io"])
    assert policy_modified(find_patches(paper), "descheduler", "descheduler") is Presence.UNKNOWN


@pytest.mark.parametrize(
    ("fields", "foreign"),
    [({"f:args": {}}, True), ({"f:args": {}, "f:image": {}, "f:command": {}}, False), ({"f:resources": {}}, False), ({}, False)],
)
def test_whoever_wrote_the_arguments_but_not_the_image_did_not_render_them(fields: Obj, foreign: bool) -> None:
    objects = {o["kind"]: o for o in load("chart-cronjob.yaml")}
    container = {'k:{"name":"descheduler"}': fields}
    pod = {"f:jobTemplate": {"f:spec": {"f:template": {"f:spec": {"f:containers": container}}}}}
    entry = {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": pod}}
    objects["CronJob"]["metadata"]["managedFields"] = [entry, {"manager": "kube-controller-manager", "subresource": "status"}, None]
    paper: Any = Paper(*objects.values())
    found = foreign_managers(find_installation(paper).consumer)
    assert bool(found) is foreign
    assert not foreign or found[0].startswith("kubectl-edit wrote args")
