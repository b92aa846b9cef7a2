"""Watches: order, replay, selectors, bookmarks, streaming lists, time-outs and 410."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client, watch
from kubernetes.client.rest import ApiException

from fixtures.embedded import errors
from fixtures.embedded.server import ApiServer
from fixtures.embedded.store import HISTORY
from fixtures.kube.resources import CONFIGMAPS, Obj

Make = Callable[..., Obj]
END = "zz-end"


@pytest.fixture
def seen(core: client.CoreV1Api, pod: Make) -> Iterator[Callable[..., list[tuple[str, str, int]]]]:
    """Everything that a watch of Pods in ``bat`` shows until it meets a Pod named END, which this makes."""
    streams: list[watch.Watch] = []

    def collect(version: str, **options: Any) -> list[tuple[str, str, int]]:
        core.create_namespaced_pod("bat", pod(END, {"sel": "1"}))
        stream = watch.Watch()
        streams.append(stream)
        got: list[tuple[str, str, int]] = []
        for event in stream.stream(core.list_namespaced_pod, "bat", resource_version=version, timeout_seconds=20, **options):
            meta = event["object"].metadata
            if meta.name == END:
                stream.stop()
                break
            got.append((event["type"], meta.name, int(meta.resource_version)))
        return got

    yield collect
    for stream in streams:
        stream.stop()


def version(core: client.CoreV1Api) -> str:
    return str(core.list_namespaced_pod("bat").metadata.resource_version)


def test_live_events_come_in_order_with_rising_versions(core: client.CoreV1Api, pod: Make, http: Any, server: ApiServer) -> None:
    before = version(core)
    lines: list[Obj] = []
    path = f"/api/v1/namespaces/bat/pods?watch=1&resourceVersion={before}"
    answer = http.pool.urlopen("GET", path, headers=http.headers, preload_content=False)

    def read() -> None:
        for line in iter(answer.readline, b""):
            lines.append(json.loads(line))
            if lines[-1]["type"] == "DELETED":
                return

    reader = threading.Thread(target=read)
    reader.start()
    core.create_namespaced_pod("bat", pod("w1"))
    core.patch_namespaced_pod("w1", "bat", {"metadata": {"labels": {"k": "v"}}})
    core.delete_namespaced_pod("w1", "bat", grace_period_seconds=0)
    reader.join(10)
    answer.close()
    assert [line["type"] for line in lines] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    versions = [int(line["object"]["metadata"]["resourceVersion"]) for line in lines]
    assert versions == sorted(set(versions))


def test_history_is_replayed_from_an_older_version(core: client.CoreV1Api, pod: Make, seen: Any) -> None:
    before = version(core)
    core.create_namespaced_pod("bat", pod("w2"))
    core.delete_namespaced_pod("w2", "bat", grace_period_seconds=0)
    assert [event[0] for event in seen(before)] == ["ADDED", "MODIFIED", "DELETED"]


def test_leaving_and_entering_a_selector_looks_like_deletion_and_creation(core: client.CoreV1Api, pod: Make, seen: Any) -> None:
    core.create_namespaced_pod("bat", pod("w3", {"sel": "1"}))
    before = version(core)
    core.patch_namespaced_pod("w3", "bat", {"metadata": {"labels": {"sel": "2"}}})
    core.patch_namespaced_pod("w3", "bat", {"metadata": {"labels": {"sel": "3"}}})
    core.patch_namespaced_pod("w3", "bat", {"metadata": {"labels": {"sel": "1"}}})
    assert [event[0] for event in seen(before, label_selector="sel=1")] == ["DELETED", "ADDED"]


def test_without_a_version_the_watch_starts_with_what_exists(core: client.CoreV1Api, pod: Make, seen: Any) -> None:
    core.create_namespaced_pod("bat", pod("a"))
    core.create_namespaced_pod("bat", pod("b"))
    assert [event[:2] for event in seen("")] == [("ADDED", "a"), ("ADDED", "b")]


def test_ancient_version_is_410_as_an_event(core: client.CoreV1Api, http: Any) -> None:
    stream = watch.Watch()
    with pytest.raises(ApiException) as problem:
        list(stream.stream(core.list_namespaced_pod, "bat", resource_version="1", timeout_seconds=1))
    assert problem.value.status == 410
    status, body, _ = http("GET", "/api/v1/pods?watch=1&resourceVersion=1&timeoutSeconds=1")
    assert status == 200
    assert body["type"] == "ERROR"
    assert (body["object"]["code"], body["object"]["reason"]) == (410, "Expired")
    assert body["object"]["message"].startswith("too old resource version: 1 (")


def test_timeout_is_honoured(http: Any) -> None:
    started = time.monotonic()
    status, _, _ = http("GET", "/api/v1/pods?watch=1&resourceVersion=0&timeoutSeconds=1")
    assert status == 200
    assert 0.9 < time.monotonic() - started < 5


def test_streaming_list_ends_its_initial_events_with_an_annotated_bookmark(core: client.CoreV1Api, pod: Make, http: Any) -> None:
    core.create_namespaced_pod("bat", pod("a"))
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    _, text, _ = http("GET", f"/api/v1/namespaces/bat/pods?{query}")
    first, second = (json.loads(line) for line in text.splitlines())
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "a")
    assert second["type"] == "BOOKMARK"
    assert second["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(second["object"]["metadata"]["resourceVersion"]) >= int(first["object"]["metadata"]["resourceVersion"])


def test_streaming_list_needs_the_match_option(http: Any) -> None:
    status, body, _ = http("GET", "/api/v1/pods?watch=1&sendInitialEvents=true")
    assert status == 422
    assert "resourceVersionMatch" in body["message"]


def lines_of(http: Any, path: str) -> Any:
    return http.pool.urlopen("GET", path, headers=http.headers, preload_content=False)


def test_bookmarks_on_demand_tell_a_client_that_it_has_seen_everything(core: Any, http: Any, server: ApiServer) -> None:
    answer = lines_of(http, "/api/v1/configmaps?watch=1&allowWatchBookmarks=true&resourceVersion=0&labelSelector=a%3Db")
    server.store.create(CONFIGMAPS, {"metadata": {"name": "other", "namespace": "bat"}})
    asked = server.bookmark()
    event = json.loads(answer.readline())
    answer.close()
    assert event["type"] == "BOOKMARK"
    assert int(event["object"]["metadata"]["resourceVersion"]) >= asked == server.store.rv
    assert event["object"]["kind"] == "ConfigMap"


def test_dropped_watches_end_silently_or_with_an_error(http: Any, server: ApiServer) -> None:
    answer = lines_of(http, "/api/v1/pods?watch=1&resourceVersion=0")
    server.end_watches("pods")
    assert answer.readline() == b""
    answer = lines_of(http, "/api/v1/pods?watch=1&resourceVersion=0")
    server.end_watches(error=errors.gone("too old"))
    assert json.loads(answer.readline())["object"]["code"] == 410


def test_slow_client_that_falls_out_of_the_history_gets_410(core: Any, http: Any, server: ApiServer) -> None:
    before = server.store.rv
    server.store.create(CONFIGMAPS, {"metadata": {"name": "c", "namespace": "bat"}, "data": {"n": ""}})
    for n in range(2 * HISTORY):
        server.store.edit(CONFIGMAPS, "bat", "c", lambda o, n=n: o["data"].update(n=str(n)))
    _, body, _ = http("GET", f"/api/v1/configmaps?watch=1&resourceVersion={before}&timeoutSeconds=1")
    assert body["object"]["code"] == 410


def test_table_watch_sends_the_columns_once(core: client.CoreV1Api, pod: Make, http: Any) -> None:
    core.create_namespaced_pod("bat", pod("a"))
    core.create_namespaced_pod("bat", pod("b"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    _, text, _ = http("GET", "/api/v1/namespaces/bat/pods?watch=1&timeoutSeconds=1", Accept=accept)
    first, second = (json.loads(line)["object"] for line in text.splitlines())
    assert [column["name"] for column in first["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"][0] == "b"


def test_metadata_only_watch(core: client.CoreV1Api, pod: Make, http: Any) -> None:
    core.create_namespaced_pod("bat", pod("a"))
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    _, body, _ = http("GET", "/api/v1/namespaces/bat/pods?watch=1&timeoutSeconds=1", Accept=accept)
    assert body["object"]["kind"] == "PartialObjectMetadata"
    assert "spec" not in body["object"]


@pytest.mark.parametrize("version", ["x", "-1", "1.5"])
def test_bad_version_is_refused(http: Any, version: str) -> None:
    status, body, _ = http("GET", f"/api/v1/pods?watch=1&resourceVersion={version}")
    assert (status, body["reason"]) == (400, "BadRequest")
