"""The eviction subresource answers as recorded from Kubernetes 1.36 with KubeVirt 1.9: bodies, headers, order of checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from fixtures.embedded.ports import AdmissionRequest, ApiError
from fixtures.embedded.server import ApiServer
from fixtures.kube.resources import CLUSTERROLEBINDINGS, PDBS, PODS, Obj

RECORDED = Path(__file__).parent / "responses"
Make = Callable[..., Obj]
DENIAL = 'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: '


def recorded(name: str) -> Obj:
    found: Obj = yaml.safe_load((RECORDED / f"{name}.yaml").read_text())
    return found


def eviction(name: str, **options: Any) -> Obj:
    body: Obj = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "story-l"}}
    return {**body, "deleteOptions": options} if options else body


@pytest.fixture
def evict(api: client.ApiClient, http: Any, server: ApiServer, pod: Make) -> Callable[..., tuple[int, Any, Any]]:
    """Makes a running Pod if there is none, and evicts it."""
    client.CoreV1Api(api).create_namespace({"metadata": {"name": "story-l"}})

    def post(name: str, *, make: bool = True, body: Obj | None = None, query: str = "", via: Any = None, **options: Any) -> Any:
        if make and server.store.get(PODS, "story-l", name) is None:
            server.store.create(
                PODS,
                {
                    **pod(name, {"app": "guarded"}, "n"),
                    "metadata": {"name": name, "namespace": "story-l", "labels": {"app": "guarded"}},
                },
            )
            ready = [{"type": "Ready", "status": "True"}]
            server.store.edit(PODS, "story-l", name, lambda o: o["status"].update(phase="Running", conditions=ready))
        path = f"/api/v1/namespaces/story-l/pods/{name}/eviction{query}"
        return (via or http)("POST", path, body or eviction(name, **options))

    return post


def budget(server: ApiServer, name: str = "guard", *, observed: bool = True, **status: Any) -> None:
    body = {
        "metadata": {"name": name, "namespace": "story-l"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    server.store.create(PDBS, body)
    found = {"observedGeneration": 1, **status} if observed else {}
    server.store.edit(PDBS, "story-l", name, lambda o: o["status"].update(found))


def deny(server: ApiServer, message: str) -> None:
    def hook(review: AdmissionRequest) -> None:
        if review.subresource == "eviction" and review.name.startswith("virt-launcher"):
            assert review.object["kind"] == "Eviction"
            raise ApiError(429, DENIAL + message)

    server.admission.append(hook)


def same(answer: tuple[int, Any, Any], name: str, **replaced: str) -> None:
    """The answer is the recorded one, names aside."""
    wanted = recorded(name)
    text = yaml.safe_dump(wanted["body"])
    for old, new in replaced.items():
        text = text.replace(wanted["body"]["details"][old], new)
    assert answer[0] == wanted["httpStatus"]
    assert answer[1] == yaml.safe_load(text)
    assert answer[2].get("Retry-After") == wanted.get("headers", {}).get("Retry-After")


def test_allowed_eviction(evict: Any, server: ApiServer) -> None:
    same(evict("web-1"), "allowed-201")


def test_body_of_the_beta_version_is_accepted(evict: Any) -> None:
    same(evict("web-1", body={**eviction("web-1"), "apiVersion": "policy/v1beta1"}), "v1beta1-201")


def test_missing_pod(evict: Any) -> None:
    same(evict("virt-launcher-nope", make=False), "not-found-404")


def test_evicted_pod_gets_a_condition_and_then_its_deletion(evict: Any, server: ApiServer) -> None:
    changes: list[tuple[str, Any, Any]] = []
    evict("web-0")
    server.store.subscribe(
        lambda c: changes.append(
            (c.type, c.object["metadata"].get("deletionGracePeriodSeconds"), c.object["status"].get("conditions", [])[-1:])
        )
    )
    evict("web-1", gracePeriodSeconds=7)
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    kinds = [
        (type_, grace, {k: v for k, v in (last or [{}])[0].items() if k != "lastTransitionTime"}) for type_, grace, last in changes
    ]
    assert kinds.index(("MODIFIED", None, target)) < kinds.index(("MODIFIED", 7, target))


def test_completed_pod_goes_at_once_whatever_the_budget(evict: Any, server: ApiServer) -> None:
    evict("web-1", query="?dryRun=All")
    budget(server, disruptionsAllowed=0)
    server.store.edit(PODS, "story-l", "web-1", lambda o: o["status"].update(phase="Succeeded"))
    same(evict("web-1"), "completed-201")
    assert server.store.get(PODS, "story-l", "web-1") is None


def test_settled_budget_without_retry(evict: Any, server: ApiServer) -> None:
    budget(server, disruptionsAllowed=0, desiredHealthy=2, currentHealthy=2)
    same(evict("web-1"), "pdb-429")


def test_unobserved_budget_asks_to_retry(evict: Any, server: ApiServer) -> None:
    budget(server, observed=False)
    same(evict("web-1"), "pdb-percent-on-launchers-429")


def test_budget_is_spent(evict: Any, server: ApiServer) -> None:
    budget(server, disruptionsAllowed=1, desiredHealthy=1, currentHealthy=2)
    assert evict("web-1")[0] == 201
    found = server.store.get(PDBS, "story-l", "guard")
    assert found is not None
    assert found["status"]["disruptionsAllowed"] == 0
    assert list(found["status"]["disruptedPods"]) == ["web-1"]
    assert evict("web-2")[0] == 429


@pytest.mark.provokes(500)
def test_two_budgets_are_an_error(evict: Any, server: ApiServer) -> None:
    budget(server, "one")
    budget(server, "two")
    status, body, _ = evict("web-1")
    assert status == 500
    assert body["message"].startswith("This pod has more than one PodDisruptionBudget")


def test_webhook_denial_has_no_reason_no_details_and_no_retry(evict: Any, server: ApiServer) -> None:
    deny(server, 'Eviction triggered evacuation of VMI "story-l/vm-l"')
    same(evict("virt-launcher-vm-l"), "marked-429")


def test_webhook_speaks_before_budgets_and_preconditions(evict: Any, server: ApiServer) -> None:
    budget(server, disruptionsAllowed=0)
    deny(server, 'Eviction triggered evacuation of VMI "story-l/vm-l"')
    same(evict("virt-launcher-vm-l", preconditions={"uid": "00000000-0000-0000-0000-000000000000"}), "uid-precondition-marked-429")


def test_webhook_is_asked_before_the_pod_is_looked_up(evict: Any, server: ApiServer) -> None:
    deny(server, "x")
    assert evict("virt-launcher-nope", make=False)[0] == 429


def test_wrong_uid_conflicts(evict: Any, server: ApiServer) -> None:
    evict("virt-launcher-vm-none", query="?dryRun=All")
    pod = server.store.get(PODS, "story-l", "virt-launcher-vm-none")
    assert pod is not None
    status, body, _ = evict("virt-launcher-vm-none", preconditions={"uid": "00000000-0000-0000-0000-000000000000"})
    wanted = recorded("uid-precondition-409")["body"]
    text = wanted["message"].replace("virt-launcher-vm-none-x57xl", "virt-launcher-vm-none")
    assert status == 409
    assert body["message"] == text.replace("bafc8a43-1348-4873-8142-3b624b6ea2d1", pod["metadata"]["uid"])
    assert body["details"] == {"name": "virt-launcher-vm-none", "kind": "Pod"}


@pytest.mark.parametrize("how", ["query", "body"])
def test_dry_run_tells_the_hooks_and_changes_nothing(evict: Any, server: ApiServer, how: str) -> None:
    seen: list[bool] = []
    server.admission.append(lambda review: seen.append(review.dry_run))
    options = {"dryRun": ["All"]} if how == "body" else {}
    answer = evict("web-1", query="?dryRun=All" if how == "query" else "", **options)
    same(answer, "allowed-201")
    assert set(seen) == {True}
    pod = server.store.get(PODS, "story-l", "web-1")
    assert pod is not None
    assert "deletionTimestamp" not in pod["metadata"]


def test_forbidden(evict: Any, server: ApiServer, http_as: Any) -> None:
    nobody = http_as(server.token("system:serviceaccount:story-l:nobody"))
    same(evict("virt-launcher-vm-l-82hqr", via=nobody), "forbidden-403")
    subjects = [{"kind": "ServiceAccount", "name": "nobody", "namespace": "story-l"}]
    ref = {"kind": "ClusterRole", "name": "edit"}
    server.store.create(CLUSTERROLEBINDINGS, {"metadata": {"name": "b"}, "roleRef": ref, "subjects": subjects})
    assert evict("virt-launcher-vm-l-82hqr", via=nobody)[0] == 201


@pytest.mark.provokes(500)
@pytest.mark.parametrize("name", ["webhook-down-500", "webhook-timeout-500"])
def test_unreachable_webhook_as_a_hook_would_say_it(evict: Any, server: ApiServer, name: str) -> None:
    wanted = recorded(name)["body"]

    def hook(review: AdmissionRequest) -> None:
        raise ApiError(500, wanted["message"], reason="InternalError", details=wanted["details"])

    server.admission.append(hook)
    same(evict("web-1"), name)


def test_name_in_the_body_must_be_that_of_the_path(evict: Any) -> None:
    status, body, _ = evict("web-1", body=eviction("web-2"))
    assert (status, body["message"]) == (400, "name in URL does not match name in Eviction object")
