"""What happens by itself: garbage collection, namespaces, Pods without a kubelet. No HTTP, time driven by hand."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.embedded.clock import Clock
from fixtures.embedded.server import ApiServer
from fixtures.embedded.store import Store
from fixtures.kube.resources import CONFIGMAPS, CRDS, JOBS, NAMESPACES, PODS, SERVICEACCOUNTS, Obj, Resource


@pytest.fixture
def store() -> Store:
    clock = Clock(epoch=1_800_000_000)
    server = ApiServer(Store(clock, seed=1), clock)
    server.clock.advance(1)
    server.store.create(NAMESPACES, {"metadata": {"name": "d"}})
    return server.store


def owned_by(*owners: Obj, name: str = "child", block: bool = True, **more: Any) -> Obj:
    refs = [
        {
            "apiVersion": o["apiVersion"],
            "kind": o["kind"],
            "name": o["metadata"]["name"],
            "uid": o["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for o in owners
    ]
    return {"metadata": {"name": name, "namespace": "d", "ownerReferences": refs, **more}}


def make(store: Store, name: str, **meta: Any) -> Obj:
    return store.create(CONFIGMAPS, {"metadata": {"name": name, "namespace": "d", **meta}})


def names(store: Store, resource: Resource = CONFIGMAPS) -> list[str]:
    return [obj["metadata"]["name"] for obj in store.list(resource, "d")]


def test_dependents_follow_their_owner_down_the_chain(store: Store) -> None:
    owner = make(store, "owner")
    child = store.create(JOBS, owned_by(owner))
    store.create(PODS, owned_by(child, name="grandchild"))
    store.delete(CONFIGMAPS, "d", "owner")
    assert names(store, JOBS) == ["child"]
    store.clock.advance(1)
    assert names(store, JOBS) == names(store, PODS) == []


def test_dependent_with_another_living_owner_only_loses_the_reference(store: Store) -> None:
    first, second = make(store, "first"), make(store, "second")
    store.create(CONFIGMAPS, owned_by(first, second))
    store.delete(CONFIGMAPS, "d", "first")
    store.clock.advance(1)
    child = store.get(CONFIGMAPS, "d", "child")
    assert child is not None
    assert [ref["name"] for ref in child["metadata"]["ownerReferences"]] == ["second"]


def test_dependent_of_an_owner_that_never_was_goes(store: Store) -> None:
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "no-such-uid"}}
    store.create(CONFIGMAPS, owned_by(ghost))
    store.clock.advance(1)
    assert names(store) == []


def test_foreground_deletion_waits_for_blocking_dependents(store: Store) -> None:
    owner = make(store, "owner")
    store.create(CONFIGMAPS, owned_by(owner, finalizers=["keep/it"]))
    store.delete(CONFIGMAPS, "d", "owner", finalizer="foregroundDeletion")
    store.clock.advance(5)
    assert names(store) == ["child", "owner"]
    store.edit(CONFIGMAPS, "d", "child", lambda o: o["metadata"].pop("finalizers"))
    store.clock.advance(1)
    assert names(store) == []


def test_orphaning_leaves_dependents_without_the_reference(store: Store) -> None:
    owner = make(store, "owner")
    store.create(CONFIGMAPS, owned_by(owner))
    store.delete(CONFIGMAPS, "d", "owner", finalizer="orphan")
    store.clock.advance(1)
    assert names(store) == ["child"]
    assert "ownerReferences" not in (store.get(CONFIGMAPS, "d", "child") or {})["metadata"]


def test_namespace_goes_when_it_is_empty(store: Store) -> None:
    make(store, "held", finalizers=["keep/it"])
    make(store, "free")
    store.create(PODS, {"metadata": {"name": "p", "namespace": "d"}, "spec": {"nodeName": "n"}})
    store.delete(NAMESPACES, None, "d")
    store.clock.advance(5)
    namespace = store.get(NAMESPACES, None, "d")
    assert namespace is not None
    assert namespace["status"]["phase"] == "Terminating"
    assert names(store) == ["held"]
    assert names(store, PODS) == []
    store.edit(CONFIGMAPS, "d", "held", lambda o: o["metadata"].pop("finalizers"))
    store.clock.advance(1)
    assert store.get(NAMESPACES, None, "d") is None


def test_new_namespace_gets_its_default_account(store: Store) -> None:
    assert names(store, SERVICEACCOUNTS) == []
    store.clock.advance(1)
    assert names(store, SERVICEACCOUNTS) == ["default"]


@pytest.mark.parametrize("reap", [True, False])
def test_terminating_pod_disappears_only_without_a_kubelet(reap: bool) -> None:
    clock = Clock(epoch=0)
    store = ApiServer(Store(clock), clock, reap_pods=reap).store
    store.create(PODS, {"metadata": {"name": "p", "namespace": "default"}, "spec": {"nodeName": "n"}})
    store.delete(PODS, "default", "p")
    clock.advance(60)
    assert (store.get(PODS, "default", "p") is None) is reap


def test_deleted_crd_takes_its_objects_along(store: Store, widget_crd: Obj) -> None:
    store.create(CRDS, widget_crd)
    widgets = Resource("bat.example.com", "v1", "widgets", "Widget")
    store.create(widgets, {"metadata": {"name": "w", "namespace": "d", "finalizers": ["keep/it"]}})
    store.delete(CRDS, None, "widgets.bat.example.com")
    store.clock.advance(1)
    assert store.list(widgets) == []


def test_fork_goes_on_where_the_original_stood(store: Store) -> None:
    owner = make(store, "owner")
    store.create(CONFIGMAPS, owned_by(owner))
    store.delete(CONFIGMAPS, "d", "owner")
    clock = Clock(epoch=store.clock.now())
    twin = ApiServer(store.fork(clock), clock)
    before = len(twin.store.list(NAMESPACES))
    clock.advance(1)
    assert names(twin.store) == []
    assert names(store) == ["child"]
    assert len(twin.store.list(NAMESPACES)) == before
