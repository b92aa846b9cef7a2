"""Who may do what: tokens, roles, aggregation, reviews, and the API server's words for no."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.embedded.server import ApiServer
from fixtures.kube.resources import CLUSTERROLEBINDINGS, CLUSTERROLES, NAMESPACES, ROLEBINDINGS, ROLES, Obj

ROBOT = "system:serviceaccount:bat:robot"


@pytest.fixture
def robot(server: ApiServer, http_as: Any) -> Any:
    """Plain requests as the ServiceAccount ``robot`` of the namespace ``bat``."""
    server.store.create(NAMESPACES, {"metadata": {"name": "bat"}})
    return http_as(server.token(ROBOT))


def rule(*resources: str, group: str = "", verbs: tuple[str, ...] = ("get", "list"), **more: Any) -> Obj:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs), **more}


def grant(server: ApiServer, *rules: Obj, ns: str = "", name: str = "r") -> None:
    subjects = [{"kind": "ServiceAccount", "name": "robot", "namespace": "bat"}]
    if ns:
        server.store.create(ROLES, {"metadata": {"name": name, "namespace": ns}, "rules": list(rules)})
        ref = {"kind": "Role", "name": name}
        server.store.create(ROLEBINDINGS, {"metadata": {"name": name, "namespace": ns}, "roleRef": ref, "subjects": subjects})
    else:
        server.store.create(CLUSTERROLES, {"metadata": {"name": name}, "rules": list(rules)})
        ref = {"kind": "ClusterRole", "name": name}
        server.store.create(CLUSTERROLEBINDINGS, {"metadata": {"name": name}, "roleRef": ref, "subjects": subjects})


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        (
            "GET",
            "/api/v1/namespaces/bat/pods",
            'pods is forbidden: User "{}" cannot list resource "pods" in API group "" in the namespace "bat"',
        ),
        (
            "GET",
            "/api/v1/pods?watch=1",
            'pods is forbidden: User "{}" cannot watch resource "pods" in API group "" at the cluster scope',
        ),
        (
            "GET",
            "/api/v1/nodes/n",
            'nodes "n" is forbidden: User "{}" cannot get resource "nodes" in API group "" at the cluster scope',
        ),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/bat/deployments/d/scale",
            'deployments.apps "d" is forbidden: User "{}" cannot patch resource "deployments/scale" '
            'in API group "apps" in the namespace "bat"',
        ),
        (
            "DELETE",
            "/api/v1/namespaces/bat/pods",
            'pods is forbidden: User "{}" cannot deletecollection resource "pods" in API group "" in the namespace "bat"',
        ),
        ("GET", "/metrics", 'forbidden: User "{}" cannot get path "/metrics"'),
    ],
)
def test_refusals_in_the_api_servers_words(robot: Any, method: str, path: str, message: str) -> None:
    status, body, _ = robot(method, path)
    assert (status, body["reason"], body["message"]) == (403, "Forbidden", message.format(ROBOT))


def test_everybody_with_a_token_may_discover_and_review(robot: Any) -> None:
    for path in ("/api", "/apis", "/api/v1", "/version", "/openapi/v3"):
        assert robot("GET", path)[0] == 200
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    assert robot("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)[1]["status"] == {"allowed": False}


def test_without_a_token_only_health_and_version(http_as: Any) -> None:
    anonymous = http_as(None)
    assert anonymous("GET", "/healthz")[:2] == (200, "ok")
    assert anonymous("GET", "/version")[0] == 200
    status, body, _ = anonymous("GET", "/api/v1/pods")
    assert status == 403
    assert 'User "system:anonymous" cannot list' in body["message"]


def test_wrong_token_is_unauthorized(http_as: Any) -> None:
    status, body, _ = http_as("nonsense")("GET", "/api/v1/pods")
    assert (status, body["reason"], body["message"]) == (401, "Unauthorized", "Unauthorized")


def test_role_counts_in_its_namespace_only(robot: Any, server: ApiServer) -> None:
    grant(server, rule("pods"), ns="bat")
    assert robot("GET", "/api/v1/namespaces/bat/pods")[0] == 200
    assert robot("GET", "/api/v1/namespaces/default/pods")[0] == 403
    assert robot("GET", "/api/v1/pods")[0] == 403


def test_cluster_role_counts_everywhere_and_ends_with_its_binding(robot: Any, server: ApiServer) -> None:
    grant(server, rule("pods"))
    assert robot("GET", "/api/v1/pods")[0] == 200
    server.store.delete(CLUSTERROLEBINDINGS, None, "r")
    assert robot("GET", "/api/v1/pods")[0] == 403


def test_subresources_and_names_are_separate(robot: Any, server: ApiServer) -> None:
    grant(server, rule("configmaps", resourceNames=["mine"], verbs=("get", "update")), rule("*/scale", group="*", verbs=("get",)))
    assert robot("GET", "/api/v1/namespaces/bat/configmaps/mine")[0] == 404
    assert robot("GET", "/api/v1/namespaces/bat/configmaps/other")[0] == 403
    assert robot("GET", "/apis/apps/v1/namespaces/bat/deployments/d/scale")[0] == 404
    assert robot("GET", "/apis/apps/v1/namespaces/bat/deployments/d")[0] == 403


def test_aggregated_roles_collect_by_label(robot: Any, server: ApiServer) -> None:
    selector = {"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}
    server.store.create(
        CLUSTERROLES,
        {
            "metadata": {"name": "kubevirt.io:view", "labels": selector["matchLabels"]},
            "rules": [rule("virtualmachines", group="kubevirt.io")],
        },
    )
    subjects = [{"kind": "ServiceAccount", "name": "robot", "namespace": "bat"}]
    ref = {"kind": "ClusterRole", "name": "edit"}
    server.store.create(ROLEBINDINGS, {"metadata": {"name": "b", "namespace": "bat"}, "roleRef": ref, "subjects": subjects})
    review: Obj = {
        "spec": {"resourceAttributes": {"verb": "list", "group": "kubevirt.io", "resource": "virtualmachines", "namespace": "bat"}}
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert robot("POST", path, review)[1]["status"] == {"allowed": True}
    review["spec"]["resourceAttributes"]["namespace"] = "default"
    assert robot("POST", path, review)[1]["status"] == {"allowed": False}


def test_subject_access_review_answers_for_others(http: Any, server: ApiServer, robot: Any) -> None:
    grant(server, rule("pods/eviction", verbs=("create",)))
    spec = {
        "user": ROBOT,
        "resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "eviction", "namespace": "x"},
    }
    status, body, _ = http("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    assert (status, body["status"]) == (201, {"allowed": True})


def test_rules_review_and_who_am_i(robot: Any, server: ApiServer) -> None:
    grant(server, rule("pods"))
    _, body, _ = robot("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "bat"}})
    assert {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]} in body["status"]["resourceRules"]
    _, body, _ = robot("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert body["status"]["userInfo"] == {
        "username": ROBOT,
        "groups": ["system:serviceaccounts", "system:serviceaccounts:bat", "system:authenticated"],
    }


def test_token_review(http: Any, server: ApiServer) -> None:
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    _, body, _ = http("POST", path, {"spec": {"token": server.token(ROBOT)}})
    assert body["status"]["user"]["username"] == ROBOT
    assert "authenticated" not in http("POST", path, {"spec": {"token": "x"}})[1]["status"]


def test_impersonation_needs_the_right(http: Any, robot: Any, server: ApiServer) -> None:
    status, body, _ = http("GET", "/api/v1/pods", Impersonate_User=ROBOT)
    assert status == 403
    assert ROBOT in body["message"]
    status, body, _ = robot("GET", "/api/v1/pods", Impersonate_User="admin")
    assert status == 403
    assert (
        body["message"]
        == f'users "admin" is forbidden: User "{ROBOT}" cannot impersonate resource "users" in API group "" at the cluster scope'
    )


def test_audit_log_names_user_verb_and_status(robot: Any, server: ApiServer) -> None:
    robot("GET", "/api/v1/namespaces/bat/pods/p/log", User_Agent="probe/1")
    entry = server.audit.entries[-1]
    assert (entry.verb, entry.key, entry.ns, entry.name, entry.user, entry.user_agent, entry.status) == (
        "get",
        "pods/log",
        "bat",
        "p",
        ROBOT,
        "probe/1",
        403,
    )
    assert entry.bytes > 100
    assert 0 < entry.duration < 1
    assert server.audit.select(resource="pods/log", user=ROBOT) == [entry]
