"""Launchers, VMs and VMIs: shape, requests by version, strategies, migratability, life."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.embedded.controllers.virt.subresources import VirtSubresources
from fixtures.embedded.ports import ApiError
from fixtures.kube.nodefit import BASIC
from fixtures.kube.objects import annotations_of, condition, dig, is_true, labels, name, owner, uid
from fixtures.kube.podresources import pod_requests
from fixtures.kube.resources import KUBEVIRTS, PODS, PVCS, VMIS, VMS, Obj
from tests.embedded.controllers.rig import NS, Rig, events

EMPTY_DIRS = ["private", "public", "sockets", "virt-bin-share-dir", "libvirt-runtime", "ephemeral-disks"]
MI = 1 << 20


def claim(rig: Rig, claim_name: str, mode: str) -> list[Obj]:
    spec = {"accessModes": [mode], "volumeName": "pv"}
    rig.store.create(PVCS, {"metadata": {"name": claim_name, "namespace": NS}, "spec": spec, "status": {"phase": "Bound"}})
    return [{"name": "root", "persistentVolumeClaim": {"claimName": claim_name}}]


def requests(pod: Obj) -> dict[str, int]:
    found = pod_requests(pod)
    return {"cpu": found["cpu"].milli(), "memory": found["memory"].value()}


@pytest.mark.parametrize(
    ("version", "mi"),
    [("1.3.0", 755), ("1.4.0", 755), ("1.5.0", 765), ("1.6.0", 781), ("1.7.0", 780), ("1.8.4", 780)],
)
def test_a_512mi_guest_on_a_claim_requests_what_the_release_adds(version: str, mi: int) -> None:
    rig = Rig(kubevirt_version=version, kubernetes="1.35")
    rig.running(volumes=claim(rig, "disk", "ReadWriteMany"))
    assert requests(rig.pods()[0]) == {"cpu": 100, "memory": mi * MI}


def test_kubevirt_1_9_on_kubernetes_1_36_counts_the_console_sidecar_and_mounts_images() -> None:
    rig = Rig()
    rig.running()
    pod = rig.pods()[0]
    assert requests(pod) == {"cpu": 105, "memory": 852_889_280}
    volumes = {v["name"]: next(k for k in v if k != "name") for v in pod["spec"]["volumes"]}
    assert volumes == {
        **dict.fromkeys([*EMPTY_DIRS, "hotplug-disks"], "emptyDir"),
        "root": "image",
        "launcher-volume": "image",
    }


def test_four_vcpus_by_request() -> None:
    rig = Rig()
    rig.running(domain={"memory": {"guest": "512Mi"}, "resources": {"requests": {"cpu": "4"}}})
    assert requests(rig.pods()[0]) == {"cpu": 4005, "memory": 804 * MI + 35_000_000}


def test_a_container_disk_has_a_sidecar_before_image_volumes() -> None:
    rig = Rig(kubevirt_version="1.8.4", kubernetes="1.35")
    rig.running()
    pod = rig.pods()[0]
    assert [c["name"] for c in pod["spec"]["containers"]] == ["compute", "volumeroot"]
    assert {"name": "container-disks", "emptyDir": {}} in pod["spec"]["volumes"]
    assert requests(pod) == {"cpu": 101, "memory": 780 * MI + 1_000_000}


def test_the_launcher_s_shape() -> None:
    rig = Rig(emulation=False)
    rig.running(annotations={"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}, priorityClassName="none-such")
    pod, vmi = rig.pods()[0], rig.vmi()
    assert name(pod).startswith("virt-launcher-vm-a-")
    assert labels(pod).items() >= {
        "app": "desched-test", "kubevirt.io": "virt-launcher", "kubevirt.io/created-by": uid(vmi), "vm.kubevirt.io/name": "vm-a",
        "vmi.kubevirt.io/id": "vm-a", "kubevirt.io/nodeName": vmi["status"]["nodeName"], "topology.kubernetes.io/zone": "zone-a",
    }.items()  # fmt: skip
    assert annotations_of(pod).items() >= {
        "kubevirt.io/domain": "vm-a", "descheduler.alpha.kubernetes.io/request-evict-only": "",
        "descheduler.alpha.kubernetes.io/prefer-no-eviction": "", "kubectl.kubernetes.io/default-container": "compute",
        "kubevirt.io/migrationTransportUnix": "true", "kubevirt.io/memory-overhead-bytes": str(268 * MI),
    }.items()  # fmt: skip
    assert not [k for k in annotations_of(pod) if k.endswith("observed-api-version")]
    assert owner(pod) == {
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm-a", "uid": uid(vmi), "controller": True,
        "blockOwnerDeletion": True,
    }  # fmt: skip
    spec = pod["spec"]
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Never", 60)
    assert spec["readinessGates"] == [{"conditionType": "kubevirt.io/virtual-machine-unpaused"}]
    assert spec["containers"][0]["resources"]["limits"] == {f"devices.kubevirt.io/{d}": "1" for d in ("kvm", "tun", "vhost-net")}
    assert vmi["metadata"]["finalizers"] == [
        "kubevirt.io/virtualMachineControllerFinalize", "kubevirt.io/foregroundDeleteVirtualMachine",
    ]  # fmt: skip
    assert dig(pod, "status", "qosClass") == "Burstable"


def test_the_target_s_extras() -> None:
    rig = Rig()
    rig.running()
    rig.mark()
    rig.clock.advance(1)
    source, target = rig.pods()
    vmim = rig.migrations_of()[0]
    assert labels(target)["kubevirt.io/migrationJobUID"] == uid(vmim)
    assert annotations_of(target)["kubevirt.io/migrationJobName"] == name(vmim)
    assert annotations_of(target)["kubevirt.io/eviction-source"] == "descheduler"
    assert "descheduler.alpha.kubernetes.io/eviction-in-progress" not in annotations_of(target)
    terms = target["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms[0]["labelSelector"]["matchLabels"] == {"kubevirt.io/created-by": uid(rig.vmi())}
    extra = target["spec"]["nodeSelector"].keys() - source["spec"]["nodeSelector"].keys()
    assert extra == {
        "cpu-feature.node.kubevirt.io/vmx", "cpu-model-migration.node.kubevirt.io/Skylake-Client",
        "cpu-vendor.node.kubevirt.io/Intel",
    }  # fmt: skip
    assert not is_true(target, "Ready")


@pytest.mark.parametrize(
    ("spec", "mode", "reason"),
    [
        ({}, None, ""),
        ({"networks": [], "domain": {"memory": {"guest": "1Gi"}}}, None, ""),
        ({"domain": {"devices": {"interfaces": [{"name": "default", "bridge": {}}]}}}, None, "InterfaceNotLiveMigratable"),
        ({"domain": {"devices": {"hostDevices": [{"name": "g"}]}}}, None, "HostDeviceNotLiveMigratable"),
        ({"volumes": []}, "ReadWriteMany", ""),
        ({"volumes": []}, "ReadWriteOnce", "DisksNotLiveMigratable"),
    ],
)
def test_live_migratable_and_why_not(spec: dict[str, Any], mode: str | None, reason: str) -> None:
    rig = Rig()
    if mode:
        spec = {**spec, "volumes": claim(rig, "disk", mode)}
    rig.running(**spec)
    found = condition(rig.vmi(), "LiveMigratable") or {}
    assert (found.get("status"), found.get("reason", "")) == (str(not reason), reason)
    method = {"ReadWriteMany": "LiveMigration"}.get(mode or "", "BlockMigration")
    assert dig(rig.vmi(), "status", "migrationMethod") == method


def test_live_migratable_is_told_only_when_the_guest_runs() -> None:
    rig = Rig()
    rig.vm()
    rig.wait(lambda: rig.store.get(VMIS, NS, "vm-a") and dig(rig.vmi(), "status", "phase") == "Scheduled")
    assert condition(rig.vmi(), "LiveMigratable") is None
    rig.clock.advance(1)
    assert is_true(rig.vmi(), "LiveMigratable")


def test_the_strategy_is_stamped_when_the_vmi_is_born() -> None:
    rig = Rig(strategy="LiveMigrateIfPossible")
    rig.running()
    kubevirt = rig.store.list(KUBEVIRTS)[0]
    rig.store.edit(KUBEVIRTS, "kubevirt", name(kubevirt), lambda k: k["spec"]["configuration"].pop("evictionStrategy"))
    rig.clock.advance(5)
    assert rig.vmi()["spec"]["evictionStrategy"] == "LiveMigrateIfPossible"
    VirtSubresources(rig.ctx).power(NS, "vm-a", "restart")
    rig.clock.advance(5)
    assert rig.vmi()["spec"]["evictionStrategy"] == "None"


def test_a_changed_template_wants_a_restart() -> None:
    rig = Rig()
    rig.running()
    rig.store.edit(VMS, NS, "vm-a", lambda v: v["spec"]["template"]["spec"].update(evictionStrategy="None"))
    rig.clock.advance(1)
    assert is_true(rig.store.get(VMS, NS, "vm-a") or {}, "RestartRequired")


@pytest.mark.parametrize("cluster", ["LiveMigrate", "Sometimes"])
def test_an_unknown_strategy_is_refused_with_its_field(cluster: str) -> None:
    rig = Rig(strategy=cluster)
    with pytest.raises(ApiError) as refused:
        rig.vm(**({} if cluster == "Sometimes" else {"evictionStrategy": "Sometimes"}))
    field = "spec.template.spec.evictionStrategy"
    text = f"{field} is set with an unrecognized option: Sometimes"
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert refused.value.message == f'admission webhook "virtualmachine-validator.kubevirt.io" denied the request: {text}'
    assert refused.value.details == {"causes": [{"reason": "FieldValueInvalid", "message": text, "field": field}]}


@pytest.mark.parametrize(
    ("strategy", "domain"), [("None", None), ("LiveMigrateIfPossible", {"devices": {"gpus": [{"name": "g"}]}})]
)
def test_an_allowed_eviction_restarts_the_vm_as_a_new_vmi(strategy: str, domain: Obj | None) -> None:
    rig = Rig()
    pod = rig.running(evictionStrategy=strategy, **({"domain": domain} if domain else {}))
    old = rig.vmi()
    assert rig.evict(pod) == (201, "")
    rig.clock.advance(5)
    assert uid(rig.vmi()) != uid(old)
    assert rig.vmi()["status"]["phase"] == "Running"
    assert rig.store.get(PODS, NS, pod) is None
    shown = [str(dig(c.object, "status", "printableStatus")) for c in rig.changes if c.resource.key == VMS.key]
    assert [v for i, v in enumerate(shown) if i == 0 or shown[i - 1] != v][-4:] == ["Running", "Stopped", "Starting", "Running"]
    stopped = f"Stopped the virtual machine by deleting the virtual machine instance {uid(old)}"
    assert ("SuccessfulDelete", stopped) in events(rig, "vm-a")


def test_only_kubevirt_writes_the_status_of_a_vmi() -> None:
    rig = Rig()
    rig.running()
    vmi = rig.vmi()
    forged = {**vmi, "status": {**vmi["status"], "evacuationNodeName": "worker-2"}}
    assert "evacuationNodeName" not in rig.update(VMIS, forged)["status"]
    ours = rig.update(VMIS, forged, user="system:serviceaccount:kubevirt:kubevirt-handler")
    assert ours["status"]["evacuationNodeName"] == "worker-2"


def test_markers_and_opt_outs_of_users_are_put_right() -> None:
    rig = Rig()
    pod = rig.running()
    wrong = {
        "descheduler.alpha.kubernetes.io/eviction-in-progress": "true",
        "descheduler.alpha.kubernetes.io/request-evict-only": "no",
    }
    rig.store.edit(PODS, NS, pod, lambda p: p["metadata"]["annotations"].update(wrong))
    opt_out = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
    rig.store.edit(VMIS, NS, "vm-a", lambda v: v["metadata"]["annotations"].update({opt_out: "x"}))
    rig.clock.advance(1)
    found = annotations_of(rig.pods()[0])
    assert "descheduler.alpha.kubernetes.io/eviction-in-progress" not in found
    assert found["descheduler.alpha.kubernetes.io/request-evict-only"] == ""
    assert found[opt_out] == "x"


def test_a_deleted_vm_takes_everything_with_it() -> None:
    rig = Rig()
    rig.running()
    rig.store.delete(VMS, NS, "vm-a")
    rig.clock.advance(3)
    assert rig.store.list(VMS) == rig.store.list(VMIS) == rig.store.list(PODS) == []


def test_a_halted_vm_does_not_start() -> None:
    rig = Rig()
    vm = {"metadata": {"name": "off"}, "spec": {"runStrategy": "Halted", "template": {"spec": {"domain": {}}}}}
    rig.create(VMS, vm)
    rig.clock.advance(2)
    assert rig.store.list(VMIS) == []
    assert dig(rig.store.get(VMS, NS, "off"), "status", "printableStatus") == "Stopped"
    VirtSubresources(rig.ctx).power(NS, "off", "start")
    rig.clock.advance(2)
    assert dig(rig.store.get(VMS, NS, "off"), "status", "printableStatus") == "Running"


def test_a_vm_that_fits_nowhere_says_so() -> None:
    rig = Rig()
    rig.vm(domain={"memory": {"guest": "512Gi"}})
    rig.clock.advance(2)
    assert dig(rig.store.get(VMS, NS, "vm-a"), "status", "printableStatus") == "ErrorUnschedulable"
    assert f"4 Insufficient {BASIC[1]}" in dig(condition(rig.pods()[0], "PodScheduled"), "message")
