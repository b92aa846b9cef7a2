"""Who the guest is: told by its agent where there is one, and said to be unknown where not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.cluster.embedded import EmbeddedUnderTest
from fixtures.embedded.controllers.base import drop_condition
from fixtures.kube.resources import VMIS, Obj
from fixtures.scenario import guest, vmsource
from fixtures.scenario.record import Guest, Reached
from fixtures.scenario.vmsource import Machine, VmSource
from tests.scenario import cases


@pytest.fixture
def acp() -> Iterator[EmbeddedUnderTest]:
    cluster = cases.start()
    yield cluster
    cluster.close()


def without_agent(vmi: Obj) -> None:
    drop_condition(vmi, "AgentConnected")


def test_a_guest_without_agent_is_unknown_and_waited_for_only_when_asked_to(acp: EmbeddedUnderTest) -> None:
    acp.world.store.edit(VMIS, "tenant-a", "erp-db", without_agent)
    begun = acp.now()
    found = guest.ask(acp, "tenant-a", "erp-db")
    assert acp.now() == begun
    assert found.boot_id == ""
    assert "its agent does not answer (409 Conflict: " in found.unknown
    assert "VMI does not have guest agent connected" in found.unknown
    assert guest.ask(acp, "tenant-a", "erp-db", within=30) == found
    assert 30 <= acp.now() - begun <= 40


def test_a_guest_of_another_name_is_unknown(acp: EmbeddedUnderTest) -> None:
    assert guest.ask(acp, "tenant-a", "erp-db") == Guest(
        unknown="its hostname 'erp-db' is not the boot id that the manifest's cloud-init makes it"
    )


def test_guests_that_move_are_recognised(acp: EmbeddedUnderTest, tmp_path: Path) -> None:
    record = cases.scenario(acp, tmp_path, source=VmSource(image="quay.io/containerdisks/fedora:42")).play()
    assert record.reached is Reached.ROLLED_BACK, record.stopped_because
    before = {vm.name: vm.guest.boot_id for vm in record.vms}
    assert len(set(before.values())) == len(record.vms)
    assert {m.vm: m.guest.boot_id for m in record.moves}.items() <= before.items()


def test_a_run_without_identities_is_as_good(acp: EmbeddedUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = VmSource.machine

    def plain(self: VmSource, vm_name: str, ns: str) -> Machine:
        found = made(self, vm_name, ns)
        spec = found.vm["spec"]["template"]["spec"]
        for where in (spec["volumes"], spec["domain"]["devices"]["disks"]):
            where[:] = [v for v in where if v["name"] != "identity"]
        return found

    monkeypatch.setattr(vmsource.VmSource, "machine", plain)
    record = cases.scenario(acp, tmp_path).play()
    assert record.reached is Reached.ROLLED_BACK, record.stopped_because
    assert {vm.guest.boot_id for vm in record.vms} == {m.guest.boot_id for m in record.moves} == {""}
