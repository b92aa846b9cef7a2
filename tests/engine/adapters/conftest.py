import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.cluster.embedded import EmbeddedUnderTest, start_embedded
from fixtures.kube.resources import CRONJOBS
from fixtures.options import Settings
from tests.engine.fakeapi import FakeApi

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - name: DefaultEvictor
    args:
      podProtections: {defaultDisabled: [PodsWithLocalStorage]}
  - name: LowNodeUtilization
    args:
      thresholds: {cpu: 30, memory: 30}
      targetThresholds: {cpu: 50, memory: 50}
  plugins:
    balance: {enabled: [LowNodeUtilization]}
"""
REFUSED = 'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: '


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """n1 with seven VMs of 500m, n2 with one; every eviction is taken over by KubeVirt."""
    server = FakeApi()
    for node in ("n1", "n2"):
        server.put(
            "/api/v1/nodes",
            {
                "metadata": {"name": node},
                "spec": {},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
            },
        )
    for number in range(1, 9):
        server.create(launcher(number, "n1" if number < 8 else "n2"), 3600.0)

    def webhook(pod: dict[str, Any], eviction: dict[str, Any]) -> tuple[int, str]:
        domain = pod["metadata"]["annotations"]["kubevirt.io/domain"]
        return 429, f'{REFUSED}Eviction triggered evacuation of VMI "vms/{domain}"'

    server.webhook = webhook
    yield server
    server.close()


def launcher(number: int, node: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"virt-launcher-vm{number}-a",
            "namespace": "vms",
            "uid": f"uid-{number}",
            "labels": {"kubevirt.io": "virt-launcher"},
            "annotations": {
                "kubevirt.io/domain": f"vm{number}",
                "descheduler.alpha.kubernetes.io/request-evict-only": "",
            },
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "kind": "VirtualMachineInstance",
                    "name": f"vm{number}",
                    "uid": f"vmi-{number}",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "nodeName": node,
            "priority": number,
            "containers": [{"name": "compute", "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
        "status": {"phase": "Running"},
    }


@pytest.fixture
def policy() -> str:
    return POLICY


@pytest.fixture
def kubeconfig(api: FakeApi, tmp_path: Path) -> str:
    import yaml

    path = tmp_path / "kubeconfig.yaml"
    path.write_text(yaml.safe_dump(api.kubeconfig()))
    return str(path)


@pytest.fixture
def cluster() -> Iterator[EmbeddedUnderTest]:
    found = start_embedded(Settings())
    yield found
    found.close()


@pytest.fixture
def cronjob(cluster: EmbeddedUnderTest) -> dict[str, Any]:
    (found,) = cluster.list(CRONJOBS)
    return copy.deepcopy(found) | {"apiVersion": "batch/v1", "kind": "CronJob"}
