"""The store's rules of metadata: versions, generations, deletion, history, forks."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.embedded.clock import Clock
from fixtures.embedded.ports import ApiError, Change
from fixtures.embedded.store import FIRST_RV, Store, Traits
from fixtures.kube.resources import CONFIGMAPS, DEPLOYMENTS, NODES, PODS, VMIS, Obj

POD: Obj = {"metadata": {"name": "p", "namespace": "d"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture
def store() -> Store:
    store = Store(Clock(epoch=1_800_000_000), seed=1)
    store.describe("configmaps", Traits(status=False, generation=False))
    store.describe("virtualmachineinstances.kubevirt.io", Traits(status=False))
    return store


def code(problem: pytest.ExceptionInfo[ApiError]) -> int:
    return problem.value.code


def test_same_seed_same_names_and_uids() -> None:
    made = []
    for seed in (3, 3, 4):
        meta = Store(Clock(epoch=0), seed=seed).create(PODS, {"metadata": {"generateName": "x-", "namespace": "d"}})["metadata"]
        made.append((meta["name"], meta["uid"]))
    assert made[0] == made[1] != made[2]


def test_what_is_stored_is_no_longer_the_callers(store: Store) -> None:
    mine: Obj = {"metadata": {"name": "c", "namespace": "d"}, "data": {"a": "1"}}
    store.create(CONFIGMAPS, mine)
    mine["data"]["a"] = "2"
    assert (store.get(CONFIGMAPS, "d", "c") or {})["data"] == {"a": "1"}


def test_versions_rise_across_resources_and_equal_objects_are_no_commit(store: Store) -> None:
    first = store.create(CONFIGMAPS, {"metadata": {"name": "c", "namespace": "d"}})
    second = store.create(PODS, POD)
    assert int(second["metadata"]["resourceVersion"]) == int(first["metadata"]["resourceVersion"]) + 1 == FIRST_RV + 2
    assert store.update(CONFIGMAPS, first) is store.get(CONFIGMAPS, "d", "c")
    assert store.edit(PODS, "d", "p", lambda o: None)["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert store.rv == FIRST_RV + 2


def test_stale_and_foreign_updates_conflict(store: Store) -> None:
    old = store.create(CONFIGMAPS, {"metadata": {"name": "c", "namespace": "d"}})
    store.edit(CONFIGMAPS, "d", "c", lambda o: o.update(data={"a": "1"}))
    with pytest.raises(ApiError, match="the object has been modified") as problem:
        store.update(CONFIGMAPS, {**old, "data": {"b": "1"}})
    assert code(problem) == 409
    with pytest.raises(ApiError, match="Precondition failed: UID in precondition"):
        store.update(CONFIGMAPS, {"metadata": {"name": "c", "namespace": "d", "uid": "other"}})


def test_generation_follows_the_spec_unless_the_status_is_no_subresource(store: Store) -> None:
    store.create(DEPLOYMENTS, {"metadata": {"name": "a", "namespace": "d"}})
    store.create(VMIS, {"metadata": {"name": "a", "namespace": "d"}})
    for resource, generation in ((DEPLOYMENTS, 1), (VMIS, 2)):
        found = store.edit(resource, "d", "a", lambda o: o.update(status={"x": 1}))
        assert found["metadata"]["generation"] == generation
    found = store.edit(DEPLOYMENTS, "d", "a", lambda o: o["spec"].update(replicas=7))
    assert found["metadata"]["generation"] == 2


def test_update_through_the_halves(store: Store) -> None:
    made = store.create(DEPLOYMENTS, {"metadata": {"name": "a", "namespace": "d"}, "status": {"replicas": 1}})
    both = {**made, "spec": {**made["spec"], "replicas": 5}, "status": {"replicas": 9}}
    assert store.update(DEPLOYMENTS, both)["status"] == {"replicas": 1}
    both["metadata"] = {**both["metadata"], "resourceVersion": ""}
    found = store.update(DEPLOYMENTS, {**both, "spec": {}}, subresource="status")
    assert (found["spec"]["replicas"], found["status"]) == (5, {"replicas": 9})


def test_bound_pod_goes_in_two_steps(store: Store) -> None:
    """As recorded from Kubernetes 1.36: deletionTimestamp now + grace, generation + 1; then grace 0 and the current time."""
    store.create(PODS, POD)
    seen: list[tuple[Any, ...]] = []

    def listen(change: Change) -> None:
        meta = change.object["metadata"]
        seen.append((change.type, meta["generation"], meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")))

    store.subscribe(listen)
    store.delete(PODS, "d", "p", grace=60)
    store.delete(PODS, "d", "p")
    store.clock.advance(1)
    store.delete(PODS, "d", "p", grace=0)
    assert seen == [
        ("MODIFIED", 2, "2027-01-15T08:01:00Z", 60),
        ("MODIFIED", 2, "2027-01-15T08:00:01Z", 0),
        ("DELETED", 2, "2027-01-15T08:00:01Z", 0),
    ]
    assert store.get(PODS, "d", "p") is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_goes_at_once(store: Store, phase: str) -> None:
    store.create(PODS, POD)
    store.edit(PODS, "d", "p", lambda o: o["status"].update(phase=phase))
    store.delete(PODS, "d", "p")
    assert store.get(PODS, "d", "p") is None


def test_finalizers_hold_and_their_removal_lets_go(store: Store) -> None:
    store.create(NODES, {"metadata": {"name": "n", "finalizers": ["a/b"]}})
    first = store.delete(NODES, None, "n")
    assert store.delete(NODES, None, "n") == first
    store.edit(NODES, None, "n", lambda o: o["metadata"].update(labels={"still": "here"}))
    last = store.edit(NODES, None, "n", lambda o: o["metadata"].pop("finalizers"))
    assert last["metadata"]["labels"] == {"still": "here"}
    assert store.get(NODES, None, "n") is None


def test_preconditions(store: Store) -> None:
    store.create(NODES, {"metadata": {"name": "n"}})
    for field in ({"uid": "x"}, {"rv": "1"}):
        with pytest.raises(ApiError) as problem:
            store.delete(NODES, None, "n", **field)  # type: ignore[arg-type]
        assert code(problem) == 409


def test_controllers_cannot_forge_metadata(store: Store) -> None:
    made = store.create(NODES, {"metadata": {"name": "n", "uid": "mine", "resourceVersion": "1", "generation": 9}})
    assert made["metadata"]["uid"] != "mine"
    found = store.edit(NODES, None, "n", lambda o: o["metadata"].update(uid="x", creationTimestamp="y", generation=7, a="b"))
    for field in ("uid", "creationTimestamp", "generation"):
        assert found["metadata"][field] == made["metadata"][field]


def test_listeners_hear_commits_in_order_also_those_they_cause(store: Store) -> None:
    first: list[str] = []
    second: list[str] = []

    def react(change: Change) -> None:
        first.append(f"{change.type} {change.rv}")
        if change.type == "ADDED":
            store.edit(NODES, None, "n", lambda o: o["metadata"].update(labels={"a": "b"}))

    store.subscribe(react)
    store.subscribe(lambda change: second.append(f"{change.type} {change.rv}"))
    store.create(NODES, {"metadata": {"name": "n"}})
    assert first == second == [f"ADDED {FIRST_RV + 1}", f"MODIFIED {FIRST_RV + 2}"]


def test_lists_are_sorted_by_namespace_and_name(store: Store) -> None:
    for ns, name in (("b", "x"), ("a", "z"), ("a", "y")):
        store.create(CONFIGMAPS, {"metadata": {"name": name, "namespace": ns}})
    assert [(o["metadata"]["namespace"], o["metadata"]["name"]) for o in store.list(CONFIGMAPS)] == [
        ("a", "y"),
        ("a", "z"),
        ("b", "x"),
    ]
    assert [o["metadata"]["name"] for o in store.list(CONFIGMAPS, "a")] == ["y", "z"]
    store.delete(CONFIGMAPS, "a", "y")
    assert [o["metadata"]["name"] for o in store.list(CONFIGMAPS)] == ["z", "x"]


def test_fork_shares_nothing_that_changes(store: Store) -> None:
    store.create(PODS, POD)
    heard: list[Change] = []
    store.subscribe(heard.append)
    twin = store.fork(Clock(epoch=5))
    twin.edit(PODS, "d", "p", lambda o: o["status"].update(phase="Running"))
    twin.create(CONFIGMAPS, {"metadata": {"name": "c", "namespace": "d"}})
    assert heard == []
    assert (store.get(PODS, "d", "p") or {})["status"]["phase"] == "Pending"
    assert store.list(CONFIGMAPS) == []
    names = [s.new_name(PODS, "d", "g-") for s in (store, twin)]
    assert names[0] == names[1]


def test_missing_objects(store: Store) -> None:
    for act in (
        lambda: store.edit(PODS, "d", "p", lambda o: None),
        lambda: store.update(PODS, POD),
        lambda: store.delete(PODS, "d", "p"),
    ):
        with pytest.raises(ApiError, match='pods "p" not found') as problem:
            act()
        assert code(problem) == 404
