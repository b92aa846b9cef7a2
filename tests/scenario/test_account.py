"""The engine that is not installed: RBAC bounds it to the disposable namespace, whatever its policy selects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from fixtures.cluster.api import Edit, Verb
from fixtures.cluster.client import KubeCluster
from fixtures.cluster.embedded import EmbeddedUnderTest, client_of
from fixtures.engine.reference_engine import ReferenceEngine
from fixtures.kube.objects import dig, name, namespace
from fixtures.kube.resources import CLUSTERROLEBINDINGS, CLUSTERROLES, NAMESPACES, VMIS
from fixtures.scenario import manifests, planner, workers
from fixtures.scenario.account import ACCOUNT, RestrictedEngine
from fixtures.scenario.lock import Lock
from fixtures.scenario.stage import FIRST_GUESS, Stage
from tests.scenario import cases

NS = "rebalance-conformance-r1"


@pytest.fixture
def world() -> Iterator[EmbeddedUnderTest]:
    cluster = cases.start()
    yield cluster
    cluster.close()


def engine(world: EmbeddedUnderTest, cluster: KubeCluster) -> RestrictedEngine:
    return RestrictedEngine(
        "reference", cluster, NS, lambda kubeconfig: ReferenceEngine(kubeconfig, "0.36.0", world.now, sleep=world.elapse)
    )


def marked(world: EmbeddedUnderTest) -> set[str]:
    return {f"{namespace(v)}/{name(v)}" for v in world.world.store.list(VMIS) if dig(v, "status", "evacuationNodeName")}


def test_a_wrong_selector_evicts_nothing_outside_the_namespace(world: EmbeddedUnderTest) -> None:
    cluster = KubeCluster(client_of(world.world.server), user="admin")
    draft = planner.draft(workers.choose(world), FIRST_GUESS)
    stage = Stage(world, Lock(world, NS, "r1"), NS, ("app", NS), draft)
    stage.build()
    plan = stage.plan()
    text = manifests.policy(workers=stage.hostnames, label=("app", NS), thresholds=plan.thresholds, targets=plan.targets)
    bounded = yaml.safe_load(text)
    for key in [k for k in bounded if k.startswith("maxNoOfPodsToEvict")]:
        del bounded[key]
    args = next(c["args"] for c in bounded["profiles"][0]["pluginConfig"] if c["name"] == "DefaultEvictor")
    args["labelSelector"] = {"matchLabels": {"app": "erp-db"}}

    wrong = engine(world, cluster).cycle(yaml.safe_dump(bounded))
    assert [(p.pod.partition("/")[0], p.code) for p in wrong.posts] == [("tenant-a", 403)]
    assert "cannot create resource" in wrong.posts[0].message
    assert marked(world) == set()

    right = engine(world, cluster).cycle(text)
    assert len(right.requested) == 1, right.log
    assert right.requested[0].startswith(f"{NS}/")
    assert {m.partition("/")[0] for m in marked(world)} == {NS}
    assert stage.tear_down() == []
    stage.close()
    cluster.close()
    world.elapse(30)
    for resource in (CLUSTERROLES, CLUSTERROLEBINDINGS):
        assert not [o for o in world.world.store.list(resource) if ACCOUNT in name(o)], "collected with the namespace"


def test_the_account_is_made_anew_without_complaint(world: EmbeddedUnderTest) -> None:
    cluster = KubeCluster(client_of(world.world.server), user="admin")
    cluster.change(Edit(Verb.CREATE, NAMESPACES, NS, body={"metadata": {"name": NS}}))
    for _ in range(2):
        report = engine(world, cluster).cycle("apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles: []\n")
        assert report.exit_code is not None
    cluster.close()
