"""Who can: roles, aggregation, bindings, ServiceAccount groups; what a descheduler's account lacks or has too much of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.cluster.api import Presence
from fixtures.cluster.discover import find_installation, rights
from fixtures.cluster.discover.rbac import KINDS, Rbac, Right, Subject, account, covers, find_rbac
from fixtures.kube.resources import PODS, Obj
from fixtures.versions import descheduler
from tests.cluster.paper import Paper, load

CASES = yaml.safe_load((Path(__file__).parent / "data" / "reported.yaml").read_text(encoding="utf-8"))["rights"]
GROUP = "rbac.authorization.k8s.io/v1"
EVICT = Right.on(PODS, "create", sub="eviction")
SERVED = [kind.key for kind in KINDS]


def role(name: str, *rules: Obj, ns: str = "", **more: Any) -> Obj:
    meta = {"name": name, **({"namespace": ns} if ns else {})}
    kind = "Role" if ns else "ClusterRole"
    return {"apiVersion": GROUP, "kind": kind, "metadata": {**meta, **more.pop("metadata", {})}, "rules": list(rules), **more}


def bind(name: str, to: str, *subjects: Obj, ns: str = "", kind: str = "ClusterRole") -> Obj:
    meta = {"name": name, **({"namespace": ns} if ns else {})}
    ref = {"kind": kind, "name": to}
    return {
        "apiVersion": GROUP,
        "kind": "RoleBinding" if ns else "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": ref,
        "subjects": list(subjects),
    }


def rule(group: str, resources: str, verbs: str, **more: Any) -> Obj:
    return {"apiGroups": [group], "resources": resources.split(","), "verbs": verbs.split(","), **more}


def user(name: str) -> Obj:
    return {"kind": "User", "name": name}


def read(*objects: Obj, **options: Any) -> Rbac:
    return find_rbac(Paper(*objects, served=SERVED, **options))  # type: ignore[arg-type]


def who(rbac: Rbac, right: Right) -> list[str]:
    return [str(g.subject) for g in rbac.who_can(right)]


EVICTOR = role("evictor", rule("", "pods/eviction", "create"))


def test_a_cluster_role_binding_grants_everywhere_and_a_role_binding_in_its_namespace() -> None:
    rbac = read(EVICTOR, bind("all", "evictor", user("anna")), bind("one", "evictor", user("ben"), ns="a"))
    assert who(rbac, EVICT) == ["User anna"]
    assert who(rbac, Right("create", "", "pods/eviction", "a")) == ["User anna", "User ben"]
    assert who(rbac, Right("create", "", "pods/eviction", "b")) == ["User anna"]


def test_a_role_is_not_its_namesake_cluster_role() -> None:
    mine = role("evictor", rule("", "pods", "get"), ns="a")
    rbac = read(EVICTOR, mine, bind("one", "evictor", user("ben"), ns="a", kind="Role"))
    assert who(rbac, Right("create", "", "pods/eviction", "a")) == []
    assert who(rbac, Right("get", "", "pods", "a")) == ["User ben"]


def test_aggregated_roles_are_followed_through_several_levels() -> None:
    def aggregated(name: str, level: str, **labels: str) -> Obj:
        selector = {"clusterRoleSelectors": [{"matchLabels": {level: "true"}}]}
        return role(name, metadata={"labels": labels}, aggregationRule=selector)

    part = role("part", rule("", "pods/eviction", "create"), metadata={"labels": {"to-view": "true"}})
    view, admin = aggregated("view", "to-view", **{"to-admin": "true"}), aggregated("admin", "to-admin")
    loop = aggregated("loop", "to-view", **{"to-view": "true"})
    assert who(read(part, view, admin, loop, bind("b", "admin", user("anna"))), EVICT) == ["User anna"]


@pytest.mark.parametrize(
    ("found", "allowed"),
    [
        (rule("", "pods/eviction", "create"), True),
        (rule("", "*", "create"), True),
        (rule("*", "*/eviction", "*"), True),
        (rule("", "pods", "create"), False),
        (rule("apps", "pods/eviction", "create"), False),
        (rule("", "pods/eviction", "get"), False),
        (rule("", "pods/eviction", "create", resourceNames=["one"]), False),
        ({"nonResourceURLs": ["*"], "verbs": ["*"]}, False),
        ({"apiGroups": None, "resources": "pods", "verbs": 7}, False),
    ],
)
def test_what_a_rule_covers(found: Obj, allowed: bool) -> None:
    assert covers(found, EVICT) is allowed


def test_resource_names_count_for_a_right_on_that_name() -> None:
    named = rule("", "configmaps", "update", resourceNames=["policy"])
    assert covers(named, Right("update", "", "configmaps", "a", "policy"))
    assert not covers(named, Right("update", "", "configmaps", "a", "other"))


@pytest.mark.parametrize(
    "subject",
    [
        {"kind": "ServiceAccount", "name": "d", "namespace": "a"},
        user("system:serviceaccount:a:d"),
        {"kind": "Group", "name": "system:serviceaccounts:a"},
        {"kind": "Group", "name": "system:serviceaccounts"},
        {"kind": "Group", "name": "system:authenticated"},
    ],
)
def test_a_service_account_is_meant_in_five_ways(subject: Obj) -> None:
    assert read(EVICTOR, bind("b", "evictor", subject)).may(account("a", "d"), EVICT)


def test_a_binding_without_subjects_or_with_a_missing_role_grants_nothing() -> None:
    hollow = {"apiVersion": GROUP, "kind": "ClusterRoleBinding", "metadata": {"name": "x"}}
    assert who(read(EVICTOR, hollow, bind("b", "gone", user("anna"))), EVICT) == []


@pytest.mark.parametrize(
    ("name", "everybody"),
    [("system:authenticated", True), ("system:unauthenticated", True), ("system:serviceaccounts", True), ("admins", False),
     ("system:serviceaccounts:kubevirt", False)],
)  # fmt: skip
def test_subjects_that_stand_for_everybody(name: str, everybody: bool) -> None:
    assert Subject("Group", name).everybody is everybody


def test_cluster_admin_is_known_by_what_it_may_not_by_its_name() -> None:
    god = role("harmless", rule("*", "*", "*"))
    assert read(god, bind("b", "harmless", user("system:serviceaccount:a:d"))).almighty(account("a", "d"))
    assert not read(god, bind("b", "harmless", user("system:serviceaccount:a:d"), ns="a")).almighty(account("a", "d"))


@pytest.mark.parametrize("denied", SERVED)
def test_what_may_not_be_read_is_unknown_and_says_so(denied: str) -> None:
    rbac = read(EVICTOR, denied=[denied])
    assert rbac.probe.presence is Presence.UNKNOWN
    assert denied in rbac.probe.evidence


def missing(version: str, *rules: Obj) -> set[str]:
    paper: Any = Paper(*load("chart-cronjob.yaml"))
    consumer = find_installation(paper).consumer
    subject = {"kind": "ServiceAccount", "name": consumer.service_account, "namespace": consumer.namespace}
    rbac = read(role("r", *rules), bind("b", "r", subject))
    wanted = rights.needed(descheduler(version), consumer, {})
    return {str(r).split(" ", 1)[1] for r in wanted if not rbac.may(account(consumer.namespace, consumer.service_account), r)}


def test_rights_as_public_tutorials_grant_them_are_missed_as_reported() -> None:
    case = next(c for c in CASES if c["id"] == "A23.1")
    wanted = {m.split(" ")[0] for m in case["expect"]["missing"]}
    reported = {f"{name}.{group}" if group else name for group, _, name in (w.rpartition("/") for w in wanted)}
    assert missing("0.35.0", *case["given"]["rules"]) == reported


@pytest.mark.parametrize(("version", "claims"), [("0.34.0", set()), ("0.35.0", {"persistentvolumeclaims"})])
def test_claims_are_needed_from_0_35_on(version: str, claims: set[str]) -> None:
    read_ = "get,watch,list"
    chart = [
        rule("events.k8s.io", "events", "create,update"),
        rule("", "nodes,namespaces,pods", read_),
        rule("", "pods/eviction", "create"),
        rule("scheduling.k8s.io", "priorityclasses", read_),
        rule("policy", "poddisruptionbudgets", read_),
    ]
    assert missing(version, *chart) == claims


def test_a_policy_with_metrics_or_a_token_needs_more() -> None:
    paper: Any = Paper(*load("chart-cronjob.yaml"))
    secret = {"secretReference": {"namespace": "m", "name": "token"}}
    policy = {
        "metricsProviders": [
            {"source": "KubernetesMetrics"},
            {"source": "Prometheus", "prometheus": {"url": "https://p", "authToken": secret}},
        ]
    }
    found = {str(r) for r in rights.needed(descheduler("0.36.0"), find_installation(paper).consumer, policy)}
    assert {"get nodes.metrics.k8s.io", "list pods.metrics.k8s.io", "get secrets in m"} <= found
