"""The eviction interceptor's decision table, by version."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.embedded.ports import ApiError
from fixtures.kube.objects import annotations_of, dig, name
from fixtures.kube.resources import ENDPOINTS, PODS, VALIDATING_WEBHOOKS, VMIMS, VMIS, Obj
from tests.embedded.controllers.rig import NS, Rig

WEBHOOK = 'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: '
TRIGGERED = f'{WEBHOOK}Eviction triggered evacuation of VMI "{NS}/vm-a"'
REPEAT = f'{WEBHOOK}Evacuation in progress: Eviction triggered evacuation of VMI "{NS}/vm-a"'
NOT_MIGRATABLE = f"{WEBHOOK}VMI vm-a is configured with an eviction strategy but is not live-migratable"
TARGET = f"{WEBHOOK}Eviction request for target Pod"
ALLOWED = (201, "")
BRIDGE: Obj = {"memory": {"guest": "512Mi"}, "devices": {"interfaces": [{"name": "default", "bridge": {}}]}}


def prepared(strategy: str, *, migratable: bool = True, marked: bool = False, version: str = "1.9.0") -> tuple[Rig, str]:
    """A rig with one running VM of that kind, and its launcher's name."""
    rig = Rig(kubevirt_version=version)
    pod = rig.running(evictionStrategy=strategy, **({} if migratable else {"domain": BRIDGE}))
    if marked:
        rig.store.edit(VMIS, NS, "vm-a", lambda v: v["status"].update(evacuationNodeName=v["status"]["nodeName"]))
    return rig, pod


@pytest.mark.parametrize(
    ("strategy", "migratable", "marked", "answer"),
    [
        ("None", True, False, ALLOWED),
        ("None", False, True, ALLOWED),
        ("LiveMigrate", False, False, (429, NOT_MIGRATABLE)),
        ("LiveMigrate", False, True, (429, NOT_MIGRATABLE)),
        ("LiveMigrate", True, False, (429, TRIGGERED)),
        ("LiveMigrate", True, True, (429, REPEAT)),
        ("LiveMigrateIfPossible", True, False, (429, TRIGGERED)),
        ("LiveMigrateIfPossible", True, True, (429, REPEAT)),
        ("LiveMigrateIfPossible", False, False, ALLOWED),
        ("LiveMigrateIfPossible", False, True, ALLOWED),
        ("External", True, False, (429, TRIGGERED)),
        ("External", False, False, (429, TRIGGERED)),
        ("External", True, True, (429, REPEAT)),
    ],
)
def test_strategy_migratability_and_marker_decide(strategy: str, migratable: bool, marked: bool, answer: tuple[int, str]) -> None:
    rig, pod = prepared(strategy, migratable=migratable, marked=marked)
    assert rig.evict(pod) == answer
    assert bool(dig(rig.vmi(), "status", "evacuationNodeName")) is (marked or answer[1] == TRIGGERED)


def test_an_unknown_recorded_strategy_falls_through() -> None:
    rig, pod = prepared("LiveMigrate")
    rig.store.edit(VMIS, NS, "vm-a", lambda v: v["spec"].update(evictionStrategy="Sometimes"))
    assert rig.evict(pod) == ALLOWED


@pytest.mark.parametrize("marked", [False, True])
def test_a_target_pod_is_refused(marked: bool) -> None:
    rig, _ = prepared("LiveMigrate")
    rig.create(VMIMS, {"metadata": {"name": "manual"}, "spec": {"vmiName": "vm-a"}})
    rig.wait(lambda: len(rig.pods()) == 2 and dig(rig.pods()[1], "status", "phase") == "Running")
    if marked:
        rig.mark()
    assert rig.evict(name(rig.pods()[1])) == (429, REPEAT if marked else TARGET)


def test_an_ended_launcher_may_go() -> None:
    rig, pod = prepared("LiveMigrate")
    rig.mark()
    rig.clock.advance(15)
    assert dig(rig.store.get(PODS, NS, pod), "status", "phase") == "Succeeded"
    assert rig.evict(pod) == ALLOWED


def launcher(rig: Rig, pod_name: str, **metadata: Any) -> None:
    labels = {"kubevirt.io": "virt-launcher"}
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "worker-0"}
    meta = {"name": pod_name, "namespace": NS, "labels": labels, **metadata}
    rig.store.create(PODS, {"metadata": meta, "spec": spec})


def test_pods_that_only_look_like_launchers() -> None:
    rig = Rig()
    launcher(rig, "virt-launcher-orphan", annotations={"kubevirt.io/domain": "ghost"})
    launcher(rig, "virt-launcher-plain")
    launcher(rig, "virt-launcher-other", labels={})
    launcher(rig, "renamed", annotations={"kubevirt.io/domain": "ghost"})
    missing = f'{WEBHOOK}kubevirt failed getting the vmi: virtualmachineinstances.kubevirt.io "ghost" not found'
    assert rig.evict("virt-launcher-orphan") == (429, missing)
    assert [rig.evict(p) for p in ("virt-launcher-plain", "virt-launcher-other", "renamed", "virt-launcher-gone")] == [ALLOWED] * 4


def hotplug(rig: Rig, pod_name: str, owners: list[str]) -> None:
    refs = [{"apiVersion": "v1", "kind": "Pod", "name": o, "uid": "u"} for o in owners]
    launcher(rig, pod_name, labels={"kubevirt.io": "hotplug-disk"}, ownerReferences=refs)


def test_attachment_pods_are_protected_whatever_the_strategy() -> None:
    rig, pod = prepared("None")
    hotplug(rig, "hp-volume-x1", [pod])
    hotplug(rig, "hp-volume-x2", ["gone"])
    hotplug(rig, "hp-volume-x3", [pod, "other"])
    text = f"cannot evict hotplug pod: hp-volume-x1 associated with running vmi: vm-a in namespace {NS}"
    refused = f'admission webhook "hotplug-pod-eviction-interceptor.kubevirt.io" denied the request: {text}'
    assert rig.evict("hp-volume-x1") == (429, refused)
    assert rig.evict("hp-volume-x2") == rig.evict("hp-volume-x3") == ALLOWED


def test_attachment_pods_were_not_protected_before_1_6_1() -> None:
    rig, pod = prepared("LiveMigrate", version="1.6.0")
    hotplug(rig, "hp-volume-x1", [pod])
    assert rig.evict("hp-volume-x1") == ALLOWED


@pytest.mark.parametrize("how", [{"dry_run": True}, {"deleteOptions": {"dryRun": ["All"]}}])
def test_a_dry_run_answers_alike_and_marks_nothing(how: dict[str, Any]) -> None:
    rig, pod = prepared("LiveMigrate")
    assert rig.evict(pod, **how) == (429, TRIGGERED)
    assert "evacuationNodeName" not in rig.vmi()["status"]


def test_a_wrong_uid_precondition_still_marks() -> None:
    rig, pod = prepared("LiveMigrate")
    assert rig.evict(pod, deleteOptions={"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}) == (429, TRIGGERED)
    assert rig.vmi()["status"]["evacuationNodeName"]


def test_source_annotation_and_node_are_one_write_and_only_for_the_descheduler() -> None:
    rig, pod = prepared("LiveMigrate")
    before = len(rig.changes)
    rig.evict(pod)
    assert len(rig.changes) == before + 1
    assert annotations_of(rig.vmi())["kubevirt.io/eviction-source"] == "descheduler"
    rig, pod = prepared("LiveMigrate")
    rig.evict(pod, descheduler=False)
    assert "kubevirt.io/eviction-source" not in annotations_of(rig.vmi())


@pytest.mark.parametrize(
    ("version", "repeat", "source", "value"),
    [
        ("1.3.0", ALLOWED, None, "kubevirt"),
        ("1.4.0", ALLOWED, None, "kubevirt"),
        ("1.5.2", (429, REPEAT), None, "kubevirt"),
        ("1.6.0", (429, REPEAT), None, "kubevirt"),
        ("1.6.1", (429, REPEAT), None, "true"),
        ("1.7.4", (429, REPEAT), "descheduler", "true"),
        ("1.8.4", (429, REPEAT), "descheduler", "true"),
        ("1.9.0", (429, REPEAT), "descheduler", "true"),
    ],
)
def test_versions_differ_in_repeats_source_and_marker(
    version: str, repeat: tuple[int, str], source: str | None, value: str
) -> None:
    rig, pod = prepared("LiveMigrate", version=version)
    assert rig.evict(pod) == (429, TRIGGERED)
    assert annotations_of(rig.vmi()).get("kubevirt.io/eviction-source") == source
    rig.clock.advance(1)
    assert annotations_of(rig.pods()[0])["descheduler.alpha.kubernetes.io/eviction-in-progress"] == value
    assert rig.evict(pod) == repeat


def test_no_registration_no_interception() -> None:
    rig, pod = prepared("LiveMigrate")
    rig.store.delete(VALIDATING_WEBHOOKS, None, "virt-api-validator")
    assert rig.evict(pod) == ALLOWED


def test_virt_api_down_fails_closed_or_open_by_version() -> None:
    rig, pod = prepared("LiveMigrate")
    rig.store.edit(ENDPOINTS, "kubevirt", "virt-api", lambda e: e.pop("subsets"))
    code, message = rig.evict(pod)
    assert code == 500
    assert message.startswith(
        'Internal error occurred: failed calling webhook "virt-launcher-eviction-interceptor.kubevirt.io": failed to call webhook: '
        'Post "https://virt-api.kubevirt.svc:443/pod-eviction-validate?timeout=10s": '
    )
    rig, pod = prepared("LiveMigrate", version="1.4.0")
    rig.store.edit(ENDPOINTS, "kubevirt", "virt-api", lambda e: e.pop("subsets"))
    assert rig.evict(pod) == ALLOWED


def test_a_rejected_mark_is_told() -> None:
    rig, pod = prepared("LiveMigrate")

    def refuse(*_: object, **__: object) -> Obj:
        raise ApiError(409, "the object has been modified")

    rig.store.edit = refuse  # type: ignore[method-assign]
    assert rig.evict(pod) == (429, f"{WEBHOOK}kubevirt failed marking the vmi for eviction: the object has been modified")
