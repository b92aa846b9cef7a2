"""kind through pytest-kind: a script stands for the kind binary, an embedded cluster for what it makes."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import os
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from fixtures import option_values as value
from fixtures.cluster import installing
from fixtures.cluster import kind as kinds
from fixtures.cluster.api import Edit, Verb
from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.kube.objects import dig
from fixtures.kube.resources import CONFIGMAPS, KUBEVIRTS, NODES, Resource
from fixtures.options import Settings, UsageError
from fixtures.subjects import open_cluster

FAKE = """#!{python}
import pathlib, shutil, sys
home = pathlib.Path({home!r})
args = sys.argv[1:]
with (home / "calls").open("a") as calls:
    calls.write(" ".join(args) + "\\n")
options = dict(a.lstrip("-").split("=", 1) for a in args if "=" in a)
made = home / "made"
if (home / "no-runtime").exists():
    sys.exit('ERROR: failed to list clusters: command "docker ps" failed with error: Cannot connect to the Docker daemon')
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
    cluster = kinds.start_kind(Settings(cluster="kind", manifests=(home / "setup",)))
    assert cluster.get(CONFIGMAPS, "installed", ns="default")
    cluster.close()


def test_kubevirt_in_a_new_cluster_emulates_and_elsewhere_is_left_alone(home: Path) -> None:
    def emulates(cluster: kinds.KindUnderTest) -> bool:
        (found,) = cluster.list(KUBEVIRTS)
        return bool(dig(found, "spec", "configuration", "developerConfiguration", "useEmulation", default=False))

    cluster = kinds.start_kind(Settings(cluster="kind"))
    assert emulates(cluster)
    body = {"spec": {"configuration": {"developerConfiguration": {"useEmulation": False}}}}
    cluster.change(Edit(Verb.MERGE, KUBEVIRTS, "kubevirt", "kubevirt", body=body))
    cluster.close()
    (home / "made").write_text(kinds.NAME)
    cluster = kinds.start_kind(Settings(cluster="kind"))
    assert not emulates(cluster)
    cluster.close()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An https server that is trusted: ``/FILE`` is a file of the folder ``site``, ``/away`` leads to plain http."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    (tmp_path / "site").mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(tmp_path / "site"))

        def do_GET(self) -> None:
            if self.path != "/away":
                super().do_GET()
                return
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/manifest.yaml")
            self.end_headers()

        def copyfile(self, source: Any, outputfile: Any) -> None:
            with contextlib.suppress(OSError):  # a client that has read enough goes away
                super().copyfile(source, outputfile)

        def log_message(self, *_: Any) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""
WIDGET = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: first, namespace: default}}"


def test_manifests_are_fetched_and_applied_in_order(home: Path, site: str) -> None:
    (home / "site" / "crd.yaml").write_text(DEFINITION)
    (home / "widget.yaml").write_text(WIDGET)
    given = value.manifests(f"{site}/crd.yaml,{home / 'widget.yaml'}")
    cluster = kinds.start_kind(Settings(cluster="kind", manifests=given))
    assert cluster.get(Resource("example.com", "v1", "widgets", "Widget"), "first", ns="default")
    digest = hashlib.sha256(DEFINITION.encode()).hexdigest()
    assert cluster.remarks == (f"installed {site}/crd.yaml (sha256 {digest})",)
    cluster.close()


@pytest.mark.parametrize("said", ['error: no matches for kind "KubeVirt" in version "kubevirt.io/v1"', "failed calling webhook"])
def test_an_object_waits_for_its_kind_and_its_webhook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str) -> None:
    monkeypatch.setattr(installing, "_PAUSE", 0.0)
    tries: list[tuple[str, ...]] = []

    def kubectl(*words: str, stderr: int) -> str:
        tries.append(words)
        if len(tries) < 3:
            raise subprocess.CalledProcessError(1, ["kubectl", "apply"], stderr=said)
        return ""

    assert installing.install(kubectl, [tmp_path / "kubevirt.yaml"], tmp_path) == []
    assert len(tries) == 3
    monkeypatch.setattr(installing, "DEFINED_WITHIN", 0.0)
    tries.clear()
    with pytest.raises(subprocess.CalledProcessError):
        installing.install(kubectl, [tmp_path / "kubevirt.yaml"], tmp_path)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/nowhere.yaml", "/nowhere.yaml cannot be fetched: File not found"),
        ("/away", "/away cannot be fetched: it redirects to http://127.0.0.1:1/manifest.yaml, which is not https"),
        ("/huge.yaml", "/huge.yaml is larger than 0 MiB, so it is no manifest"),
    ],
)
def test_what_cannot_be_fetched_is_told_and_the_new_cluster_deleted(
    home: Path, site: str, monkeypatch: pytest.MonkeyPatch, path: str, says: str
) -> None:
    monkeypatch.setattr(installing, "LARGEST", 1000)
    (home / "site" / "huge.yaml").write_text("#" * 2000)
    with pytest.raises(UsageError) as told:
        kinds.start_kind(Settings(cluster="kind", manifests=value.manifests(site + path)))
    assert says in str(told.value)
    assert calls(home)[-1] == "delete cluster"


@pytest.mark.parametrize("text", ["http://example.com/x.yaml", "ftp://example.com/x", "https://jo:pw@example.com/x", "https://"])
def test_only_https_addresses_are_taken(text: str) -> None:
    with pytest.raises(UsageError, match="only https addresses, without user or password"):
        value.manifests(text)


def test_executables_and_image_of_pytest_kinds_own_options_are_used(home: Path) -> None:
    (home / "bin" / "kind").rename(home / "my-kind")
    own = {"kind_bin": str(home / "my-kind"), "kind_image": "kindest/node:v1.34.0"}
    cluster = open_cluster(Settings(cluster="kind"), own)
    created = next(c for c in (home / "calls").read_text().splitlines() if c.startswith("create"))
    assert "--image=kindest/node:v1.34.0" in created
    cluster.close()


def test_without_a_container_runtime_the_next_step_is_named(home: Path) -> None:
    (home / "no-runtime").touch()
    with pytest.raises(UsageError, match=r"Cannot connect to the Docker daemon; is a container runtime .* running\?"):
        kinds.start_kind(Settings(cluster="kind"))


def test_a_manifest_that_is_refused_is_told(home: Path) -> None:
    (home / "bad.yaml").write_text("apiVersion: v1\nkind: Nothing\nmetadata: {name: x}\n")
    with pytest.raises(UsageError, match=r"--cluster=kind: kubectl apply ended with status 1: error: error validating .*bad\.yaml"):
        kinds.start_kind(Settings(cluster="kind", manifests=(home / "bad.yaml",)))
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
