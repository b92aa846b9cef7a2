"""The shipped manifests, filled in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fixtures.scenario import machines, manifests
from fixtures.scenario.vmsource import PAUSE, SHIPPED, Machine, VmSource

PROCEDURE_POLICY = """
apiVersion: "descheduler/v1alpha2"
kind: "DeschedulerPolicy"
nodeSelector: "kubernetes.io/hostname in (<worker-a>,<worker-b>)"
maxNoOfPodsToEvictPerNode: 1
maxNoOfPodsToEvictPerNamespace: 1
maxNoOfPodsToEvictTotal: 1
profiles:
- name: vm-rebalance
  pluginConfig:
  - name: DefaultEvictor
    args:
      nodeFit: true
      labelSelector:
        matchLabels:
          app: desched-test
      podProtections:
        defaultDisabled:
        - PodsWithLocalStorage
  - name: LowNodeUtilization
    args:
      thresholds:
        cpu: 70
        memory: 60
        pods: 20
      targetThresholds:
        cpu: 75
        memory: 68
        pods: 30
  plugins:
    balance:
      enabled:
      - LowNodeUtilization
"""


def test_the_shipped_policy_is_the_procedures() -> None:
    assert manifests.load("policy-bounded-vm-rebalance.yaml") == yaml.safe_load(PROCEDURE_POLICY)


def test_a_policy_is_filled_in() -> None:
    text = manifests.policy(workers=("a", "b"), label=("app", "x"), thresholds={"cpu": 10}, targets={"cpu": 20.5})
    found = yaml.safe_load(text)
    evictor, utilization = (c["args"] for c in found["profiles"][0]["pluginConfig"])
    assert found["nodeSelector"] == "kubernetes.io/hostname in (a,b)"
    assert evictor["labelSelector"] == {"matchLabels": {"app": "x"}}
    assert (utilization["thresholds"], utilization["targetThresholds"]) == ({"cpu": 10}, {"cpu": 20.5})


def test_an_old_release_gets_the_old_dialect() -> None:
    text = manifests.policy(workers=("a", "b"), label=("app", "x"), thresholds={}, targets={}, protections=False)
    evictor = yaml.safe_load(text)["profiles"][0]["pluginConfig"][0]["args"]
    assert "podProtections" not in evictor
    assert evictor["evictLocalStoragePods"] is True


def machine(source: VmSource, name: str = "v") -> Machine:
    return machines.placed(source, name=name, ns="n", label=("app", "x"), workers=("a", "b"), prefer="a", priority_class="p")


def test_a_vm_prefers_the_source_and_stays_on_the_two_workers() -> None:
    vm = machine(SHIPPED).vm
    spec = vm["spec"]["template"]["spec"]
    affinity = spec["affinity"]["nodeAffinity"]
    required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]["matchExpressions"][0]
    assert required["values"] == ["a", "b"]
    assert affinity["preferredDuringSchedulingIgnoredDuringExecution"][0]["preference"]["matchExpressions"][0]["values"] == ["a"]
    assert vm["spec"]["template"]["metadata"]["labels"]["app"] == "x"
    assert spec["priorityClassName"] == "p"


@pytest.mark.parametrize(
    ("source", "image"),
    [
        (SHIPPED, "quay.io/kubevirt/cirros-container-disk-demo:v1.8.4"),
        (VmSource(registry="harbor.example:5000/mirror"), "harbor.example:5000/mirror/kubevirt/cirros-container-disk-demo:v1.8.4"),
        (VmSource(image="harbor.example/fedora:42", registry="elsewhere"), "harbor.example/fedora:42"),
    ],
)
def test_images_come_from_where_the_user_says(source: VmSource, image: str) -> None:
    for pvc in (False, True):
        assert replace(source, claims=pvc).images() == [image]


@pytest.mark.parametrize(
    ("image", "there"),
    [
        (PAUSE, "r:5/pause:3.10"),
        ("docker.io/library/nginx", "r:5/library/nginx"),
        ("localhost/a/b@sha256:0", "r:5/a/b@sha256:0"),
        ("library/nginx:1", "r:5/library/nginx:1"),
        ("nginx", "r:5/nginx"),
    ],
)
def test_only_the_registry_of_an_image_changes(image: str, there: str) -> None:
    assert VmSource(registry="r:5").pulled_from(image) == there
    assert VmSource().pulled_from(image) == image


def test_each_vm_has_claims_of_its_own_of_the_class_that_was_asked_for() -> None:
    made = [machine(VmSource(claims=True, storage_class="nfs"), name) for name in ("vm-1", "vm-2")]
    claims = [c for m in made for c in m.claims]
    assert [(c["metadata"]["name"], c["metadata"]["namespace"]) for c in claims] == [("vm-1-data", "n"), ("vm-2-data", "n")]
    assert {c["spec"]["storageClassName"] for c in claims} == {"nfs"}
    assert {tuple(c["spec"]["accessModes"]) for c in claims} == {("ReadWriteMany",)}
    volumes = [{v["name"]: v for v in m.vm["spec"]["template"]["spec"]["volumes"]} for m in made]
    assert [v["data"]["persistentVolumeClaim"]["claimName"] for v in volumes] == ["vm-1-data", "vm-2-data"]
    assert VmSource(claims=True).storage_classes() == [""]
    assert machine(SHIPPED).claims == []


def test_data_volumes_of_an_edited_manifest_are_the_vms_own_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, vm = manifests.load_all("virtual-machine-pvc.yaml")
    wanted = {"storage": {"resources": {"requests": {"storage": "5Gi"}}}, "source": {"blank": {}}}
    vm["spec"]["dataVolumeTemplates"] = [{"metadata": {"name": "root"}, "spec": wanted}]
    vm["spec"]["template"]["spec"]["volumes"] = [{"name": "root", "dataVolume": {"name": "root"}}]
    (tmp_path / "virtual-machine-pvc.yaml").write_text(yaml.safe_dump(vm))
    monkeypatch.setattr(manifests, "FOLDER", tmp_path)
    source = VmSource(claims=True, storage_class="ceph")
    made = source.machine("vm-7", "n").vm
    assert made["spec"]["dataVolumeTemplates"][0]["metadata"]["name"] == "vm-7-root"
    assert made["spec"]["dataVolumeTemplates"][0]["spec"]["storage"]["storageClassName"] == "ceph"
    assert made["spec"]["template"]["spec"]["volumes"] == [{"name": "root", "dataVolume": {"name": "vm-7-root"}}]
    assert source.imports
    assert not VmSource(claims=False).claims


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: VirtualMachine\n", "has neither a PersistentVolumeClaim nor dataVolumeTemplates"),
        ("kind: Secret\n---\nkind: VirtualMachine\n", "holds Secret, VirtualMachine; wanted one VirtualMachine, and claims"),
        ("- a\n", "holds list, wanted objects"),
    ],
)
def test_a_manifest_with_claims_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    (tmp_path / "virtual-machine-pvc.yaml").write_text(text)
    monkeypatch.setattr(manifests, "FOLDER", tmp_path)
    with pytest.raises(manifests.BadManifest, match=says):
        VmSource(claims=True).machine("v", "n")


def test_the_policy_lets_vms_with_claims_move_whatever_it_was_edited_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = manifests.load("policy-bounded-vm-rebalance.yaml")
    evictor = found["profiles"][0]["pluginConfig"][0]["args"]
    evictor["podProtections"] |= {"extraEnabled": ["PodsWithPVC", "PodsWithoutPDB"], "config": {"PodsWithPVC": {}}}
    (tmp_path / "policy-bounded-vm-rebalance.yaml").write_text(yaml.safe_dump(found))
    monkeypatch.setattr(manifests, "FOLDER", tmp_path)
    text = manifests.policy(workers=("a", "b"), label=("app", "x"), thresholds={}, targets={})
    made = yaml.safe_load(text)["profiles"][0]["pluginConfig"][0]["args"]["podProtections"]
    assert made == {"defaultDisabled": ["PodsWithLocalStorage"], "extraEnabled": ["PodsWithoutPDB"], "config": {}}


def test_a_broken_manifest_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "namespace.yaml").write_text("a: [")
    monkeypatch.setattr(manifests, "FOLDER", tmp_path)
    with pytest.raises(manifests.BadManifest, match=r"vm-manifests/namespace\.yaml cannot be read as YAML"):
        manifests.namespace("x", "r")
