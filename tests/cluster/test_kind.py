"""kind through pytest-kind: a script stands for the kind binary, an embedded cluster for what it makes."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fixtures.cluster import kind as kinds
from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.kube.resources import CONFIGMAPS, KUBEVIRTS, NODES
from fixtures.options import Settings, UsageError

FAKE = """#!{python}
import pathlib, shutil, sys
home = pathlib.Path({home!r})
args = sys.argv[1:]
with (home / "calls").open("a") as calls:
    calls.write(" ".join(args) + "\\n")
options = dict(a.lstrip("-").split("=", 1) for a in args if "=" in a)
made = home / "made"
if args[:2] == ["get", "clusters"]:
    print(made.read_text() if made.exists() else "")
elif args[:2] == ["create", "cluster"]:
    made.write_text(options["name"])
    shutil.copy(home / "kubeconfig", options["kubeconfig"])
elif args[:2] == ["delete", "cluster"]:
    made.unlink()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a fake kind on the PATH, in front of an embedded cluster whose clock runs."""
    kubectl = shutil.which("kubectl", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if kubectl is None:
        pytest.skip("no kubectl beside the interpreter or on the PATH")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "kind").write_text(FAKE.format(python=sys.executable, home=str(tmp_path)))
    (tools / "kind").chmod(0o755)
    (tools / "kubectl").symlink_to(kubectl)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.chdir(tmp_path)
    with EmbeddedCluster(platform="upstream") as world:
        world.clock.run_scaled(20)
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(world.kubeconfig()))
        yield tmp_path
        world.clock.stop_scaled()


def calls(home: Path) -> list[str]:
    return [" ".join(line.split()[:2]) for line in (home / "calls").read_text().splitlines()]


def test_a_cluster_of_three_nodes_is_made_used_and_deleted(home: Path) -> None:
    cluster = kinds.start_kind(Settings(cluster="kind"))
    assert len(cluster.list(NODES)) == 3
    assert cluster.list(KUBEVIRTS)
    cluster.close()
    assert calls(home)[-1] == "delete cluster"
    created = next(c for c in (home / "calls").read_text().splitlines() if c.startswith("create"))
    roles = [n["role"] for n in yaml.safe_load(Path(created.split("--config ")[1]).read_text())["nodes"]]
    assert roles == ["control-plane", "worker", "worker"]


def test_a_cluster_that_was_there_stays(home: Path) -> None:
    (home / "made").write_text(kinds.NAME)
    (home / ".pytest-kind" / kinds.NAME).mkdir(parents=True)
    shutil.copy(home / "kubeconfig", home / ".pytest-kind" / kinds.NAME / "kubeconfig")
    kinds.start_kind(Settings(cluster="kind")).close()
    assert "delete cluster" not in calls(home)


def test_manifests_are_installed(home: Path) -> None:
    (home / "setup").mkdir()
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "installed", "namespace": "default"}}
    (home / "setup" / "cm.yaml").write_text(yaml.safe_dump(manifest))
    cluster = kinds.start_kind(Settings(cluster="kind", manifests=home / "setup"))
    assert cluster.get(CONFIGMAPS, "installed", ns="default")
    cluster.close()


def test_a_manifest_that_is_refused_is_told(home: Path) -> None:
    (home / "bad.yaml").write_text("apiVersion: v1\nkind: Nothing\nmetadata: {name: x}\n")
    with pytest.raises(UsageError, match=r"--cluster=kind: kubectl apply ended with status 1: error: error validating .*bad\.yaml"):
        kinds.start_kind(Settings(cluster="kind", manifests=home / "bad.yaml"))
    assert calls(home)[-1] == "delete cluster"


def test_a_global_cluster_that_does_not_answer_is_told_before_a_cluster_is_made(home: Path) -> None:
    other = yaml.safe_load((home / "kubeconfig").read_text())
    other["clusters"][0]["cluster"] = {"server": "http://127.0.0.1:1"}
    (home / "global").write_text(yaml.safe_dump(other))
    with pytest.raises(UsageError, match=r"--global-kubeconfig: no answer from .*127\.0\.0\.1:1"):
        kinds.start_kind(Settings(cluster="kind", global_kubeconfig=home / "global"))
    assert not (home / "calls").exists()


def test_without_kind_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="kind and kubectl not found on PATH"):
        kinds.start_kind(Settings(cluster="kind"))


def test_without_pytest_kind_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pytest_kind", None)
    with pytest.raises(UsageError, match=r"pip install 'vm-rebalance-conformance\[kind\]'"):
        kinds.start_kind(Settings(cluster="kind"))
