"""The bench for background evictions on somebody else's cluster: real time, an account of its own, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures import versions
from fixtures.checks import Impact
from fixtures.cluster.embedded import EmbeddedUnderTest, write_private
from fixtures.cluster.live import connect_live
from fixtures.kube.objects import name
from fixtures.kube.resources import CLUSTERROLEBINDINGS, CLUSTERROLES, MIGRATIONPOLICIES, PRIORITYCLASSES
from fixtures.options import Settings
from fixtures.scenario import account, bench
from fixtures.scenario.bench import Means, namespace_of, try_background
from fixtures.scenario.bench_record import Step
from tests.scenario import cases

pytestmark = pytest.mark.slow
PACE = 60.0
READS = ("get", "list", "watch")
SHARED = (CLUSTERROLES, CLUSTERROLEBINDINGS, MIGRATIONPOLICIES, PRIORITYCLASSES)
RUN = "r3-bge"


def test_all_cycles_are_run_and_only_the_own_namespace_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "LATER_IN_REAL_TIME", (0.2, 0.2, 0.2))
    left_behind: list[str] = []
    world = cases.start()
    write_private(tmp_path / "kubeconfig", world.world.kubeconfig("admin"))
    before = cases.footprint(world)
    world.world.server.audit.entries.clear()
    world.world.clock.run_scaled(PACE)
    cluster = connect_live(Settings(cluster="live", cluster_kubeconfig=tmp_path / "kubeconfig", allow=Impact.NAMESPACED))
    try:
        engine = account.reference(cluster, namespace_of(RUN), "0.36.0")
        means = Means(engine, versions.descheduler("0.36.0"), versions.kubevirt("1.8.4"), gate=True)
        record = try_background(cluster, means, left_behind, run=RUN)
        cluster.elapse(1.0)
    finally:
        cluster.close()
        world.world.clock.stop_scaled()
    assert record.stopped_because == ""
    assert set(record.ran) == set(Step)
    assert len([r for r in record.ran[Step.LATER] if r.migrating]) == 3
    assert [ran.foreseen for step in record.ran for ran in record.ran[step]].count(True) == 2, "the shipped policy has no bounds"
    candidates = [record.ran[step][0].report.passes[0].sources[0].pods or {} for step in (Step.UNPROTECTED, Step.PROTECTED)]
    assert candidates[0]["removable"] - candidates[1]["removable"] == len(record.with_claims) == 1
    assert left_behind == []
    assert strange_writes(world) == []
    assert [o for r in SHARED for o in world.world.store.list(r) if RUN in name(o)] == []
    assert cases.footprint(world) == before
    world.close()


def strange_writes(world: EmbeddedUnderTest) -> list[str]:
    """What the run wrote that is neither in its namespace nor named after it; access reviews write nothing, and creations of what
    has no namespace do not name it in their path.
    """
    asked = world.world.server.audit.entries
    users = ("admin", f"system:serviceaccount:{namespace_of(RUN)}:{account.ACCOUNT}")
    writes = [e for e in asked if e.user in users and e.verb not in READS and "review" not in e.resource]
    strange = [e for e in writes if RUN not in f"{e.ns}/{e.name}" and (e.ns or e.verb != "create")]
    return [f"{e.verb} {e.key} {e.ns}/{e.name}" for e in strange]
