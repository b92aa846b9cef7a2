"""Test VMs with claims and from other registries, on a cluster: what works, and what is refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.embedded.world import World
from fixtures.kube.objects import dig
from fixtures.kube.resources import PVCS, STORAGECLASSES, VMIS
from fixtures.scenario import manifests
from fixtures.scenario.decisions import try_all
from fixtures.scenario.record import Reached, ScenarioRecord
from fixtures.scenario.vmsource import VmSource
from tests.certifying import certify
from tests.scenario import cases

CLAIMS = VmSource(claims=True)


def play(folder: Path, source: VmSource, **options: Any) -> tuple[ScenarioRecord, list[Any]]:
    """One play that leaves nothing, and the VMIs' migration methods and claims as they were seen."""
    cluster = cases.start(**options)
    seen: list[Any] = []

    def look(change: Any) -> None:
        if change.resource.key == VMIS.key and dig(change.object, "metadata", "namespace") == "rebalance-conformance-r1":
            seen.append(change.object)

    try:
        cluster.world.store.subscribe(look)
        before = cases.footprint(cluster)
        record = cases.scenario(cluster, folder, source=source).play()
        cluster.elapse(5)
        assert cases.footprint(cluster) == before
        assert not cluster.world.store.list(PVCS, "rebalance-conformance-r1")
        return record, seen
    finally:
        cluster.close()


@pytest.mark.parametrize("options", [{}, {"descheduler": "0.33.0", "kubevirt": "1.6.1"}], ids=["newest", "old dialect"])
def test_vms_with_shared_claims_migrate(tmp_path: Path, options: dict[str, str]) -> None:
    found = {"protections": False, "descheduler_version": "0.33.0"} if options else {}
    cluster = cases.start(**options)
    try:
        record = cases.scenario(cluster, tmp_path, source=CLAIMS, **found).play()
        assert record.reached is Reached.ROLLED_BACK, record.stopped_because
        assert len(record.moves) == record.planned_moves
    finally:
        cluster.close()


def test_a_class_that_cannot_share_is_told_with_the_claim(tmp_path: Path) -> None:
    record, _ = play(tmp_path, VmSource(claims=True, storage_class="local"))
    assert record.stopped_at is Reached.VMS_READY
    wanted = "PersistentVolumeClaim vm-1-data is Pending: can StorageClass local give ReadWriteMany in volume mode Block?"
    assert wanted in record.stopped_because
    assert "pod has unbound immediate PersistentVolumeClaims" in record.stopped_because


def test_an_unshared_claim_is_told_as_kubevirt_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = manifests.load_all

    def unshared(name: str) -> list[Any]:
        found = shared(name)
        for obj in found:
            if obj["kind"] == "PersistentVolumeClaim":
                obj["spec"]["accessModes"] = ["ReadWriteOnce"]
        return found

    monkeypatch.setattr(manifests, "load_all", unshared)
    record, seen = play(tmp_path, VmSource(claims=True, storage_class="local"))
    assert "LiveMigratable': 'False DisksNotLiveMigratable'" in record.stopped_because
    assert {dig(v, "status", "migrationMethod") for v in seen} == {None, "BlockMigration"}


def no_default(world: World) -> None:
    world.find(STORAGECLASSES, "rbd")["metadata"]["annotations"] = {}


def no_class(world: World) -> None:
    for name in ("rbd", "nfs", "local"):
        world.drop(STORAGECLASSES, name)


REFUSALS: dict[str, tuple[VmSource, Callable[[World], None] | None, str]] = {
    "unknown": (VmSource(claims=True, storage_class="fast"), None, "StorageClass fast of the test VMs' claims does not exist"),
    "no default": (CLAIMS, no_default, "none is the default; --vm-storage-class may be local, nfs, rbd"),
    "none": (CLAIMS, no_class, "none is the default; there are none"),
}


@pytest.mark.parametrize("why", REFUSALS)
def test_storage_that_is_not_there_is_refused_before_anything_is_touched(tmp_path: Path, why: str) -> None:
    source, prepare, says = REFUSALS[why]
    record, _ = play(tmp_path, source, prepare=prepare)
    assert record.stopped_at is Reached.PREFLIGHT
    assert says in record.stopped_because


def test_data_volumes_without_cdi_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VmSource, "imports", property(lambda _: True))
    record, _ = play(tmp_path, CLAIMS)
    assert "has dataVolumeTemplates, but datavolumes.cdi.kubevirt.io is not served; install CDI" in record.stopped_because


def test_an_image_that_cannot_be_pulled_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    record, _ = play(tmp_path, VmSource(), faults=["image-unreachable"])
    assert record.stopped_at is Reached.PREFLIGHT
    for node in ("worker-a", "worker-b"):
        assert f"image quay.io/kubevirt/cirros-container-disk-demo:v1.8.4 cannot be pulled on {node}: ImagePullBackOff: " in str(
            record.stopped_because
        )
    assert "name one that can be pulled with --vm-image, or a registry that has it with --vm-registry" in record.stopped_because


def test_an_air_gapped_cluster_is_certified_from_its_own_registry(tmp_path: Path) -> None:
    record, _ = play(tmp_path, VmSource(registry="harbor.example:5000/mirror"), faults=["image-unreachable:quay.io/kubevirt/c"])
    assert record.reached is Reached.ROLLED_BACK, record.stopped_because


def test_a_decision_table_whose_image_is_missing_does_not_wait(tmp_path: Path) -> None:
    cluster = cases.start(faults=["image-unreachable"])
    try:
        begun = cluster.now()
        found = try_all(cluster, "r1", [])
        assert cluster.now() - begun < 120
        assert "ImagePullBackOff" in found.rows["none"].trouble
    finally:
        cluster.close()


@pytest.mark.slow
def test_everything_passes_with_claims_of_another_class(tmp_path: Path) -> None:
    """The shipped policy moves none of our VMs then (BGE-5), our own policy does."""
    shared = ("--vm-disk=pvc", "--vm-storage-class=nfs", "--vm-volume-mode=Filesystem")
    found = certify(tmp_path, *shared, "--check=POL-2,REN-2,INT,BGE,MIG,HCO-7,ACP-2")
    assert found.those("failed", "skipped", "inconclusive") == set(), found.output
    assert found.those("passed") >= {"BGE-5", "MIG-7", "INT-5"}
