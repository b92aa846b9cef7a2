"""Lists of Pods and Nodes in protobuf say what they say in JSON, read by two decoders; all else stays JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from fixtures.embedded.api import encoding, protobuf
from fixtures.embedded.server import ApiServer
from fixtures.embedded.tables import Entry
from fixtures.kube import kubeconfig as kubeconfigs
from fixtures.kube.protobuf import page
from fixtures.kube.resources import NODES, PODS, Obj
from fixtures.kube.transport import Client, Page
from tests.embedded.api.conftest import Http

HERE = Path(__file__).parent
POD_FILES = [*sorted((HERE / "recorded").glob("pod-*.yaml")), HERE.parents[1] / "kube" / "objects" / "pod-source-running.yaml"]
NODE_FILE = HERE.parents[1] / "kube" / "objects" / "node-worker-0.yaml"


def real(path: Path) -> Obj:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return json.loads(json.dumps(found, default=lambda at: at.isoformat().replace("+00:00", "Z")))


def filled(found: Any) -> Any:
    """Without nulls and empty objects, which the decoder drops where Go would."""
    if isinstance(found, dict):
        return {k: filled(v) for k, v in found.items() if v is not None and v != {}}
    return [filled(v) for v in found] if isinstance(found, list) else found


def decoded(entry: Entry, resource: Any) -> Obj:
    """What the API server itself reads out of an encoded item."""
    item = encoding._item(resource, entry)
    ((_, _, message),) = protobuf._fields(memoryview(item))
    head = encoding.field(1, b"v1") + encoding.field(2, resource.kind.encode())
    return protobuf.decode(protobuf.MAGIC + encoding.field(1, head) + encoding.field(2, bytes(message)))


@pytest.mark.parametrize("path", POD_FILES, ids=lambda path: path.stem)
def test_a_recorded_pod_survives_the_way_there_and_back(path: Path) -> None:
    pod = real(path)
    assert filled(decoded(Entry(pod, 1), PODS)) == filled(pod)


def test_a_recorded_node_survives_the_way_there_and_back() -> None:
    node = real(NODE_FILE)
    assert filled(decoded(Entry(node, 1), NODES)) == filled(node | {"apiVersion": "v1", "kind": "Node"})


def test_values_of_every_type() -> None:
    probe = {"httpGet": {"port": 80}, "initialDelaySeconds": -1}
    named = {"tcpSocket": {"port": "web"}}
    container = {"name": "c", "env": [{"name": "ß", "value": "…"}], "livenessProbe": probe, "readinessProbe": named}
    fields = {"f:metadata": {"f:labels": {".": {}}}}
    managed = [{"manager": "m", "operation": "Update", "fieldsV1": fields, "time": "2026-01-02T03:04:05Z"}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": ""}, "managedFields": managed, "deletionGracePeriodSeconds": 0},
        "spec": {
            "containers": [container],
            "ephemeralContainers": [{"name": "e", "image": "i", "targetContainerName": "c"}],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "n", "optional": False}}],
            "priority": -7,
            "terminationGracePeriodSeconds": 1 << 40,
            "overhead": {"cpu": "1m"},
        },
    }
    assert decoded(Entry(pod, 1), PODS) == pod


def test_unknown_fields_and_nulls_are_left_out() -> None:
    pod = {"metadata": {"name": "p", "creationTimestamp": None}, "spec": {"containers": [], "x": 1}}
    assert decoded(Entry(pod, 1), PODS) == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


@pytest.fixture
def engine(server: ApiServer) -> Iterator[Client]:
    """The client that the engine has."""
    found = Client(kubeconfigs.access(server.kubeconfig()))
    yield found
    found.close()


def test_pages_of_a_list(server: ApiServer, engine: Client, pod: Any) -> None:
    for n in range(5):
        server.store.create(PODS, pod(f"p{n}", {"n": str(n)}))
    names: list[str] = []
    token, sizes = "", []
    while True:
        found = engine.page(PODS, limit=2, token=token)
        assert isinstance(found, Page)
        these = [item["metadata"]["name"] for item in found.items]
        names += these
        sizes.append(len(these))
        token = found.more
        if not token:
            break
    assert (names, sizes, found.version) == ([f"p{n}" for n in range(5)], [2, 2, 1], str(server.store.rv))


def test_an_object_that_changed_is_encoded_anew(server: ApiServer, engine: Client, pod: Any) -> None:
    server.store.create(PODS, pod("p"))
    assert isinstance(engine.page(PODS, limit=5), Page)
    server.store.edit(PODS, "default", "p", lambda o: o["metadata"].update(labels={"new": "yes"}))
    found = engine.page(PODS, limit=5)
    assert isinstance(found, Page)
    assert next(iter(found.items))["metadata"]["labels"] == {"new": "yes"}


PODS_PATH, NODES_PATH = "/api/v1/pods", "/api/v1/nodes"
COMPACT, JSON = "application/vnd.kubernetes.protobuf", "application/json"


def content_type(http: Http, path: str, accept: str) -> str:
    status, _, headers = http("GET", path, Accept=accept)
    assert status == 200
    return str(headers["Content-Type"])


@pytest.mark.parametrize(
    ("path", "accept", "wanted"),
    [
        (PODS_PATH, f"{COMPACT}, {JSON}", COMPACT),
        (PODS_PATH, f"{COMPACT},{JSON}", COMPACT),
        (PODS_PATH, COMPACT, COMPACT),
        (NODES_PATH, COMPACT, COMPACT),
        (f"{PODS_PATH}?labelSelector=a%3Db", COMPACT, COMPACT),
        ("/api/v1/namespaces/default/pods", COMPACT, COMPACT),
        (PODS_PATH, f"{JSON}, {COMPACT}", JSON),
        (PODS_PATH, f"{COMPACT};as=Table;g=meta.k8s.io;v=v1, {JSON}", JSON),
        (PODS_PATH, "*/*", JSON),
        ("/api/v1/namespaces", f"{COMPACT}, {JSON}", JSON),
        ("/api/v1/namespaces/default", f"{COMPACT}, {JSON}", JSON),
        (f"{PODS_PATH}?watch=1&timeoutSeconds=1", f"{COMPACT}, {JSON}", JSON),
    ],
)
def test_the_form_is_what_the_client_prefers(http: Http, path: str, accept: str, wanted: str) -> None:
    assert content_type(http, path, accept) == wanted


@pytest.mark.provokes(406)
def test_what_has_no_such_form_is_refused_to_those_who_want_no_other(http: Http) -> None:
    assert http("GET", "/api/v1/namespaces", Accept=COMPACT)[0] == 406


def test_selectors_and_counts_apply(server: ApiServer, http: Http, pod: Any) -> None:
    for n in range(3):
        server.store.create(PODS, pod(f"p{n}", {"odd": str(n % 2)}))

    def names(query: str) -> list[str]:
        answer: urllib3.BaseHTTPResponse = http.pool.urlopen(
            "GET", f"{PODS_PATH}?{query}", headers={**http.headers, "Accept": COMPACT}
        )
        return [item["metadata"]["name"] for item in page(answer.data, "Pod")[0]]

    assert names("labelSelector=odd%3D0") == ["p0", "p2"]
    assert names("fieldSelector=metadata.name%3Dp1") == ["p1"]
    assert names("labelSelector=odd%3D7") == []


def test_a_list_out_of_the_watch_cache_has_no_pages(server: ApiServer, http: Http, pod: Any) -> None:
    for n in range(3):
        server.store.create(PODS, pod(f"p{n}"))
    for query, size in (("limit=2&resourceVersion=0", 3), ("limit=2", 2)):
        assert len(http("GET", f"{PODS_PATH}?{query}")[1]["items"]) == size
