"""ACP: edits of chart-managed objects become ResourcePatches; the global cluster."""

from __future__ import annotations

import re
from collections.abc import Callable

from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.embedded.controllers.acp import CHART_USER, difference
from fixtures.embedded.installed.descheduler import default_policy
from fixtures.kube.objects import name
from fixtures.kube.resources import CONFIGMAPS, CRONJOBS, MODULEINFOS, RESOURCEPATCHES, Obj
from tests.embedded.controllers.web import Reply, Web

Start = Callable[..., EmbeddedCluster]
NS = "descheduler"
WARNING = re.compile(r'299 - "The operation is allowed, and ResourcePatch (rp-[a-z0-9]{5}) is created"')


def edit_policy(web: Web, text: str, **more: bool) -> Reply:
    return web.merge(CONFIGMAPS, NS, "descheduler", {"data": {"policy.yaml": text}}, **more)


def policy(web: Web) -> str:
    return str(web.get(CONFIGMAPS, NS, "descheduler")["data"]["policy.yaml"])


def patches(web: Web) -> list[Obj]:
    return web.list(RESOURCEPATCHES, NS)


def test_an_edit_is_allowed_recorded_and_survives_reconciliation(embedded: Start) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    reply = edit_policy(web, "edited: 1\n")
    assert reply.code == 200
    found = [WARNING.fullmatch(w) for w in reply.warnings]
    (patch,) = patches(web)
    assert [m[1] for m in found if m] == [name(patch)]
    assert patch["metadata"]["finalizers"] == ["resourcepatch"]
    assert patch["spec"] == {
        "jsonPatch": [{"op": "replace", "path": "/data/policy.yaml", "value": "edited: 1\n"}],
        "release": "descheduler/descheduler",
        "target": {"apiVersion": "v1", "kind": "ConfigMap", "name": "descheduler", "namespace": NS},
    }
    assert patch["status"]["phase"] == "Active"
    cluster.clock.advance(300)
    assert policy(web) == "edited: 1\n"


def test_deleting_the_patch_restores_the_chart_s_policy_within_seconds(embedded: Start) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    edit_policy(web, "edited: 1\n")
    (patch,) = patches(web)
    assert web.request("DELETE", RESOURCEPATCHES.path(NS, name(patch))).code == 200
    assert policy(web) == "edited: 1\n"
    cluster.clock.advance(5)
    assert policy(web) == default_policy(cluster.versions.descheduler)
    assert patches(web) == []


def test_putting_the_backup_back_ends_the_patch(embedded: Start) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    backup = policy(web)
    edit_policy(web, "edited: 1\n")
    edit_policy(web, "edited: 2\n")
    (patch,) = patches(web)
    assert patch["spec"]["jsonPatch"][0]["value"] == "edited: 2\n"
    edit_policy(web, backup)
    assert patches(web) == []
    cluster.clock.advance(300)
    assert policy(web) == backup


def test_suspending_the_cron_job_is_one_small_patch(embedded: Start) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    web.merge(CRONJOBS, NS, "descheduler", {"spec": {"suspend": True}})
    (patch,) = patches(web)
    assert patch["spec"]["jsonPatch"] == [{"op": "replace", "path": "/spec/suspend", "value": True}]
    cluster.clock.advance(130)
    assert web.get(CRONJOBS, NS, "descheduler")["spec"]["suspend"] is True


def test_dry_runs_the_chart_itself_and_unmanaged_objects_leave_no_patch(embedded: Start) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    assert WARNING.fullmatch(edit_policy(web, "edited: 1\n", dry_run=True).warnings[0])
    chart = Web(cluster.server, CHART_USER)
    chart.token = cluster.server.token(CHART_USER, ("system:masters",))
    assert edit_policy(chart, "upgraded: 1\n").warnings == []
    web.request("POST", CONFIGMAPS.path(NS), {"metadata": {"name": "mine"}, "data": {"a": "1"}})
    assert web.merge(CONFIGMAPS, NS, "mine", {"data": {"a": "2"}}).warnings == []
    assert patches(web) == []


def test_what_drifts_behind_the_api_s_back_is_put_back(embedded: Start) -> None:
    cluster = embedded()
    cluster.store.edit(CONFIGMAPS, NS, "descheduler", lambda c: c.update(data={"policy.yaml": "drift"}))
    cluster.clock.advance(3)
    assert policy(Web(cluster.server)) == default_policy(cluster.versions.descheduler)


def test_a_patch_made_by_hand_is_applied_and_one_that_does_not_fit_is_told(embedded: Start) -> None:
    cluster = embedded()
    web = Web(cluster.server)
    target = {"apiVersion": "v1", "kind": "ConfigMap", "name": "descheduler", "namespace": NS}
    body: Obj = {"apiVersion": RESOURCEPATCHES.api_version, "kind": "ResourcePatch", "metadata": {"name": "by-hand"}}
    body["spec"] = {"release": "descheduler/descheduler", "target": target}
    body["spec"]["jsonPatch"] = [{"op": "add", "path": "/data/extra", "value": "1"}]
    web.request("POST", RESOURCEPATCHES.path(NS), body)
    body["metadata"]["name"], body["spec"]["jsonPatch"] = "wrong", [{"op": "remove", "path": "/data/none/such"}]
    web.request("POST", RESOURCEPATCHES.path(NS), body)
    cluster.clock.advance(5)
    assert web.get(CONFIGMAPS, NS, "descheduler")["data"]["extra"] == "1"
    by_name = {name(p): p["status"] for p in patches(web)}
    assert by_name["by-hand"]["phase"] == "Active"
    assert by_name["wrong"]["message"]


def test_only_the_global_cluster_serves_module_info(embedded: Start) -> None:
    cluster = embedded()
    assert cluster.global_server is not None
    (module,) = Web(cluster.global_server).list(MODULEINFOS)
    assert module["metadata"]["labels"]["cpaas.io/module-name"] == "descheduler"
    assert (module["spec"]["version"], module["status"]["phase"]) == ("v0.36.0-5", "Running")
    assert Web(cluster.server).request("GET", MODULEINFOS.path()).code == 404
    cluster.clock.advance(60)
    assert len(Web(cluster.global_server).list(MODULEINFOS)) == 1


def test_differences_are_escaped_and_minimal() -> None:
    old = {"a": {"x/y": 1, "gone": 2}, "l": [1]}
    new = {"a": {"x/y": 3, "~n": 4}, "l": [1, 2]}
    assert difference(old, new) == [
        {"op": "replace", "path": "/a/x~1y", "value": 3},
        {"op": "remove", "path": "/a/gone"},
        {"op": "add", "path": "/a/~0n", "value": 4},
        {"op": "replace", "path": "/l", "value": [1, 2]},
    ]
