"""The shipped manifests, filled in."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fixtures.scenario import manifests

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


def test_a_vm_prefers_the_source_and_stays_on_the_two_workers() -> None:
    vm = manifests.virtual_machine(name="v", ns="n", label=("app", "x"), workers=("a", "b"), prefer="a", priority_class="p")
    spec = vm["spec"]["template"]["spec"]
    affinity = spec["affinity"]["nodeAffinity"]
    required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]["matchExpressions"][0]
    assert required["values"] == ["a", "b"]
    assert affinity["preferredDuringSchedulingIgnoredDuringExecution"][0]["preference"]["matchExpressions"][0]["values"] == ["a"]
    assert vm["spec"]["template"]["metadata"]["labels"]["app"] == "x"
    assert spec["priorityClassName"] == "p"


def test_a_broken_manifest_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "namespace.yaml").write_text("a: [")
    monkeypatch.setattr(manifests, "FOLDER", tmp_path)
    with pytest.raises(manifests.BadManifest, match=r"vm-manifests/namespace\.yaml cannot be read as YAML"):
        manifests.namespace("x", "r")
