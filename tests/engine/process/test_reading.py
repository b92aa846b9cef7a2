"""Lists in pages, requests that are repeated, and a Pod store that misses nothing between two looks."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from fixtures.engine.line import Line
from fixtures.engine.reference.inflight import InFlight
from fixtures.engine.reference.process.cluster import DELAYS, PodStore, StartError, listed
from fixtures.engine.reference.process.journal import Journal
from fixtures.kube.kubeconfig import access
from fixtures.kube.resources import NODES, PODS
from fixtures.kube.transport import Client
from tests.engine.fakeapi import FakeApi, status

R = "descheduler.alpha.kubernetes.io/request-evict-only"
P = "descheduler.alpha.kubernetes.io/eviction-in-progress"


class Recorder(Journal):
    def __init__(self) -> None:
        super().__init__(lambda data: None, lambda: 0.0)
        self.lines: list[Line] = []

    def emit(self, line: Line) -> None:
        self.lines.append(line)

    @property
    def texts(self) -> list[str]:
        return [line.message for line in self.lines]


def finished(steps: Generator[float, None, Any]) -> tuple[Any, list[float]]:
    pauses: list[float] = []
    while True:
        try:
            pauses.append(next(steps))
        except StopIteration as end:
            return end.value, pauses


@pytest.fixture
def journal() -> Recorder:
    return Recorder()


@pytest.fixture
def client(api: FakeApi) -> Client:
    return Client(access(api.kubeconfig()))


def pod(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "vms", "annotations": {R: "", **annotations}},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running"},
    }


def test_all_pages_of_a_list(api: FakeApi, client: Client, journal: Recorder) -> None:
    api.pages = 3
    for number in range(10):
        api.create(pod(f"p{number}"), None)
    (items, version), pauses = finished(listed(client, PODS, journal))
    assert [i["metadata"]["name"] for i in items] == [f"p{n}" for n in range(10)]
    assert (version, pauses) == (str(api.version), [])
    assert len(api.requests) == 4


def test_a_page_that_has_expired_begins_the_list_anew(api: FakeApi, client: Client, journal: Recorder) -> None:
    api.pages = 3
    for number in range(5):
        api.create(pod(f"p{number}"), None)
    api.faults.append(("GET /api/v1/pods", 410, status(410, "expired", "Expired"), {}))
    (items, _), _ = finished(listed(client, PODS, journal))
    assert len(items) == 5


def test_pages_that_always_expire_end_it(api: FakeApi, client: Client, journal: Recorder) -> None:
    api.faults += [("GET /api/v1/pods", 410, status(410, "expired", "Expired"), {})] * 50
    with pytest.raises(StartError, match="its pages expire before they are read"):
        finished(listed(client, PODS, journal))


def test_failures_are_repeated_with_growing_pauses(api: FakeApi, client: Client, journal: Recorder) -> None:
    api.put("/api/v1/nodes", {"metadata": {"name": "n"}})
    api.faults += [("GET /api/v1/nodes", code, {"message": "later"}, {}) for code in (500, 503, 429)]
    (items, _), pauses = finished(listed(client, NODES, journal))
    assert (len(items), pauses) == (1, [0.5, 1.0, 2.0])
    assert [line.get("err") for line in journal.lines] == ["failed to list *v1.Node: later"] * 3


def test_a_pause_the_server_asks_for_is_kept(api: FakeApi, client: Client, journal: Recorder) -> None:
    api.faults.append(("GET /api/v1/nodes", 429, {}, {"Retry-After": "9"}))
    assert finished(listed(client, NODES, journal))[1] == [9.0]


def test_after_the_last_attempt_the_cause_is_told(api: FakeApi, client: Client, journal: Recorder) -> None:
    api.faults += [("GET /api/v1/nodes", 503, {"message": "down"}, {})] * 50
    with pytest.raises(StartError, match=r"^failed to list \*v1.Node: down$"):
        finished(listed(client, NODES, journal))
    assert len(journal.lines) == len(DELAYS)


@pytest.fixture
def flight() -> InFlight:
    return InFlight(gate=True)


@pytest.fixture
def store(client: Client, flight: InFlight, journal: Recorder) -> PodStore:
    return PodStore(client, flight, journal)


def refreshed(store: PodStore) -> tuple[list[str], list[str]]:
    (items, ended), _ = finished(store.refresh())
    return [i["metadata"]["name"] for i in items], [e.pod for e in ended]


def test_what_is_under_way_at_the_start_is_learnt(api: FakeApi, store: PodStore, flight: InFlight, journal: Recorder) -> None:
    api.create(pod("a", **{P: "true"}), None)
    api.create(pod("b"), None)
    assert refreshed(store) == (["a", "b"], [])
    assert flight.total() == 1
    assert journal.texts == ["Eviction in background detected. Adding pod to the cache."]


def test_without_changes_there_is_no_watch(api: FakeApi, store: PodStore) -> None:
    api.create(pod("a"), None)
    refreshed(store)
    api.requests.clear()
    refreshed(store)
    assert [path for _, path in api.requests] == ["/api/v1/pods?limit=1000"]


def test_a_mark_that_came_and_went_between_two_looks_is_noticed(
    api: FakeApi, store: PodStore, flight: InFlight, journal: Recorder
) -> None:
    made = api.create(pod("a"), None)
    refreshed(store)
    flight.assume(made, 0.0)
    api.patch_meta("vms", "a", {"annotations": {P: "true"}})
    api.patch_meta("vms", "a", {"annotations": {P: None}})
    refreshed(store)
    assert flight.total() == 0
    assert journal.texts == ["Eviction in background canceled (annotation removed). Removing pod from the cache."]


def test_every_kind_of_change_reaches_the_cache_in_order(
    api: FakeApi, store: PodStore, flight: InFlight, journal: Recorder
) -> None:
    for name in "abcd":
        api.create(pod(name, **({P: ""} if name in "bc" else {})), None)
    refreshed(store)
    journal.lines.clear()
    flight.assume(api.objects["/api/v1/pods"]["vms/d"], 0.0, strategy="s", profile="p")
    api.patch_meta("vms", "a", {"annotations": {P: "true"}})
    api.set_phase("vms", "b", "Succeeded")
    api.delete("vms", "d")
    api.create(pod("e", **{P: ""}), None)
    api.patch_meta("vms", "c", {"annotations": {R: None}})
    assert refreshed(store) == (["a", "b", "c", "e"], ["b", "d"])
    assert journal.texts == [
        "Eviction in background detected. Updating the cache.",
        "Pod with eviction in background completed. Removing pod from the cache.",
        "Pod with eviction in background deleted/evicted. Removing pod from the cache.",
        "Eviction in background detected. Adding pod to the cache.",
        "Pod with eviction in background lost annotation. Removing pod from the cache.",
    ]


@pytest.mark.parametrize("trouble", ["expired", "refused", "dropped"])
def test_a_watch_that_fails_is_made_up_for_by_the_list(
    trouble: str, api: FakeApi, store: PodStore, flight: InFlight, journal: Recorder
) -> None:
    api.create(pod("a"), None)
    gone = api.create(pod("b", **{P: ""}), None)
    refreshed(store)
    assert flight.has(gone)
    api.patch_meta("vms", "a", {"annotations": {P: "true"}})
    api.delete("vms", "b")
    if trouble == "expired":
        api.oldest = api.version + 1
    elif trouble == "refused":
        api.watch_faults.append(403)
    else:
        api.watch_faults.append(0)
    assert refreshed(store) == (["a"], ["b"])
    assert (flight.total(), flight.has(gone)) == (1, False)


def test_a_pod_that_was_replaced_under_its_name_is_another_pod(api: FakeApi, store: PodStore, flight: InFlight) -> None:
    old = api.create(pod("a", **{P: ""}), None)
    refreshed(store)
    api.delete("vms", "a")
    api.create(pod("a"), None)
    assert refreshed(store) == (["a"], ["a"])
    assert not flight.has(old)
