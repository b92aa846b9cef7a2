"""What a policy says and does not mean on a cluster: told by the kind, and only where it can be known."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.cluster.api import Presence, Probe
from fixtures.cluster.discover.looking import Looked
from fixtures.cluster.discover.policyadvice import Advice, advice, marked
from fixtures.cluster.discover.policyreach import reach
from fixtures.engine.reference.policy import Policy
from fixtures.kube.resources import Obj
from tests.cluster.discover.test_reported_policies import REPORTED, as_run

PREFER = "descheduler.alpha.kubernetes.io/prefer-no-eviction"


def loaded(*, plugin: str = "LowNodeUtilization", evictor: Any = None, version: str = "0.36.0", **parts: Any) -> Policy:
    numbered = parts.pop("numberOfNodes", None)
    args = {"thresholds": {"cpu": 30}} | ({"targetThresholds": {"cpu": 60}} if plugin.startswith("Low") else {})
    args |= {} if numbered is None else {"numberOfNodes": numbered}
    profile = {
        "name": "p",
        "pluginConfig": [{"name": "DefaultEvictor", "args": evictor or {}}, {"name": plugin, "args": args}],
        "plugins": {"balance": {"enabled": [plugin]}},
    }
    policy = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile], **parts}
    found = as_run(policy, f"registry.k8s.io/descheduler/descheduler:v{version}").policy
    assert found is not None
    return found


def node(name: str, *, ready: bool = True, cordoned: bool = False) -> Obj:
    condition = {"type": "Ready", "status": str(ready)}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {"conditions": [condition]},
    }


def listed(*nodes: Obj, gaps: str = "", presence: Presence = Presence.PRESENT) -> Looked:
    return Looked(nodes, Probe("nodes", presence, "listed"), gaps=gaps)


def launcher(name: str, **annotations: str) -> Obj:
    owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": name, "uid": name}
    meta = {"name": name, "namespace": "a", "labels": {"kubevirt.io": "virt-launcher"}, "ownerReferences": [owner]}
    return {"metadata": {**meta, "annotations": annotations}, "spec": {"containers": []}, "status": {"phase": "Running"}}


def about(text: str, found: list[Advice]) -> list[bool | None]:
    return [a.bites for a in found if text in str(a)]


A, B, C = (node(n) for n in "abc")


@pytest.mark.parametrize(
    ("number", "nodes", "bites"),
    [
        (0, listed(A, B), []),
        (1, listed(A, B), [True]),
        (1, listed(A, B, C), [False]),
        (2, listed(A, B, C), [True]),
        (1, listed(A, B, node("c", ready=False)), [True]),
        (1, listed(A, B, node("c", cordoned=True)), [False]),
        (1, listed(A, node("b", cordoned=True), node("c", cordoned=True)), [True]),
        (1, listed(A, B, gaps="others may exist"), [None]),
        (1, listed(A, B, C, gaps="others may exist"), [False]),
        (1, listed(presence=Presence.UNKNOWN), [False]),
    ],
)
def test_a_number_of_nodes_that_is_never_exceeded(number: int, nodes: Looked, bites: list[bool | None]) -> None:
    assert about("numberOfNodes", advice(loaded(numberOfNodes=number), nodes, ())) == bites


def test_a_cordoned_node_can_be_emptied_by_high_node_utilization() -> None:
    nodes = listed(A, node("b", cordoned=True))
    assert about("numberOfNodes", advice(loaded(plugin="HighNodeUtilization", numberOfNodes=1), nodes, ())) == [True]
    more = listed(A, node("b", cordoned=True), node("c", cordoned=True))
    assert about("numberOfNodes", advice(loaded(plugin="HighNodeUtilization", numberOfNodes=1), more, ())) == [False]


@pytest.mark.parametrize(
    ("selector", "nodes", "bites"),
    [
        ("kubernetes.io/hostname in (a,b)", listed(A, B, C), []),
        ("kubernetes.io/hostname=a", listed(A, B, C), [True]),
        ("kubernetes.io/hostname=z", listed(A, B, C, gaps="others may exist"), [None]),
        ("kubernetes.io/hostname=a", listed(A), []),
    ],
)
def test_a_node_selector_that_leaves_too_few(selector: str, nodes: Looked, bites: list[bool | None]) -> None:
    found = advice(loaded(nodeSelector=selector), nodes, ())
    assert about("nodeSelector", found) == bites


@pytest.mark.parametrize(
    ("evictor", "version", "bites"),
    [
        ({"evictLocalStoragePods": True}, "0.36.0", [True]),
        ({"evictLocalStoragePods": True, "noEvictionPolicy": "Preferred"}, "0.36.0", [True]),
        ({"evictLocalStoragePods": True, "noEvictionPolicy": "Mandatory"}, "0.36.0", []),
        ({"evictLocalStoragePods": True, "labelSelector": {"matchLabels": {"app": "other"}}}, "0.36.0", [False]),
        ({"evictLocalStoragePods": True}, "0.33.0", [True]),
    ],
)
def test_a_wish_to_be_left_alone_that_binds_nobody(evictor: Obj, version: str, bites: list[bool | None]) -> None:
    policy, pods = loaded(evictor=evictor, version=version), marked([launcher("x", **{PREFER: ""}), launcher("y")])
    assert [p["metadata"]["name"] for p in pods] == ["x"]
    found = advice(policy, listed(A, B), reach(policy, pods, namespaces=[], claims=[]))
    assert about("prefer-no-eviction", found) == bites
    for one in found:
        if one.bites:
            assert "1 launchers that carry it may be evicted all the same: a/x" in str(one)
            assert ("before descheduler 0.34" in str(one)) is (version == "0.33.0")


#: A reported warning -> whether it matters on the reported cluster.
@pytest.mark.parametrize(("case", "word", "bites"), [("P12.1", "numberOfNodes", [True]), ("P01.1", "prefer-no-eviction", [False])])
def test_reported_misunderstandings(case: str, word: str, bites: list[bool | None]) -> None:
    policy = as_run(next(c for c in REPORTED if c["id"] == case)["policy"]).policy
    assert policy is not None
    assert about(word, advice(policy, listed(A, B), ())) == bites
