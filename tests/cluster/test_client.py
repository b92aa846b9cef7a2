"""KubeCluster's requests: paging, selectors, writes, errors in words, discovery, cost."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.cluster.api import (
    Cap,
    ClusterError,
    Denied,
    Edit,
    Forbidden,
    Missing,
    NotServed,
    Presence,
    Refused,
    Unreachable,
    Verb,
)
from fixtures.cluster.client import KubeCluster
from fixtures.cluster.transport import Skew
from fixtures.kube.resources import CONFIGMAPS, CRONJOBS, HYPERCONVERGEDS, KUBEVIRTS, NODES, PODS, VMIS, Resource
from tests.cluster.fake import CUT, Answer, FakeServer, Seen, client, status

KEYS = [
    "kind",
    "items",
    "metadata",
    "versions",
    "groups",
    "version",
    "resources",
    "name",
    "resource",
    "continue",
    "code",
    "details",
]
PODS_PATH = "/api/v1/namespaces/demo/pods"


def pod(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "demo", **meta}}


def test_lists_are_paged_and_items_get_their_kind(server: FakeServer, cluster: KubeCluster) -> None:
    def pages(seen: Seen) -> dict[str, Any]:
        at = int(seen.query.get("continue", "0"))
        meta = {"resourceVersion": "7", "continue": str(at + 1) if at < 2 else ""}
        return {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": [pod(f"p{at}")]}

    server.on("GET", PODS_PATH, pages)
    found = cluster.list(PODS, ns="demo", labels="app in (a,b)", fields="spec.nodeName=n1")
    assert [p["metadata"]["name"] for p in found] == ["p0", "p1", "p2"]
    assert (found[0]["kind"], found[0]["apiVersion"]) == ("Pod", "v1")
    first = server.requests[0]
    assert first.query["limit"] == "500"
    assert (first.query["labelSelector"], first.query["fieldSelector"]) == ("app in (a,b)", "spec.nodeName=n1")
    assert cluster.cost.requests == 3
    assert cluster.cost.bytes > 300


def test_a_list_begins_again_when_its_token_expired(server: FakeServer, cluster: KubeCluster) -> None:
    def pages(seen: Seen) -> Any:
        if seen.query.get("continue") == "old":
            return status(410, "Expired", "The provided continue parameter is too old")
        token = "old" if len(server.requests) == 1 else ""
        return {"kind": "PodList", "metadata": {"continue": token}, "items": [pod("p")]}

    server.on("GET", PODS_PATH, pages)
    assert len(cluster.list(PODS, ns="demo")) == 1
    assert len(server.requests) == 3


def test_every_request_says_who_asks(server: FakeServer, cluster: KubeCluster) -> None:
    server.on("GET", PODS_PATH, {"items": []})
    cluster.asking = "POL-2"
    cluster.list(PODS, ns="demo")
    headers = server.requests[0].headers
    assert headers["User-Agent"].startswith("vm-rebalance-conformance/")
    assert headers["User-Agent"].endswith(" (POL-2)")
    assert headers["Authorization"] == "Bearer secret-token"


def test_404_tells_the_object_from_the_resource(server: FakeServer, cluster: KubeCluster) -> None:
    missing = status(404, "NotFound", 'pods "gone" not found', name="gone", kind="pods")
    server.on("GET", f"{PODS_PATH}/gone", missing)
    with pytest.raises(Missing, match=r'get pods demo/gone at tester@http://127.0.0.1:\d+: pods "gone" not found'):
        cluster.get(PODS, "gone", ns="demo")
    with pytest.raises(NotServed, match=r"does not serve kubevirts.kubevirt.io in kubevirt.io/v1"):
        cluster.list(KUBEVIRTS)
    with pytest.raises(NotServed):
        cluster.get(KUBEVIRTS, "kubevirt", ns="kubevirt")


def test_denied_names_account_verb_and_resource(server: FakeServer, cluster: KubeCluster) -> None:
    text = 'nodes is forbidden: User "eve" cannot list resource "nodes" in API group "" at the cluster scope'
    server.on("GET", "/api/v1/nodes", status(403, "Forbidden", text, kind="nodes"))
    with pytest.raises(Denied) as caught:
        cluster.list(NODES)
    assert "list nodes at tester@" in str(caught.value)
    assert text in str(caught.value)
    assert "grant the account 'list' on nodes" in str(caught.value)
    server.on("GET", "/api/v1/nodes", status(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(Denied, match="log in again"):
        cluster.list(NODES)


def test_other_refusals_are_data(server: FakeServer, cluster: KubeCluster) -> None:
    body = 'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: Eviction triggered evacuation'
    server.on("POST", f"{PODS_PATH}/virt-launcher-a/eviction", status(429, "", body))
    with pytest.raises(Refused) as caught:
        cluster.change(Edit(Verb.EVICT, PODS, "virt-launcher-a", "demo"))
    assert (caught.value.code, caught.value.reason, caught.value.message) == (429, "", body)
    assert caught.value.body["status"] == "Failure"
    assert str(caught.value) == f"429: {body}"


def test_reads_survive_a_short_trouble_and_tell_a_long_one(server: FakeServer, cluster: KubeCluster) -> None:
    answers: list[Any] = [status(500, "InternalError", "etcd leader changed"), Answer(CUT), {"items": []}]
    server.on("GET", PODS_PATH, lambda _: answers.pop(0))
    assert cluster.list(PODS, ns="demo") == []
    server.on("GET", PODS_PATH, status(500, "InternalError", "etcd is down"))
    with pytest.raises(Refused, match="500 InternalError: etcd is down"):
        cluster.list(PODS, ns="demo")


def test_retry_after_is_honoured_when_short(server: FakeServer, cluster: KubeCluster) -> None:
    busy = status(429, "TooManyRequests", "the server is busy")
    answers = [Answer(busy.body, 429, [("Retry-After", "0")]), Answer({"items": []})]
    server.on("GET", PODS_PATH, lambda _: answers.pop(0))
    assert cluster.list(PODS, ns="demo") == []
    server.on("GET", PODS_PATH, Answer(busy.body, 429, [("Retry-After", "3600")]))
    with pytest.raises(Refused, match="429"):
        cluster.list(PODS, ns="demo")


def test_a_write_is_never_sent_twice(server: FakeServer, cluster: KubeCluster) -> None:
    server.on("POST", "/api/v1/namespaces/demo/configmaps", Answer(CUT))
    with pytest.raises(Unreachable, match="unknown whether the change was made"):
        cluster.change(Edit(Verb.CREATE, CONFIGMAPS, "a", "demo", body={"metadata": {"name": "a"}}))
    assert len(server.requests) == 1


def test_nobody_listens(server: FakeServer) -> None:
    url = server.url
    server.stop()
    cluster = client(url)
    started = time.monotonic()
    with pytest.raises(Unreachable) as caught:
        cluster.list(PODS)
    assert time.monotonic() - started < 10
    assert f"no answer from tester@{url} to GET /api/v1/pods: connection refused." in str(caught.value)
    assert "kubeconfig" in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer("<html>log in</html>", 200, [("Content-Type", "text/html")]), "text/html that is no JSON"),
        (Answer([1]), "with list, wanted an object: is it an API server"),
        (Answer({"items": 3}), "items is int"),
        (Answer("", 302, [("Location", "http://127.0.0.1:1/")]), "redirected .302. to http://127.0.0.1:1/"),
    ],
)
def test_an_answer_of_something_else_is_told(server: FakeServer, cluster: KubeCluster, answer: Answer, says: str) -> None:
    server.on("GET", PODS_PATH, answer)
    with pytest.raises(ClusterError, match=says):
        cluster.list(PODS, ns="demo")


@pytest.mark.parametrize("name", ["", ".", "..", "../nodes", "a/b", "a?b", "a b", "é"])
def test_what_is_no_name_is_not_requested(server: FakeServer, cluster: KubeCluster, name: str) -> None:
    with pytest.raises(ClusterError, match=r"no object name|no name given"):
        cluster.get(PODS, name, ns="demo")
    with pytest.raises(ClusterError, match=r"no object name|no name given"):
        cluster.change(Edit(Verb.DELETE, PODS, name, "demo"))
    assert server.requests == []


def test_each_verb_on_the_wire(server: FakeServer, cluster: KubeCluster) -> None:
    path = "/api/v1/namespaces/demo/configmaps"
    for method, at in (("POST", path), ("PUT", f"{path}/a"), ("PATCH", f"{path}/a"), ("DELETE", f"{path}/a")):
        server.on(method, at, {"kind": "ConfigMap"})
    body = {"metadata": {"name": "a"}, "data": {"k": "v"}}
    cluster.change(Edit(Verb.CREATE, CONFIGMAPS, "a", "demo", body=body))
    cluster.change(Edit(Verb.REPLACE, CONFIGMAPS, "a", "demo", body=body))
    cluster.change(Edit(Verb.MERGE, CONFIGMAPS, "a", "demo", body={"data": None}))
    cluster.change(Edit(Verb.JSON, CONFIGMAPS, "a", "demo", body=[{"op": "remove", "path": "/data"}], dry_run=True))
    cluster.change(Edit(Verb.DELETE, CONFIGMAPS, "a", "demo", body={"preconditions": {"uid": "u"}}))
    create, replace, merge, json_patch, delete = server.requests
    assert create.body == {"apiVersion": "v1", "kind": "ConfigMap", **body}
    assert (replace.method, replace.path, create.query) == ("PUT", f"{path}/a", {"fieldManager": "vm-rebalance-conformance"})
    assert (merge.headers["Content-Type"], merge.body) == ("application/merge-patch+json", {"data": None})
    assert (json_patch.headers["Content-Type"], json_patch.query["dryRun"]) == ("application/json-patch+json", "All")
    assert delete.body == {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}}


def test_a_dry_run_eviction_says_so_twice(server: FakeServer, cluster: KubeCluster) -> None:
    server.on("POST", f"{PODS_PATH}/p/eviction", {"kind": "Status", "status": "Success"})
    annotations = {"requested-by": "sigs.k8s.io/descheduler"}
    body = {"metadata": {"annotations": annotations}, "deleteOptions": {"gracePeriodSeconds": 0}}
    cluster.change(Edit(Verb.EVICT, PODS, "p", "demo", body=body, dry_run=True))
    sent = server.requests[0]
    assert sent.query["dryRun"] == "All"
    assert sent.body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"annotations": annotations, "name": "p", "namespace": "demo"},
        "deleteOptions": {"gracePeriodSeconds": 0, "dryRun": ["All"]},
    }


def test_subresources_of_virt_api_are_reached(server: FakeServer, cluster: KubeCluster) -> None:
    actions = Resource("subresources.kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance")
    path = "/apis/subresources.kubevirt.io/v1/namespaces/demo/virtualmachineinstances/vm/evacuate/cancel"
    server.on("PUT", path, Answer("", 202))
    assert cluster.change(Edit(Verb.REPLACE, actions, "vm", "demo", body={}, subresource="evacuate/cancel")) == {}
    assert server.requests[0].headers["Accept"] == "application/json, */*"
    assert server.requests[0].body == {}


def test_warnings_of_the_last_change_are_kept(server: FakeServer, cluster: KubeCluster) -> None:
    path = "/api/v1/namespaces/descheduler/configmaps/descheduler"
    text = "The operation is allowed, and ResourcePatch rp-x7k2p is created"
    headers = [("Warning", f'299 - "{text}"'), ("Warning", '299 - "a \\"second\\" one"')]
    server.on("PATCH", path, Answer({"kind": "ConfigMap"}, 200, headers))
    edit = Edit(Verb.MERGE, CONFIGMAPS, "descheduler", "descheduler", body={})
    cluster.change(edit)
    assert cluster.warnings == [text, 'a "second" one']
    server.on("PATCH", path, {"kind": "ConfigMap"})
    cluster.change(edit)
    assert cluster.warnings == []


class Notes:
    def __init__(self, server: FakeServer, *, forbids: bool = False) -> None:
        self.server, self.forbids = server, forbids
        self.told: list[tuple[Edit, Any, int]] = []

    def before(self, edit: Edit, current: Any) -> None:
        self.told.append((edit, current, len(self.server.asked("PATCH", PATCHED))))
        if self.forbids:
            raise OSError("disk full")


PATCHED = "/apis/batch/v1/namespaces/descheduler/cronjobs/descheduler"
SUSPEND = Edit(Verb.MERGE, CRONJOBS, "descheduler", "descheduler", body={"spec": {"suspend": True}}, shared=True)


def test_shared_edits_are_journaled_before_they_are_made(server: FakeServer, cluster: KubeCluster) -> None:
    server.on("GET", PATCHED, {"spec": {"suspend": False}})
    server.on("PATCH", PATCHED, {"spec": {"suspend": True}})
    cluster.journal = notes = Notes(server)
    assert cluster.change(SUSPEND) == {"spec": {"suspend": True}}
    assert notes.told == [(SUSPEND, {"spec": {"suspend": False}}, 0)]


def test_without_a_journal_entry_nothing_shared_is_changed(server: FakeServer, cluster: KubeCluster) -> None:
    with pytest.raises(Forbidden, match="no journal"):
        cluster.change(SUSPEND)
    server.on("GET", PATCHED, {"spec": {}})
    cluster.journal = Notes(server, forbids=True)
    with pytest.raises(OSError, match="disk full"):
        cluster.change(SUSPEND)
    assert server.asked("PATCH", PATCHED) == []


def test_a_read_only_run_cannot_write(server: FakeServer) -> None:
    cluster = client(server.url, can=frozenset({Cap.READ}))
    with pytest.raises(Forbidden, match="--allow"):
        cluster.change(Edit(Verb.DELETE, PODS, "p", "demo"))
    with pytest.raises(Forbidden, match="dry-run"):
        cluster.change(Edit(Verb.DELETE, PODS, "p", "demo", dry_run=True))
    assert server.requests == []
    cluster.close()


def test_can_i_asks_the_api_server(server: FakeServer, cluster: KubeCluster) -> None:
    server.on("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"status": {"allowed": True}})
    assert cluster.can_i("create", PODS, ns="demo", subresource="eviction")
    wanted = {"verb": "create", "group": "", "resource": "pods", "version": "v1", "namespace": "demo", "subresource": "eviction"}
    assert server.requests[0].body["spec"]["resourceAttributes"] == wanted


def test_logs_are_bounded(server: FakeServer, cluster: KubeCluster) -> None:
    server.on("GET", f"{PODS_PATH}/p/log", Answer("line\n"))
    assert cluster.log("demo", "p", container="descheduler", tail=200) == "line\n"
    assert server.requests[0].query == {"container": "descheduler", "tailLines": "200", "limitBytes": str(16 << 20)}


def aggregated(server: FakeServer, **groups: dict[str, list[str]]) -> None:
    def items(core: bool) -> list[dict[str, Any]]:
        return [
            {
                "metadata": {"name": "" if g == "core" else g.replace("_", ".")},
                "versions": [{"version": v, "resources": [{"resource": r} for r in plurals]} for v, plurals in versions.items()],
            }
            for g, versions in groups.items()
            if (g == "core") == core
        ]

    for root, core in (("/api", True), ("/apis", False)):
        server.on("GET", root, {"kind": "APIGroupDiscoveryList", "items": items(core)})


def test_aggregated_discovery_takes_two_requests(server: FakeServer, cluster: KubeCluster) -> None:
    groups = {"kubevirt_io": {"v1": ["kubevirts"], "v1alpha3": ["kubevirts"]}, "hco_kubevirt_io": {"v1beta1": ["hyperconvergeds"]}}
    aggregated(server, core={"v1": ["pods"]}, **groups)
    assert cluster.serves(PODS)
    assert cluster.serves(KUBEVIRTS)
    assert cluster.serves(HYPERCONVERGEDS)
    assert not cluster.serves(HYPERCONVERGEDS.at("v1"))
    assert not cluster.serves(VMIS)
    found = cluster.probe("kubevirts.kubevirt.io")
    assert found
    assert "lists kubevirts in kubevirt.io/v1, v1alpha3" in found.evidence
    absent = cluster.probe("virtualmachines.kubevirt.io")
    assert (absent.presence, absent.evidence.endswith("lists kubevirt.io/v1, v1alpha3 without virtualmachines")) == (
        Presence.ABSENT,
        True,
    )
    assert "lists no API group operator.openshift.io" in cluster.probe("kubedeschedulers.operator.openshift.io").evidence
    assert len(server.requests) == 2


def test_older_servers_are_asked_group_by_group(server: FakeServer, cluster: KubeCluster) -> None:
    versions = [{"version": "v1alpha3"}, {"version": "v1"}]
    groups = [{"name": "kubevirt.io", "versions": versions, "preferredVersion": {"version": "v1"}}]
    server.on("GET", "/apis", {"kind": "APIGroupList", "groups": groups})
    server.on("GET", "/apis/kubevirt.io/v1", {"resources": [{"name": "kubevirts"}, {"name": "kubevirts/status"}]})
    server.on("GET", "/apis/kubevirt.io/v1alpha3", {"resources": []})
    assert cluster.serves(KUBEVIRTS)
    assert not cluster.serves(KUBEVIRTS.at("v1alpha3"))
    assert cluster.serves(KUBEVIRTS)
    assert len(server.requests) == 3


def test_discovery_that_does_not_tell_is_unknown_not_absent(server: FakeServer, cluster: KubeCluster) -> None:
    server.on("GET", "/apis", status(403, "Forbidden", "forbidden: User cannot get path /apis"))
    probe = cluster.probe("kubevirts.kubevirt.io")
    assert probe.presence is Presence.UNKNOWN
    assert "403" in probe.evidence
    with pytest.raises(Denied):
        cluster.serves(KUBEVIRTS)
    stale = {"version": "v1", "freshness": "Stale", "resources": []}
    server.on(
        "GET", "/apis", {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "kubevirt.io"}, "versions": [stale]}]}
    )
    probe = cluster.probe("kubevirts.kubevirt.io")
    assert probe.presence is Presence.UNKNOWN
    assert "stale" in probe.evidence


def test_the_servers_clock_is_followed(server: FakeServer, cluster: KubeCluster) -> None:
    server.on("GET", "/version", {"gitVersion": "v1.35.0"})
    assert cluster.version() == {"gitVersion": "v1.35.0"}
    assert abs(cluster.now() - time.time()) < 1.5


def test_skew_is_what_all_date_headers_agree_on() -> None:
    skew = Skew()
    date = "Thu, 01 Jan 1970 00:16:40 GMT"  # 1000
    skew.learn(date, 1000.2, 1000.3)
    assert skew.seconds == 0
    skew.learn("nonsense", 0, 0)
    skew.learn(None, 0, 0)
    ahead = Skew()
    ahead.learn(date, 900.0, 900.2)
    assert ahead.seconds == pytest.approx(100.4)
    ahead.learn(date, 899.5, 899.6)
    assert ahead.seconds == pytest.approx((100.4 + 101.0) / 2)
    ahead.learn(date, 1000.2, 1000.3)
    assert ahead.seconds == 0


def test_a_kubeconfig_never_shows_in_messages(server: FakeServer, cluster: KubeCluster, tmp_path: Path) -> None:
    server.on("GET", PODS_PATH, status(500, "InternalError", "boom"))
    with pytest.raises(Refused) as caught:
        cluster.list(PODS, ns="demo")
    assert "secret-token" not in str(caught.value) + cluster.address


def test_a_list_without_end_is_ended(server: FakeServer, cluster: KubeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.cluster.client.MOST_PAGES", 5)
    server.on("GET", PODS_PATH, {"metadata": {"continue": "again"}, "items": []})
    with pytest.raises(ClusterError, match="more than 5 pages"):
        cluster.list(PODS, ns="demo")


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "v1", "APIGroupDiscoveryList", "Status", "apps"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(odd, st.sampled_from([200, 201, 404, 429, 500]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_answer_breaks_the_client(server: FakeServer, cluster: KubeCluster, body: Any, code: int) -> None:
    cluster.served.forget()
    for path in (PODS_PATH, "/api", "/apis"):
        server.on("GET", path, lambda _: Answer(body, code if code != 500 else 501))
    with suppress(ClusterError):
        assert isinstance(cluster.list(PODS, ns="demo"), list)
    with suppress(ClusterError):
        assert isinstance(cluster.serves(PODS), bool)
    assert cluster.probe("deployments.apps").evidence
