"""Whether a Pod may run on a node."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.kube import nodefit
from fixtures.kube.podresources import legacy_request, legacy_requests, pod_requests, qos_class
from fixtures.kube.quantities import parse

Obj = dict[str, Any]


def node(name: str = "n1", **spec: Any) -> Obj:
    return {"metadata": {"name": name, "labels": {"zone": "a", "cores": "8"}}, "spec": spec}


def required(*terms: Obj) -> Obj:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}
    return {"spec": {"affinity": affinity}}


def expression(key: str, operator: str, *values: str) -> Obj:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("pod", "matches"),
    [
        ({}, True),
        ({"spec": {"nodeSelector": {"zone": "a"}}}, True),
        ({"spec": {"nodeSelector": {"zone": "b"}}}, False),
        (required({"matchExpressions": [expression("zone", "In", "a", "b")]}), True),
        (required({"matchExpressions": [expression("zone", "NotIn", "a")]}), False),
        (required({"matchExpressions": [expression("cores", "Gt", "4")]}), True),
        (required({"matchExpressions": [expression("cores", "Lt", "4")]}), False),
        (required({"matchExpressions": [expression("gpu", "DoesNotExist")]}), True),
        (required({"matchFields": [expression("metadata.name", "In", "n1")]}), True),
        (required({"matchFields": [expression("metadata.name", "NotIn", "n1")]}), False),
        (required({}), False),
        (required(), False),
        (required({"matchExpressions": [expression("zone", "Near", "a")]}), False),
        (required({"matchExpressions": [expression("gpu", "Exists")]}, {"matchExpressions": [expression("zone", "Exists")]}), True),
    ],
)
def test_selectors(pod: Obj, matches: bool) -> None:
    assert nodefit.matches_node(pod, node()) is matches


@pytest.mark.parametrize(
    ("toleration", "taint", "covered"),
    [
        ({"operator": "Exists"}, {"key": "a", "effect": "NoSchedule"}, True),
        ({"key": "a", "operator": "Exists"}, {"key": "a", "value": "x", "effect": "NoExecute"}, True),
        ({"key": "a", "value": "x"}, {"key": "a", "value": "x", "effect": "NoSchedule"}, True),
        ({"key": "a"}, {"key": "a", "value": "x", "effect": "NoSchedule"}, False),
        ({"key": "a", "effect": "NoExecute", "operator": "Exists"}, {"key": "a", "effect": "NoSchedule"}, False),
        ({"key": "a", "operator": "Gt", "value": "5"}, {"key": "a", "value": "7", "effect": "NoSchedule"}, True),
        ({"key": "a", "operator": "Lt", "value": "5"}, {"key": "a", "value": "7", "effect": "NoSchedule"}, False),
        ({"key": "a", "operator": "Gt", "value": "05"}, {"key": "a", "value": "7", "effect": "NoSchedule"}, False),
    ],
)
def test_tolerations(toleration: Obj, taint: Obj, covered: bool) -> None:
    assert nodefit.tolerates([toleration], taint) is covered
    assert nodefit.untolerated({"spec": {"tolerations": [toleration]}}, node(taints=[taint])) == (None if covered else taint)


def test_comparing_tolerations_are_new() -> None:
    toleration = {"key": "a", "operator": "Gt", "value": "5"}
    assert not nodefit.tolerates([toleration], {"key": "a", "value": "7"}, comparisons=False)


def test_soft_taints_do_not_keep_off() -> None:
    soft = node(taints=[{"key": "a", "effect": "PreferNoSchedule"}])
    assert nodefit.untolerated({}, soft) is None
    assert nodefit.untolerated({}, soft, effects=None) is not None


def repelling(**term: Any) -> Obj:
    full = {"labelSelector": {"matchLabels": {"foo": "bar"}}, "topologyKey": "zone", **term}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [full]}}
    return {"metadata": {"name": "p", "namespace": "a"}, "spec": {"affinity": affinity}}


def peer(name: str = "q", ns: str = "a", **labels: str) -> Obj:
    return {"metadata": {"name": name, "namespace": ns, "labels": labels}}


@pytest.mark.parametrize(
    ("pod", "others", "conflict"),
    [
        (repelling(), [peer(foo="bar")], True),
        (repelling(), [peer(ns="b", foo="bar")], False),
        (repelling(namespaces=["b"]), [peer(ns="b", foo="bar")], True),
        (repelling(), [peer(foo="other")], False),
        (repelling(topologyKey="rack"), [peer(foo="bar")], False),
        (repelling(), [peer("p", foo="bar")], False),
        ({}, [peer(foo="bar")], False),
    ],
)
def test_anti_affinity(pod: Obj, others: list[Obj], conflict: bool) -> None:
    assert nodefit.anti_affinity_conflict(pod, node(), others) is conflict


def test_resources_run_short_pods_first() -> None:
    assert nodefit.short_of({"cpu": parse("1")}, {"cpu": 1000, "pods": 1000}) is None
    assert nodefit.short_of({"cpu": parse("1")}, {"cpu": 999, "pods": 1000}) == "cpu"
    assert nodefit.short_of({"cpu": parse("1")}, {"cpu": 1000, "pods": 0}) == "pods"
    assert nodefit.short_of({"a/gpu": parse("1")}, {"pods": 1000}) == "a/gpu"
    assert nodefit.short_of({"cpu": parse("2")}, {"cpu": 1, "pods": -1000}) == "pods"


def container(**requests: str) -> Obj:
    return {"name": "c", "resources": {"requests": dict(requests)}}


POD: Obj = {
    "spec": {
        "containers": [container(cpu="500m", memory="1Gi")],
        "initContainers": [container(cpu="2"), {**container(cpu="300m"), "restartPolicy": "Always"}, container(memory="3Gi")],
        "overhead": {"cpu": "100m", "memory": "64Mi"},
    }
}


def test_requests_by_release() -> None:
    assert {k: str(v) for k, v in pod_requests(POD).items()} == {"cpu": "2100m", "memory": "3136Mi"}
    assert {k: str(v) for k, v in legacy_requests(POD).items()} == {"cpu": "2100m", "memory": "3136Mi"}
    late = {"spec": {"containers": [container(cpu="1")], "initContainers": [{**container(cpu="300m"), "restartPolicy": "Always"}]}}
    assert str(pod_requests(late)["cpu"]) == "1300m"
    assert str(legacy_requests(late)["cpu"]) == "1"


def test_pod_level_requests_win() -> None:
    pod = {"spec": {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "300m", "a/gpu": "1"}}}}
    assert {k: str(v) for k, v in pod_requests(pod).items()} == {"cpu": "300m"}


def test_legacy_subtraction_adds_overhead_to_requests_only() -> None:
    pod = {"spec": {"containers": [container(cpu="1")], "overhead": {"cpu": "100m", "memory": "64Mi"}}}
    assert str(legacy_request(pod, "cpu")) == "1100m"
    assert str(legacy_request(pod, "memory")) == "0"


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}, "Burstable"),
        ({"requests": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_quality_of_service(resources: Obj, qos: str) -> None:
    assert qos_class({"spec": {"containers": [{"resources": resources}]}}) == qos
    assert qos_class({"status": {"qosClass": "Guaranteed"}}) == "Guaranteed"
