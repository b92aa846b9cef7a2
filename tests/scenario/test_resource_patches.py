"""ResourcePatches that existed before a run: kept, changed back where the platform records ours in them, compared at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.cluster.api import Edit, Verb
from fixtures.cluster.embedded import EmbeddedUnderTest
from fixtures.kube.objects import dig, name
from fixtures.kube.resources import CONFIGMAPS, CRONJOBS, DEPLOYMENTS, RESOURCEPATCHES, Resource
from fixtures.scenario.record import Reached
from fixtures.scenario.restore import restore
from tests.scenario import cases
from tests.scenario.cases import Killed, Mortal

Tune = Callable[[EmbeddedUnderTest], None]


def tuned(resource: Resource, body: Any) -> Tune:
    def tune(cluster: EmbeddedUnderTest) -> None:
        cluster.change(Edit(Verb.MERGE, resource, "descheduler", cases.NS, body=body))

    return tune


def policy(cluster: EmbeddedUnderTest) -> None:
    text = dig(cluster.get(CONFIGMAPS, "descheduler", ns=cases.NS), "data", "policy.yaml")
    tuned(CONFIGMAPS, {"data": {"policy.yaml": f"{text}# tuned by the customer\n"}})(cluster)


TUNED: dict[str, tuple[Tune, ...]] = {
    "schedule": (tuned(CRONJOBS, {"spec": {"schedule": "*/30 * * * *"}}),),
    "labels": (tuned(CRONJOBS, {"metadata": {"labels": {"team": "virt"}}}),),
    "suspended by hand": (tuned(CRONJOBS, {"spec": {"suspend": True}}),),
    "policy": (policy,),
    "schedule and policy": (tuned(CRONJOBS, {"spec": {"schedule": "*/30 * * * *"}}), policy),
}


@pytest.fixture
def acp(request: pytest.FixtureRequest) -> Iterator[EmbeddedUnderTest]:
    cluster = cases.start(**getattr(request, "param", {}))
    yield cluster
    cluster.close()


def patches(cluster: EmbeddedUnderTest) -> dict[str, Any]:
    return {name(p): (p["metadata"]["uid"], p["spec"]) for p in cluster.list(RESOURCEPATCHES, ns=cases.NS)}


@pytest.mark.parametrize("what", TUNED)
def test_it_is_kept_and_as_before(acp: EmbeddedUnderTest, tmp_path: Path, what: str) -> None:
    for tune in TUNED[what]:
        tune(acp)
    acp.elapse(90)
    before, kept = cases.footprint(acp), patches(acp)
    assert len(kept) == len(TUNED[what])
    begun = acp.now()
    record = cases.scenario(acp, tmp_path).play()
    assert record.reached is Reached.ROLLED_BACK, record.stopped_because
    assert record.rollback.differences == []
    assert record.override is not None
    assert record.override.existed is ("policy" in what)
    assert acp.now() - begun < 150, "nothing is waited for that cannot come"
    acp.elapse(90)
    assert cases.footprint(acp) == before
    assert patches(acp) == kept


@pytest.mark.parametrize("acp", [{"prepare": cases.as_deployment}], indirect=True)
def test_on_a_deployment_too(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    tuned(DEPLOYMENTS, {"spec": {"replicas": 2}})(acp)
    acp.elapse(90)
    (kept,) = patches(acp).values()
    record = cases.scenario(acp, tmp_path).play()
    assert record.rollback.done, (record.stopped_because, record.rollback)
    acp.elapse(90)
    assert [spec for _, spec in patches(acp).values()] == [kept[1]], "a cycle's single replica is the chart's own: made anew alike"
    assert dig(acp.get(DEPLOYMENTS, "descheduler", ns=cases.NS), "spec", "replicas") == 2


@pytest.mark.parametrize("at", [13, 15, 27, 35, 39])
def test_a_killed_run_is_undone_beside_them(acp: EmbeddedUnderTest, tmp_path: Path, at: int) -> None:
    for tune in TUNED["schedule and policy"]:
        tune(acp)
    before, kept = cases.footprint(acp), patches(acp)
    mortal = Mortal(acp, at, after=True)
    with pytest.raises(Killed):
        cases.scenario(mortal, tmp_path).play()
    done = restore(acp, cases.NS, tmp_path, force=True)
    assert done.done, (mortal.writes[-1], done.complaints())
    acp.elapse(90)
    assert cases.footprint(acp) == before, mortal.writes[-1]
    assert patches(acp) == kept
