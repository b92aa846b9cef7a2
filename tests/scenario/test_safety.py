"""What may go wrong around a run: other people's edits, lost connections, a lost lock, two at once, and who is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.cluster import transport
from fixtures.cluster.api import Cluster, Edit, Verb
from fixtures.cluster.client import KubeCluster
from fixtures.cluster.embedded import EmbeddedUnderTest, client_of
from fixtures.engine.installed import InstalledEngine
from fixtures.kube.objects import dig, labels, name
from fixtures.kube.resources import CONFIGMAPS, CRONJOBS, LEASES, NAMESPACES, VMIS, VMS
from fixtures.narrative import not_restored
from fixtures.scenario import lock, mirror
from fixtures.scenario.lock import Locked
from fixtures.scenario.record import Reached
from fixtures.scenario.restore import restore
from tests.scenario import cases
from tests.scenario.cases import Killed, Mortal


@pytest.fixture(autouse=True)
def _outages_cost_no_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads that an outage refuses are repeated at once: here its length is told by the cluster's clock."""
    monkeypatch.setattr(transport, "PAUSE", 0.005)


@pytest.fixture
def acp() -> Iterator[EmbeddedUnderTest]:
    cluster = cases.start()
    yield cluster
    cluster.close()


def killed(cluster: EmbeddedUnderTest, folder: Path, why: str, run: str = "r1") -> None:
    """Die right after the write with that reason."""
    counted = Mortal(cluster, 10_000, after=True)
    original = counted.change

    def change(edit: Edit) -> Any:
        if why in edit.why:
            object.__setattr__(counted, "_at", len(counted.writes) + 1)
        return original(edit)

    object.__setattr__(counted, "change", change)
    with pytest.raises(Killed):
        cases.scenario(counted, folder, run).play()


def edit_policy(cluster: Cluster, text: str, ns: str = cases.NS) -> None:
    body = {"data": {"policy.yaml": text}}
    cluster.change(Edit(Verb.MERGE, CONFIGMAPS, "descheduler", ns, body=body))


def policy_of(cluster: Cluster) -> str:
    return str(dig(cluster.get(CONFIGMAPS, "descheduler", ns=cases.NS), "data", "policy.yaml"))


# ---- what others do meanwhile


def test_a_policy_edited_by_somebody_else_is_not_overwritten(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = policy_of(acp)
    killed(acp, tmp_path, "bounded policy")
    edit_policy(acp, before + "# mine\n")
    done = restore(acp, cases.NS, tmp_path, force=True)
    assert not done.done
    assert policy_of(acp) == before + "# mine\n"
    assert any("edited by somebody else during the run; it is left as it is" in c for c in done.complaints())
    assert dig(acp.get(CRONJOBS, "descheduler", ns=cases.NS), "spec", "suspend") is True, "a policy nobody vouches for must not run"
    assert not acp.world.store.list(VMS, "rebalance-conformance-r1"), "what is ours goes all the same"
    assert mirror.found(acp, cases.NS), "the journal is kept"

    kept = restore(acp, cases.NS, tmp_path, keep_policy=True)
    assert kept.done, kept.complaints()
    assert policy_of(acp) == before + "# mine\n"
    assert not dig(acp.get(CRONJOBS, "descheduler", ns=cases.NS), "spec", "suspend", default=False)
    assert not mirror.found(acp, cases.NS)


def test_a_policy_edited_during_the_run_is_told(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    class Meddled(InstalledEngine):
        def cycle(self, policy: str | None, *, gate: bool = True, v: int = 3) -> Any:
            edit_policy(acp, policy_of(acp) + "# theirs\n")
            return super().cycle(policy, gate=gate, v=v)

    record = cases.scenario(acp, tmp_path, engine=Meddled).play()
    assert not record.rollback.done
    assert policy_of(acp).endswith("# theirs\n")
    told = not_restored(record)
    assert any("edited by somebody else" in t for t in told)
    assert any("still stopped" in t for t in told)


def test_a_namespace_that_is_not_ours_is_never_deleted(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    there = "rebalance-conformance-r1"
    acp.change(Edit(Verb.CREATE, NAMESPACES, there, body={"metadata": {"name": there}}))
    before = cases.footprint(acp)
    record = cases.scenario(acp, tmp_path).play()
    assert record.stopped_at is Reached.VMS_READY
    assert "already exists" in record.stopped_because
    assert record.rollback.done, record.rollback
    assert cases.footprint(acp) == before


# ---- two at once


def test_a_second_run_says_who_holds_the_lock_and_how_to_clear_it(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    lock.Lock(acp, cases.NS, "r0", "jo@laptop, process 7").acquire()
    before = cases.footprint(acp)
    record = cases.scenario(acp, tmp_path).play()
    assert record.stopped_at is Reached.LOCKED
    assert "run r0 (jo@laptop, process 7) holds the lock since 20" in record.stopped_because
    assert "rebalance-conformance restore --plugin-namespace descheduler" in record.stopped_because
    assert cases.footprint(acp) == before
    assert not list(tmp_path.glob("journal-*"))
    assert not_restored(record) == []


def test_the_next_run_undoes_what_a_dead_one_left(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = cases.footprint(acp)
    killed(acp, tmp_path / "lost", "bounded policy")
    acp.elapse(lock.DURATION + 1)
    record = cases.scenario(acp, tmp_path, "r2").play()
    assert record.rollback.done, (record.stopped_because, record.rollback)
    assert record.reached is Reached.ROLLED_BACK
    assert cases.footprint(acp) == before


@pytest.mark.slow
def test_two_restores_at_once_are_harmless(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = cases.footprint(acp)
    killed(acp, tmp_path, "bounded policy")
    acp.world.clock.run_scaled(50)
    others = [KubeCluster(client_of(acp.world.server), user="admin") for _ in range(2)]
    done: list[Any] = []
    threads = [
        threading.Thread(target=lambda c=c, i=i: done.append(restore(c, cases.NS, tmp_path, force=i == 0)))
        for i, c in enumerate(others)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    acp.world.clock.stop_scaled()
    for other in others:
        other.close()
    assert len(done) == 2
    assert all(d.done for d in done), done
    assert cases.footprint(acp) == before


def test_a_living_run_is_not_restored(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    alive = lock.Lock(acp, cases.NS, "r0", "jo@laptop, process 7")
    alive.acquire()
    told: list[str] = []

    def say(text: str) -> None:
        told.append(text)
        if len(told) > 5:
            alive.renew()

    with pytest.raises(Locked, match="run r0"):
        restore(acp, cases.NS, tmp_path, say=say)
    assert "may be alive" in told[0]


# ---- lock and connection


def at_first_cycle(act: Callable[[], None]) -> type[InstalledEngine]:
    class Acting(InstalledEngine):
        acted = False

        def cycle(self, policy: str | None, *, gate: bool = True, v: int = 3) -> Any:
            if not Acting.acted:
                Acting.acted = True
                act()
            return super().cycle(policy, gate=gate, v=v)

    return Acting


def test_the_lock_is_renewed_while_a_migration_takes_its_time(tmp_path: Path) -> None:
    cluster = cases.start(faults=["migration-slow:400"])
    try:
        ages: list[float] = []

        def look() -> None:
            held = lock.find(cluster, cases.NS)
            if held is not None:
                ages.append(held.age(cluster.now()))
                cluster.world.clock.later(10, look)

        cluster.world.clock.later(10, look)
        record = cases.scenario(cluster, tmp_path).play()
        assert record.rollback.done, record.rollback
        assert len(ages) > 40
        assert max(ages) <= lock.RENEW + 10
    finally:
        cluster.close()


def test_a_lock_deleted_by_somebody_ends_the_run_cleanly(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = cases.footprint(acp)

    def delete() -> None:
        acp.change(Edit(Verb.DELETE, LEASES, lock.NAME, cases.NS))
        acp.elapse(lock.RENEW)

    record = cases.scenario(acp, tmp_path, engine=at_first_cycle(delete)).play()
    assert "deleted by somebody else during the run" in record.stopped_because
    assert record.rollback.done, record.rollback
    assert cases.footprint(acp) == before


def test_a_lock_taken_over_leaves_everything_to_the_taker(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = cases.footprint(acp)

    def take() -> None:
        acp.change(Edit(Verb.MERGE, LEASES, lock.NAME, cases.NS, body={"spec": {"holderIdentity": "r7"}}))
        acp.elapse(lock.RENEW)

    record = cases.scenario(acp, tmp_path, engine=at_first_cycle(take)).play()
    assert "taken over by r7" in record.stopped_because
    assert any("nothing was put back" in t for t in not_restored(record))
    assert labels(acp.get(LEASES, lock.NAME, ns=cases.NS))
    acp.elapse(lock.DURATION)
    assert restore(acp, cases.NS, tmp_path).done
    assert cases.footprint(acp) == before


@pytest.mark.slow
def test_an_api_server_lost_for_a_minute_delays_the_roll_back(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = cases.footprint(acp)
    lose = at_first_cycle(lambda: cases.outage(acp, until=acp.now() + 60))
    record = cases.scenario(acp, tmp_path, engine=lose).play()
    assert record.reached < Reached.BALANCED
    assert record.rollback.done, record.rollback
    assert cases.footprint(acp) == before


@pytest.mark.slow
def test_an_api_server_lost_for_good_is_said_loudly_and_restored_later(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = cases.footprint(acp)
    lose = at_first_cycle(lambda: cases.outage(acp, until=acp.now() + 1e6))
    record = cases.scenario(acp, tmp_path, engine=lose).play()
    assert not record.rollback.done
    told = not_restored(record)
    assert any("policy: 503" in t for t in told)
    assert any("still stopped" in t for t in told)
    acp.world.server.interceptors.clear()
    assert restore(acp, cases.NS, tmp_path, force=True).done
    assert cases.footprint(acp) == before


def test_a_journal_that_cannot_be_written_changes_nothing(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = cases.footprint(acp)
    (tmp_path / "file").write_text("")
    record = cases.scenario(acp, tmp_path / "file").play()
    assert record.stopped_at is Reached.LOCKED
    assert cases.footprint(acp) == before


# ---- journals


def test_lock_and_journal_do_not_carry_the_label_of_a_policy(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    killed(acp, tmp_path, "bounded policy")
    for obj in (acp.get(LEASES, lock.NAME, ns=cases.NS), acp.get(CONFIGMAPS, mirror.PREFIX + "r1", ns=cases.NS)):
        assert "app.kubernetes.io/name" not in labels(obj)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{]\n{}\n", "line 1: not JSON"),
        ('{"kind": "edit"}\n', "begins with 'edit', wanted 'start'"),
        ("[]\n{}\n", "line 1: list without a kind"),
        ('{"kind": "start", "run": "r1", "at": 0}\n', "lacks what is needed to restore: KeyError"),
        (
            '{"kind": "start", "run": "r1", "at": 0, "namespace": "kube-system", "plugin_namespace": "descheduler"}\n',
            "namespace 'kube-system' is not that of run 'r1'",
        ),
    ],
)
def test_a_journal_of_nonsense_is_named_and_nothing_is_done(acp: EmbeddedUnderTest, tmp_path: Path, text: str, says: str) -> None:
    before = cases.footprint(acp)
    (tmp_path / "journal-r1.jsonl").write_text(text)
    done = restore(acp, cases.NS, tmp_path)
    assert not done.done
    (complaint,) = done.complaints()
    assert says in complaint
    assert "journal-r1.jsonl" in complaint
    assert cases.footprint(acp) == before


def test_a_torn_last_line_is_no_obstacle(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = cases.footprint(acp)
    killed(acp, tmp_path, "bounded policy")
    acp.change(Edit(Verb.DELETE, CONFIGMAPS, mirror.PREFIX + "r1", cases.NS))
    path = tmp_path / "journal-r1.jsonl"
    path.write_text(path.read_text() + '{"n": 99, "ki')
    assert restore(acp, cases.NS, tmp_path, force=True).done
    assert cases.footprint(acp) == before
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()][-1] == "done"


def test_a_file_whose_run_was_undone_from_elsewhere_says_nothing_any_more(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    """The policy has become another since, and stays so."""
    killed(acp, tmp_path, "bounded policy")
    assert restore(acp, cases.NS, tmp_path / "elsewhere", force=True).done
    edit_policy(acp, policy_of(acp) + "# tuned since\n")
    before = cases.footprint(acp)
    told: list[str] = []
    assert restore(acp, cases.NS, tmp_path, say=told.append).done
    assert "run r1: was undone from elsewhere; nothing of it is left" in told
    assert cases.footprint(acp) == before
    assert restore(acp, cases.NS, tmp_path).runs == {}, "told once"


def test_a_file_whose_configmap_somebody_deleted_still_undoes_its_run(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    before = cases.footprint(acp)
    for why in ("stop the installed engine", "bounded policy", "run one descheduling cycle"):
        killed(acp, tmp_path, why)
        acp.change(Edit(Verb.DELETE, CONFIGMAPS, mirror.PREFIX + "r1", cases.NS))
        assert restore(acp, cases.NS, tmp_path, force=True).done
        acp.elapse(5)
        assert cases.footprint(acp) == before
        (tmp_path / "journal-r1.jsonl").unlink()


def test_a_journal_of_another_cluster_is_left_alone(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    killed(acp, tmp_path, "bounded policy")
    other = cases.start(seed=5)
    try:
        before = cases.footprint(other)
        done = restore(other, cases.NS, tmp_path)
        assert done.done
        assert not done.runs
        assert cases.footprint(other) == before
    finally:
        other.close()


def test_evidence_of_a_failed_run_is_kept_beside_the_certificate(tmp_path: Path) -> None:
    cluster = cases.start(defects=["no-evacuation"])
    try:
        record = cases.scenario(cluster, tmp_path).play()
        assert "last seen: VMI conditions" in record.stopped_because
        files = {Path(p).name for p in record.artifacts}
        assert {"virtualmachines.json", "virtualmachineinstances.json", "pods.json", "events.json"} <= files
        vmis = json.loads((tmp_path / "artifacts" / record.namespace / "virtualmachineinstances.json").read_text())
        assert any(dig(v, "status", "evacuationNodeName") for v in vmis)
        assert record.rollback.done
        assert not [v for v in cluster.world.store.list(VMIS) if name(v) == "vm-1"]
    finally:
        cluster.close()
