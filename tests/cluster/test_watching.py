"""Watches and the one wait: nothing lost, nothing told twice, whatever happens to the connection."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any

import pytest

from fixtures.cluster.api import ClusterError, Denied, NotServed, Refused, Unreachable, WatchEvent
from fixtures.cluster.client import KubeCluster
from fixtures.kube.resources import PODS, VMIMS
from tests.cluster.fake import CUT, END, Answer, FakeServer, Seen, client, status

PATH = "/api/v1/namespaces/demo/pods"


def pod(name: str, rv: int, phase: str = "Running") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "demo", "resourceVersion": str(rv)}, "status": {"phase": phase}}


def event(type_: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": type_, "object": obj}


class Pods:
    """Pods of a fake server: what a list shows, and one feed per watch request."""

    def __init__(self, server: FakeServer, *listed: dict[str, Any], rv: int = 10) -> None:
        self.listed, self.rv = list(listed), rv
        self.feeds: queue.Queue[queue.Queue[Any]] = queue.Queue()
        self.watches: list[Seen] = []
        self.refusals: list[Answer] = []
        server.on("GET", PATH, self.answer)

    def answer(self, seen: Seen) -> Any:
        if seen.query.get("watch") != "true":
            return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": str(self.rv)}, "items": self.listed}
        self.watches.append(seen)
        if self.refusals:
            return self.refusals.pop(0)
        feed: queue.Queue[Any] = queue.Queue()
        self.feeds.put(feed)
        return feed

    def stream(self) -> queue.Queue[Any]:
        return self.feeds.get(timeout=5)


def names(cluster: KubeCluster, watch: Any, wanted: set[str]) -> None:
    seen = cluster.until(
        lambda: True if {p["metadata"]["name"] for p in watch.objects} == wanted else None,
        watching=[watch],
        within=5,
        doing="pods",
    )
    assert seen, [p["metadata"]["name"] for p in watch.objects]


def told(watch: Any) -> list[tuple[str, str]]:
    return [(e.type, e.object["metadata"]["name"]) for e in watch.events]


def test_a_watch_starts_with_the_list(server: FakeServer, cluster: KubeCluster) -> None:
    pods = Pods(server, pod("a", 3), pod("b", 4))
    watch = cluster.watch(PODS, ns="demo", labels="app=x")
    assert told(watch) == [("ADDED", "a"), ("ADDED", "b")]
    assert watch.objects[0]["kind"] == "Pod"
    feed = pods.stream()
    assert pods.watches[0].query["resourceVersion"] == "10"
    assert pods.watches[0].query["labelSelector"] == "app=x"
    feed.put(event("DELETED", pod("a", 11)))
    names(cluster, watch, {"b"})
    feed.put(END)


def test_goals_see_every_state_in_order(server: FakeServer, cluster: KubeCluster) -> None:
    pods = Pods(server)
    watch = cluster.watch(PODS, ns="demo")
    feed = pods.stream()
    for rv, phase in enumerate(("Pending", "Running", "Succeeded"), start=11):
        feed.put(event("MODIFIED" if rv > 11 else "ADDED", pod("a", rv, phase)))
    phases: list[str] = []

    def passed_by() -> str | None:
        phases.extend(p["status"]["phase"] for p in watch.objects)
        return "done" if phases[-1:] == ["Running"] else None

    seen = cluster.until(passed_by, watching=[watch], within=5, doing="Running")
    assert seen.value == "done"
    assert phases == ["Pending", "Running"]
    assert seen.last is not None
    assert seen.last.object["status"]["phase"] == "Running"
    assert cluster.until(lambda: len(watch.events) == 3 or None, watching=[watch], within=5, doing="rest")
    feed.put(END)


def test_a_wait_wakes_up_at_once(server: FakeServer, cluster: KubeCluster) -> None:
    pods = Pods(server)
    watch = cluster.watch(PODS, ns="demo")
    feed = pods.stream()
    timer = threading.Timer(0.1, lambda: feed.put(event("ADDED", pod("a", 11))))
    timer.start()
    sent_at: list[float] = []
    seen = cluster.until(
        lambda: sent_at.append(time.monotonic()) or (watch.objects or None),  # type: ignore[func-returns-value]
        watching=[watch],
        within=5,
        doing="a pod",
    )
    assert seen
    assert 0.05 <= seen.waited < 1
    assert len(sent_at) == 2
    timer.join()
    feed.put(END)


def test_a_goal_not_reached_is_told_after_the_limit(server: FakeServer) -> None:
    slow = client(server.url, timeout_scale=2.0)
    pods = Pods(server, pod("a", 3))
    shown: list[tuple[str, float, float]] = []
    slow.progress = lambda *args: shown.append(args)
    watch = slow.watch(PODS, ns="demo")
    feed = pods.stream()
    seen = slow.until(lambda: None, watching=[watch], within=0.25, doing="the impossible")
    assert not seen
    assert 0.5 <= seen.waited < 2
    assert seen.last is not None
    assert seen.last.type == "ADDED"
    assert 1 <= len(shown) <= 4
    assert shown[0][0] == "the impossible"
    assert shown[0][2] == 0.5
    feed.put(END)
    slow.close()


@pytest.mark.parametrize("ending", [END, CUT])
def test_a_dropped_watch_resumes_where_it_was(server: FakeServer, cluster: KubeCluster, ending: object) -> None:
    pods = Pods(server, pod("a", 3))
    watch = cluster.watch(PODS, ns="demo")
    feed = pods.stream()
    feed.put(event("ADDED", pod("b", 12)))
    feed.put(event("BOOKMARK", {"metadata": {"resourceVersion": "20"}}))
    feed.put(ending)
    again = pods.stream()
    assert pods.watches[1].query["resourceVersion"] == "20"
    again.put(event("ADDED", pod("c", 21)))
    names(cluster, watch, {"a", "b", "c"})
    assert told(watch) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    again.put(END)


@pytest.mark.parametrize("how", ["event", "status"])
def test_a_forgotten_version_is_listed_again_and_only_the_difference_told(
    server: FakeServer, cluster: KubeCluster, how: str
) -> None:
    pods = Pods(server, pod("same", 3), pod("changes", 4), pod("goes", 5))
    watch = cluster.watch(PODS, ns="demo")
    feed = pods.stream()
    pods.listed, pods.rv = [pod("same", 3), pod("changes", 30), pod("comes", 31)], 40
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    if how == "event":
        feed.put(event("ERROR", gone))
    else:
        pods.refusals.append(Answer(gone, 410))
        feed.put(END)
    again = pods.stream()
    names(cluster, watch, {"same", "changes", "comes"})
    assert told(watch)[3:] == [("DELETED", "goes"), ("MODIFIED", "changes"), ("ADDED", "comes")]
    assert pods.watches[-1].query["resourceVersion"] == "40"
    again.put(END)


def test_short_trouble_is_survived(server: FakeServer, cluster: KubeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.cluster.watching.LONGEST_BACKOFF", 0.1)
    pods = Pods(server)
    watch = cluster.watch(PODS, ns="demo")
    feed = pods.stream()
    pods.refusals += [status(500, "InternalError", "boom"), status(429, "TooManyRequests", "busy"), Answer("{\n", 200), Answer(CUT)]
    feed.put(END)
    feed = pods.stream()
    feed.put(event("ERROR", {"kind": "Status", "code": 500, "message": "decoder"}))
    feed = pods.stream()
    feed.put(event("ADDED", pod("a", 11)))
    names(cluster, watch, {"a"})
    assert len(pods.watches) == 7
    feed.put(END)


def test_a_watch_that_stays_down_is_told_instead_of_nothing_happened(server: FakeServer, cluster: KubeCluster) -> None:
    pods = Pods(server)
    watch = cluster.watch(PODS, ns="demo")
    feed = pods.stream()
    pods.refusals += [status(500, "InternalError", "boom")] * 50
    feed.put(END)
    with pytest.raises(Refused, match="boom"):
        cluster.until(lambda: None, watching=[watch], within=0.5, doing="anything")


def test_losing_the_right_to_watch_ends_the_wait_at_once(server: FakeServer, cluster: KubeCluster) -> None:
    pods = Pods(server)
    watch = cluster.watch(PODS, ns="demo")
    text = 'pods is forbidden: User "t" cannot watch resource "pods"'
    feed = pods.stream()
    pods.refusals += [status(403, "Forbidden", text)]
    feed.put(END)
    with pytest.raises(Denied, match="watch pods in namespace demo"):
        cluster.until(lambda: None, watching=[watch], within=30, doing="anything")


def test_the_server_goes_away(server: FakeServer, cluster: KubeCluster) -> None:
    pods = Pods(server)
    watch = cluster.watch(PODS, ns="demo")
    feed = pods.stream()
    pods.refusals += [Answer(CUT)] * 50
    feed.put(CUT)
    with pytest.raises(Unreachable, match="no answer from tester@"):
        cluster.until(lambda: None, watching=[watch], within=0.5, doing="anything")


def test_what_is_not_served_or_denied_fails_when_the_watch_is_made(server: FakeServer, cluster: KubeCluster) -> None:
    with pytest.raises(NotServed):
        cluster.watch(VMIMS, ns="demo")
    server.on("GET", PATH, status(403, "Forbidden", "no"))
    with pytest.raises(Denied):
        cluster.watch(PODS, ns="demo")


def test_an_event_beyond_reason_is_told(server: FakeServer, cluster: KubeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.cluster.watching._LONGEST_LINE", 1000)
    pods = Pods(server)
    watch = cluster.watch(PODS, ns="demo")
    feed = pods.stream()
    server.on("GET", PATH, lambda _: Answer("x" * 5000))
    feed.put(END)
    with pytest.raises(ClusterError, match="refused to read on"):
        cluster.until(lambda: None, watching=[watch], within=0.4, doing="anything")


def test_closing_ends_threads_at_once(server: FakeServer, cluster: KubeCluster) -> None:
    pods = Pods(server)
    watch = cluster.watch(PODS, ns="demo")
    pods.stream()
    started = time.monotonic()
    cluster.close()
    assert time.monotonic() - started < 2
    assert not [t for t in threading.enumerate() if t.name == "watch-pods" and t.is_alive()]
    assert isinstance(watch.events, list)


def test_two_watches_share_one_wait(server: FakeServer, cluster: KubeCluster) -> None:
    pods = Pods(server)
    first, second = cluster.watch(PODS, ns="demo"), cluster.watch(PODS, ns="demo")
    feeds = [pods.stream(), pods.stream()]
    for feed in feeds:
        feed.put(event("ADDED", pod("a", 11)))
    assert cluster.until(lambda: (first.objects and second.objects) or None, watching=[first, second], within=5, doing="both")
    seen: list[WatchEvent] = [*first.events, *second.events]
    assert len(seen) == 2
    for feed in feeds:
        feed.put(END)


def test_elapse_shows_progress(cluster: KubeCluster) -> None:
    shown: list[str] = []
    cluster.progress = lambda doing, *_: shown.append(doing)
    started = time.monotonic()
    cluster.elapse(0.3)
    assert 0.3 <= time.monotonic() - started < 1
    assert 1 <= len(shown) <= 3
