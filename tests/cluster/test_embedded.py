"""The embedded cluster under test: waits drive virtual time, see every event in order, and never sleep."""

from __future__ import annotations

import stat
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from fixtures.cluster.api import Denied, Edit, Missing, NotServed, Presence, Refused, Unreachable, Verb
from fixtures.cluster.embedded import HOLD_PACE, EmbeddedUnderTest, start_embedded
from fixtures.embedded import errors
from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.embedded_spec import EmbeddedSpec, spec_of
from fixtures.kube.objects import dig, is_true, name
from fixtures.kube.resources import (
    CONFIGMAPS,
    CRONJOBS,
    HYPERCONVERGEDS,
    JOBS,
    KUBEVIRTS,
    MODULEINFOS,
    NAMESPACES,
    NODES,
    PODS,
    VMIS,
)
from fixtures.options import Settings, UsageError


@pytest.fixture(scope="module")
def world() -> Iterator[EmbeddedUnderTest]:
    """A whole cluster; tests leave it as they found it but for time."""
    cluster = start_embedded(Settings())
    yield cluster
    cluster.close()


@pytest.fixture
def bare() -> Iterator[EmbeddedUnderTest]:
    cluster = EmbeddedUnderTest(EmbeddedCluster(controllers=()))
    cluster.change(Edit(Verb.CREATE, NAMESPACES, "demo", body={"metadata": {"name": "demo"}}))
    yield cluster
    cluster.close()


def configmap(name: str, **data: str) -> Edit:
    return Edit(Verb.CREATE, CONFIGMAPS, name, "demo", body={"metadata": {"name": name}, "data": data})


def ready(job: dict[str, Any]) -> bool:
    return is_true(job, "Complete") or is_true(job, "SuccessCriteriaMet")


def test_a_scheduled_job_runs_in_virtual_time(world: EmbeddedUnderTest) -> None:
    jobs = world.watch(JOBS, ns="descheduler")
    started, known = time.monotonic(), len(jobs.objects)
    seen = world.until(
        lambda: next((j for j in jobs.objects[known:] if ready(j)), None), watching=[jobs], within=300, doing="a run"
    )
    assert seen.value is not None
    assert 0 < seen.waited < 150
    assert time.monotonic() - started < 10
    pods = world.list(PODS, ns="descheduler", labels=f"job-name={name(seen.value)}")
    assert "evictionRequests=0" in world.log("descheduler", name(pods[0]))
    jobs.close()


def test_what_does_not_happen_costs_no_time(bare: EmbeddedUnderTest) -> None:
    watch = bare.watch(CONFIGMAPS, ns="demo")
    started, before = time.monotonic(), bare.now()
    seen = bare.until(lambda: None, watching=[watch], within=86_400, doing="the impossible")
    assert (seen.value, seen.waited) == (None, 86_400)
    assert bare.now() == before + 86_400
    assert time.monotonic() - started < 2


def test_elapse_moves_the_clock_exactly(bare: EmbeddedUnderTest) -> None:
    happened: list[float] = []
    before = bare.now()
    bare.world.clock.later(30, lambda: happened.append(bare.now()))
    bare.elapse(59.5)
    assert happened == [before + 30]
    assert bare.now() == before + 59.5


def test_time_stands_still_outside_of_waits(world: EmbeddedUnderTest) -> None:
    before = world.now()
    world.list(PODS)
    assert world.now() == before


def test_a_change_is_seen_by_the_first_question(bare: EmbeddedUnderTest) -> None:
    watch = bare.watch(CONFIGMAPS, ns="demo", labels="app=x")
    for i in range(20):
        edit = Edit(Verb.CREATE, CONFIGMAPS, f"c{i}", "demo", body={"metadata": {"name": f"c{i}", "labels": {"app": "x"}}})
        bare.change(edit)
        before = bare.now()
        wanted = i + 1
        assert bare.until(lambda n=wanted: len(watch.objects) == n or None, watching=[watch], within=60, doing="it")  # type: ignore[misc]
        assert bare.now() == before
    bare.change(Edit(Verb.MERGE, CONFIGMAPS, "c3", "demo", body={"metadata": {"labels": {"app": "y"}}}))
    assert bare.until(lambda: len(watch.objects) == 19 or None, watching=[watch], within=60, doing="c3 gone")
    assert watch.events[-1].type == "DELETED"


def test_goals_see_events_of_several_watches_in_the_order_of_the_store(bare: EmbeddedUnderTest) -> None:
    names, clock = ("a", "b", "c"), bare.world.clock
    watches = [bare.watch(CONFIGMAPS, ns="demo", fields=f"metadata.name={n}") for n in names]

    def write_all() -> None:
        for i in range(30):
            found = {"metadata": {"name": names[i % 3], "namespace": "demo"}, "data": {"i": str(i)}}
            if i < 3:
                bare.world.store.create(CONFIGMAPS, found)
            else:
                bare.world.store.edit(CONFIGMAPS, "demo", names[i % 3], lambda o, n=i: o.update(data={"i": str(n)}))  # type: ignore[misc]

    clock.later(5, write_all)
    told: list[int] = []

    def goal() -> bool | None:
        newest = [int(e.object["data"]["i"]) for w in watches for e in w.events[-1:]]
        told.extend([max(newest)] if newest and max(newest) not in told else [])
        return len(told) == 30 or None

    assert bare.until(goal, watching=watches, within=60, doing="thirty writes")
    assert told == list(range(30))


@pytest.mark.parametrize("how", ["dropped", "410", "forgotten"])
def test_watches_survive_what_happens_to_connections(bare: EmbeddedUnderTest, how: str) -> None:
    watch = bare.watch(CONFIGMAPS, ns="demo")
    clock, server = bare.world.clock, bare.world.server

    def write(i: int) -> None:
        bare.world.store.create(CONFIGMAPS, {"metadata": {"name": f"c{i}", "namespace": "demo"}})
        if i % 3 == 0:
            gone = errors.ApiError(410, "too old resource version", reason="Expired") if how == "410" else None
            server.end_watches(error=gone)

    for i in range(10):
        clock.later(i + 1.0, lambda n=i: write(n))  # type: ignore[misc]
    assert bare.until(lambda: len(watch.objects) == 10 or None, watching=[watch], within=60, doing="ten objects")
    assert bare.now() <= clock.now()
    assert [e.object["metadata"]["name"] for e in watch.events] == [f"c{i}" for i in range(10)]


def test_a_watch_that_never_catches_up_is_told(bare: EmbeddedUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.cluster.embedded.CATCH_UP", 0.2)
    watch = bare.watch(CONFIGMAPS, ns="demo")
    watch.close()
    bare.change(configmap("a"))
    with pytest.raises(Unreachable, match="configmaps in namespace demo did not deliver"):
        bare.until(lambda: None, watching=[watch], within=60, doing="anything")


def test_refusals_come_in_the_api_servers_words(bare: EmbeddedUnderTest) -> None:
    bare.change(configmap("a", k="v"))
    with pytest.raises(Refused, match="409 AlreadyExists"):
        bare.change(configmap("a"))
    with pytest.raises(Missing, match='configmaps "b" not found'):
        bare.get(CONFIGMAPS, "b", ns="demo")
    with pytest.raises(Missing, match='namespaces "nowhere" not found'):
        bare.change(Edit(Verb.CREATE, CONFIGMAPS, "a", "nowhere", body={"metadata": {"name": "a"}}))
    with pytest.raises(NotServed, match=r"does not serve kubevirts\.kubevirt\.io"):
        bare.list(KUBEVIRTS)
    stale = {"metadata": {"name": "a", "resourceVersion": "1"}, "data": {}}
    with pytest.raises(Refused) as caught:
        bare.change(Edit(Verb.REPLACE, CONFIGMAPS, "a", "demo", body=stale))
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    with pytest.raises(Refused, match="422 Invalid"):
        bare.change(Edit(Verb.CREATE, CONFIGMAPS, "B_", "demo", body={"metadata": {"name": "B_"}}))


def test_edits_do_what_they_say(bare: EmbeddedUnderTest) -> None:
    bare.change(configmap("a", k="v"))
    merged = bare.change(Edit(Verb.MERGE, CONFIGMAPS, "a", "demo", body={"data": {"k": None, "l": "w"}}))
    assert merged["data"] == {"l": "w"}
    op = {"op": "replace", "path": "/data/l", "value": "x"}
    assert bare.change(Edit(Verb.JSON, CONFIGMAPS, "a", "demo", body=[op], dry_run=True))["data"] == {"l": "x"}
    assert bare.get(CONFIGMAPS, "a", ns="demo")["data"] == {"l": "w"}
    bare.change(Edit(Verb.DELETE, CONFIGMAPS, "a", "demo"))
    with pytest.raises(Missing):
        bare.change(Edit(Verb.DELETE, CONFIGMAPS, "a", "demo"))


def test_a_user_without_rights_is_denied() -> None:
    cluster = EmbeddedUnderTest(EmbeddedCluster(controllers=()), user="eve")
    with pytest.raises(Denied, match='User "eve" cannot list resource "nodes"'):
        cluster.list(NODES)
    assert not cluster.can_i("create", PODS, ns="demo", subresource="eviction")
    assert cluster.address.startswith("eve@https://127.0.0.1:")
    cluster.close()


def test_a_dry_run_eviction_of_a_launcher_marks_nothing(world: EmbeddedUnderTest) -> None:
    launcher = world.list(PODS, labels="kubevirt.io=virt-launcher")[0]
    ns = launcher["metadata"]["namespace"]
    with pytest.raises(Refused) as caught:
        world.change(Edit(Verb.EVICT, PODS, name(launcher), ns, dry_run=True))
    assert caught.value.code == 429
    assert "Eviction triggered evacuation of VMI" in caught.value.message
    assert all(not dig(v, "status", "evacuationNodeName") for v in world.list(VMIS, ns=ns))


def test_discovery_and_the_global_cluster(world: EmbeddedUnderTest) -> None:
    assert world.serves(HYPERCONVERGEDS.at("v1"))
    assert not world.serves(HYPERCONVERGEDS.at("v2"))
    assert world.probe("hyperconvergeds.hco.kubevirt.io")
    assert world.probe("moduleinfoes.cluster.alauda.io").presence is Presence.ABSENT
    assert world.global_cluster is not None
    assert world.global_cluster.list(MODULEINFOS)[0]["status"]["phase"] == "Running"
    path, server = world.global_kubeconfig, world.world.global_server
    assert path is not None
    assert server is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"] == server.url


def test_every_request_carries_product_and_check(world: EmbeddedUnderTest) -> None:
    world.asking = "REN-1"
    world.list(CRONJOBS, ns="descheduler")
    world.asking = ""
    entry = world.world.server.audit.entries[-1]
    assert entry.user_agent.startswith("vm-rebalance-conformance/")
    assert entry.user_agent.endswith("(REN-1)")


def test_upstream_has_no_global_cluster() -> None:
    cluster = start_embedded(Settings(embedded=spec_of(platform="upstream")))
    assert cluster.global_cluster is None
    assert cluster.global_kubeconfig is None
    assert not cluster.probe("hyperconvergeds.hco.kubevirt.io")
    cluster.close()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (Settings(embedded=EmbeddedSpec(kubevirt="7.7.7")), "7.7.7"),
        (Settings(embedded=EmbeddedSpec(platform="moon")), "moon"),
        (Settings(defects=("no-such-defect",)), "no-such-defect"),
        (Settings(faults=("no-such-fault",)), "no-such-fault"),
    ],
)
def test_unknown_versions_and_names_are_usage_errors(settings: Settings, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        start_embedded(settings)


def test_a_kubeconfig_for_a_person_is_private_and_goes_away() -> None:
    cluster = EmbeddedUnderTest(EmbeddedCluster(controllers=()))
    path = cluster.kubeconfig
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"] == cluster.world.server.url
    assert cluster.kubeconfig == path
    cluster.close()
    assert not path.parent.exists()


def test_holding_lets_time_pass_until_released(bare: EmbeddedUnderTest) -> None:
    before = bare.now()
    timer = threading.Timer(0.05, bare.released.set)
    timer.start()
    bare.hold()
    passed = bare.now() - before
    assert 0.04 * HOLD_PACE <= passed < 10 * HOLD_PACE
    assert bare.now() - before == passed
    timer.join()
