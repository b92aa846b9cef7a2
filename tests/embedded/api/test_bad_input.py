"""Bad input gets the status and message that a real API server gives, and the server stays up."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from fixtures.embedded.api.http import BODY_LIMIT
from fixtures.embedded.server import ApiServer
from fixtures.kube.resources import CONFIGMAPS

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(autouse=True)
def unharmed(server: ApiServer) -> Iterator[None]:
    """Whatever a test sends, the server still answers afterwards, and only what was accepted is in the store."""
    server.store.create(CONFIGMAPS, {"metadata": {"name": "kept", "namespace": "default"}})
    yield
    names = [obj["metadata"]["name"] for obj in server.store.list(CONFIGMAPS)]
    assert names == ["kept"]
    assert server.crashes == []


@pytest.mark.parametrize(
    ("body", "type", "status", "message"),
    [
        (
            b"{",
            "application/json",
            400,
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error",
        ),
        (b"", "application/json", 400, "the object provided is unrecognized"),
        (b"[1]", "application/json", 400, "json: cannot unmarshal array into Go value"),
        (b'"x"', "application/json", 400, "json: cannot unmarshal string into Go value"),
        (b"\xff\xfe", "application/json", 400, "json parse error"),
        (b"a: [", "application/yaml", 400, "error converting YAML to JSON: yaml:"),
        (b"a: &a [*a]", "application/yaml", 400, "excessive aliasing"),
        (b"k8s\x00\x0a\xff", "application/vnd.kubernetes.protobuf", 400, ""),
        (b"nonsense", "application/vnd.kubernetes.protobuf", 400, "does not appear to be a protobuf message"),
        (b"x", "text/csv", 415, "the body of the request was in an unknown format - accepted media types include"),
        ({"kind": "Secret"}, "application/json", 400, 'Secret in version "v1" cannot be handled as a ConfigMap'),
        (
            {"apiVersion": "v2"},
            "application/json",
            400,
            "the API version in the data (v2) does not match the expected API version (v1)",
        ),
        (
            {"metadata": {"name": "x", "namespace": "other"}},
            "application/json",
            400,
            "the namespace of the provided object does not match",
        ),
        ({"metadata": []}, "application/json", 400, "ObjectMeta"),
        ({"metadata": {}}, "application/json", 422, "name or generateName is required"),
        (
            {"metadata": {"name": 5}},
            "application/json",
            400,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        ({"metadata": {"name": "x", "labels": {"a": 1}}}, "application/json", 400, "json: cannot unmarshal number"),
        (
            {"metadata": {"name": "x", "labels": {"a b": "c"}}},
            "application/json",
            422,
            "name part must consist of alphanumeric characters",
        ),
        (
            {"metadata": {"name": "x"}, "data": "text"},
            "application/json",
            400,
            "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            {"metadata": {"name": "x", "resourceVersion": "7"}},
            "application/json",
            400,
            "resourceVersion should not be set on objects to be created",
        ),
    ],
)
@pytest.mark.provokes(415)
def test_bodies(http: Any, body: Any, type: str, status: int, message: str) -> None:
    code, answer, _ = http("POST", MAPS, body, type=type)
    assert (code, answer["kind"], answer["status"]) == (status, "Status", "Failure")
    assert message in answer["message"]


@pytest.mark.parametrize(
    ("patch", "type", "status", "message"),
    [
        ({"a": 1}, "application/json-patch+json", 400, "error decoding patch"),
        (
            [{"op": "remove", "path": "/nope"}],
            "application/json-patch+json",
            422,
            "the server rejected our request due to an error in our request",
        ),
        ([{"op": "dance", "path": "/data"}], "application/json-patch+json", 422, "the server rejected our request"),
        ([{"op": "add", "path": "x", "value": 1}], "application/json-patch+json", 422, "the server rejected our request"),
        (
            [{"op": "test", "path": "", "value": 1}] * 10_001,
            "application/json-patch+json",
            413,
            "The allowed maximum operations in a JSON patch is 10000, got 10001",
        ),
        ([1], "application/merge-patch+json", 400, "error decoding patch"),
        ({"metadata": {"name": "other"}}, "application/merge-patch+json", 400, "does not match the name on the URL (kept)"),
        ({"metadata": None}, "application/merge-patch+json", 400, "cannot be handled as a ConfigMap"),
        (
            {"data": {"a": 1}},
            "application/merge-patch+json",
            400,
            "json: cannot unmarshal number into Go struct field ConfigMap.data.a of type string",
        ),
        ({"metadata": {"resourceVersion": "1"}}, "application/merge-patch+json", 409, "the object has been modified"),
        ({}, "application/apply-patch+yaml", 400, "fieldManager: Required value"),
        ({}, "text/plain", 415, "accepted media types include: application/json-patch+json"),
    ],
)
@pytest.mark.provokes(415)
def test_patches(http: Any, patch: Any, type: str, status: int, message: str) -> None:
    code, answer, _ = http("PATCH", f"{MAPS}/kept", patch, type=type)
    assert code == status
    assert message in answer["message"]


@pytest.mark.parametrize("depth", [200, 300, 900, 1100, 50_000])
def test_deep_nesting_is_refused_not_a_crash(http: Any, depth: int) -> None:
    value = b'{"a":' * depth + b"1" + b"}" * depth
    for type_ in ("application/json", "application/yaml"):
        assert http("POST", MAPS, value, type=type_)[0] in (400, 422)
    for type_ in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
        assert http("PATCH", f"{MAPS}/kept?dryRun=All", value, type=type_)[0] in (200, 400)


@pytest.mark.provokes(404)
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1//pods",
        "/api/v1/namespaces/default/../kube-system/pods",
        "/api/v1/namespaces/default/%2e%2e/pods",
        "/api/v1/namespaces/default/pods/a%2fb",
        "/api/v1/namespaces/default/pods/%00",
        "/api/v1/unknown",
        "/apis/none/v1/things",
        "/api/v2/pods",
        "/apis/apps/v9/deployments",
        "/nothing",
        "/api/v1/watch/pods",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/configmaps/kept/unknown",
        "/openapi/v3/apis/none/v1",
        "/apis/none",
        "/openapi/v2",
        "/api/v1/namespaces/default/pods/p/exec",
    ],
)
def test_paths_that_lead_nowhere(http: Any, path: str) -> None:
    assert http("GET", path)[0] == 404


@pytest.mark.provokes(405)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{MAPS}/kept"),
        ("PUT", MAPS),
        ("PATCH", MAPS),
        ("DELETE", "/version"),
        ("GET", f"{PODS}/p/eviction"),
        ("POST", "/api/v1/configmaps"),
        ("BREW", MAPS),
    ],
)
def test_methods_that_do_not_exist(http: Any, method: str, path: str) -> None:
    code, body, _ = http(method, path, {} if method in ("POST", "PUT", "PATCH") else None)
    if method == "BREW":
        assert code == 400
    else:
        assert (code, body["reason"]) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=x", 400),
        ("continue=x", 400),
        ("labelSelector=a%3D%3D%3Db", 400),
        ("labelSelector=a%20in%20b", 400),
        ("labelSelector=%21", 400),
        ("fieldSelector=x%3D1", 400),
        ("fieldSelector=nonsense", 400),
        ("resourceVersion=x", 400),
        ("watch=1&timeoutSeconds=x", 400),
        ("resourceVersion=99999999", 504),
    ],
)
@pytest.mark.provokes(504)
def test_queries(http: Any, query: str, status: int) -> None:
    assert http("GET", f"{MAPS}?{query}")[0] == status


@pytest.mark.parametrize(("query", "status"), [("dryRun=Some", 422), ("fieldValidation=Loose", 400), ("gracePeriodSeconds=x", 400)])
def test_write_options(http: Any, query: str, status: int) -> None:
    assert (
        http(
            "DELETE" if "grace" in query else "POST",
            f"{MAPS}{'/kept' if 'grace' in query else ''}?{query}",
            {"metadata": {"name": "x"}},
        )[0]
        == status
    )


def test_body_beyond_the_limit_is_413_and_the_connection_lives(http: Any) -> None:
    body = {"metadata": {"name": "big"}, "data": {"x": "y" * BODY_LIMIT}}
    code, answer, _ = http("POST", MAPS, body)
    assert (code, answer["reason"]) == (413, "RequestEntityTooLarge")
    assert answer["message"] == "Request entity too large: limit is 3145728"
    assert http("GET", f"{MAPS}/kept")[0] == 200


def test_duplicate_and_unknown_fields(http: Any) -> None:
    body = b'{"metadata": {"name": "x", "nmae": "y"}, "data": {"a": "1", "a": "2"}}'
    code, answer, _ = http("POST", f"{MAPS}?fieldValidation=Strict", body)
    assert code == 400
    assert 'duplicate field "a"' in answer["message"]
    code, _, headers = http("POST", f"{MAPS}?dryRun=All", body)
    assert code == 201
    assert headers["Warning"] == '299 - "unknown field \\"metadata.nmae\\""'
    code, _, headers = http("POST", f"{MAPS}?dryRun=All&fieldValidation=Ignore", body)
    assert (code, "Warning" in headers) == (201, False)


@pytest.mark.provokes(406)
def test_accept_without_json_is_406(http: Any, server: ApiServer) -> None:
    code, body, _ = http("GET", f"{MAPS}/kept", Accept="text/html")
    assert (code, body["reason"]) == (406, "NotAcceptable")


def raw(server: ApiServer, data: bytes) -> bytes:
    context = ssl.create_default_context(cadata=server.ca_pem.decode())
    with (
        socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        secure.sendall(data)
        return b"".join(iter(lambda: secure.recv(65536), b""))


@pytest.mark.parametrize(
    "data", [b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 64, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n"]
)
def test_what_is_not_http_is_400(server: ApiServer, data: bytes) -> None:
    assert raw(server, data).startswith(b"HTTP/1.1 400 Bad Request")


def test_pipelined_requests_are_answered_in_order(server: ApiServer) -> None:
    answer = raw(server, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.index(b"\r\n\r\nok") < answer.index(b"gitVersion")


def test_plain_http_gets_nothing(server: ApiServer) -> None:
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=5) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert not plain.recv(100).startswith(b"HTTP/1.1 200")


def test_terminating_namespace_takes_nothing_new(http: Any, api: client.ApiClient, server: ApiServer) -> None:
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": "going", "finalizers": ["keep/it"]}})
    core.delete_namespace("going")
    code, body, _ = http("POST", "/api/v1/namespaces/going/configmaps", {"metadata": {"name": "x"}})
    assert code == 403
    assert "unable to create new content in namespace going because it is being terminated" in body["message"]
    assert body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
