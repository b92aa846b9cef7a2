"""Whatever arrives, the server answers with a status below 500, stays up, and keeps its store unharmed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.embedded.api import authn
from fixtures.embedded.api.http import Request
from fixtures.embedded.clock import Clock
from fixtures.embedded.server import ApiServer
from fixtures.embedded.store import Store, copy
from fixtures.kube.resources import CONFIGMAPS, DEPLOYMENTS, PODS, Obj

EXAMPLES = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "80")),
    deadline=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8) | st.sampled_from(["a", "", "c", "1"])
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=15
)
WORDS = (
    "metadata spec status name namespace labels annotations finalizers containers template replicas selector data image "
    "ownerReferences env resourceVersion $patch $retainKeys kind apiVersion managedFields uid"
)
names = st.sampled_from(WORDS.split(" "))
objects = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)
pointers = st.lists(names | st.sampled_from(["0", "1", "-", "", "~0", "~1", "~2"]) | st.text(max_size=4), max_size=5).map(
    lambda parts: "/" + "/".join(parts)
)
operations = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]), "path": pointers | scalars},
        optional={"value": json_values, "from": pointers},
    ),
    max_size=5,
)
PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml")


class Direct:
    """Requests straight into the server, without a socket: thousands of examples stay cheap."""

    def __init__(self) -> None:
        self.clock = Clock(epoch=1_800_000_000)
        self.server = ApiServer(Store(self.clock, seed=1), self.clock)
        self.headers = {"authorization": f"Bearer {self.server.token('admin')}"}
        store = self.server.store
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        store.create(DEPLOYMENTS, {"metadata": {"name": "d", "namespace": "default"}, "spec": spec})
        store.create(CONFIGMAPS, {"metadata": {"name": "d", "namespace": "default"}, "data": {"a": "1"}})
        store.create(PODS, {"metadata": {"name": "d", "namespace": "default"}, "spec": template["spec"]})

    def __call__(self, method: str, path: str, body: Any = None, type_: str = "application/json", **query: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, query, {**self.headers, "content-type": type_, "user-agent": "fuzz/1"}, data)
        response = self.server._answer(request)
        crashes, self.server.crashes = self.server.crashes, []
        if crashes:
            raise crashes[0]
        assert response.code < 500 or b"field not declared in schema" in response.body
        if response.code >= 400 and response.content_type == "application/json":
            answer = json.loads(response.body)
            assert (answer["kind"], answer["code"]) == ("Status", response.code)
        return response.code, response.body

    def healthy(self) -> None:
        """Everything in the store can be listed, is addressed by its own name, and still has its kind."""
        for resource in (DEPLOYMENTS, CONFIGMAPS, PODS):
            for obj in self.server.store.list(resource):
                meta = obj["metadata"]
                assert (obj["kind"], obj["apiVersion"]) == (resource.kind, resource.api_version)
                assert self.server.store.get(resource, meta["namespace"], meta["name"]) is obj
                assert isinstance(meta["uid"], str)
            assert self("GET", resource.path())[0] == 200


@pytest.fixture(scope="module")
def direct() -> Iterator[Direct]:
    direct = Direct()
    yield direct
    direct.healthy()
    assert direct.server._users.authenticate(Request("GET", "/", {}, {})) is authn.ANONYMOUS


@pytest.mark.parametrize("resource", [DEPLOYMENTS, CONFIGMAPS, PODS], ids=lambda r: r.plural)
@EXAMPLES
@given(body=objects)
def test_created_objects(direct: Direct, resource: Any, body: Any) -> None:
    if isinstance(body, dict):
        body.pop("kind", None)
        body.pop("apiVersion", None)
    direct("POST", resource.path("default"), body, dryRun="All")


@pytest.mark.parametrize("type_", PATCHES)
@EXAMPLES
@given(body=objects, strict=st.booleans())
def test_patches(direct: Direct, type_: str, body: Any, strict: bool) -> None:
    query = {"fieldManager": "fuzz", "force": "true", "fieldValidation": "Strict" if strict else "Ignore"}
    direct("PATCH", DEPLOYMENTS.path("default", "d"), body, type_, **query)


@EXAMPLES
@given(body=operations)
def test_json_patches(direct: Direct, body: Any) -> None:
    for resource in (DEPLOYMENTS, CONFIGMAPS):
        direct("PATCH", resource.path("default", "d"), body, "application/json-patch+json")


@EXAMPLES
@given(change=st.dictionaries(names, objects, max_size=4), sub=st.sampled_from(["", "status", "scale"]))
def test_replaced_objects(direct: Direct, change: Obj, sub: str) -> None:
    current = direct.server.store.get(DEPLOYMENTS, "default", "d")
    assert current is not None
    body = {**copy(current), **change}
    direct("PUT", DEPLOYMENTS.path("default", "d", sub or None), body)


@EXAMPLES
@given(body=objects, sub=st.sampled_from(["eviction", "binding"]))
def test_subresources(direct: Direct, body: Any, sub: str) -> None:
    if isinstance(body, dict):
        for field in ("kind", "apiVersion"):
            body.pop(field, None)
    direct("POST", PODS.path("default", "d", sub), body, dryRun="All")


@EXAMPLES
@given(body=objects)
def test_reviews_and_delete_options(direct: Direct, body: Any) -> None:
    for kind in ("selfsubjectaccessreviews", "subjectaccessreviews", "selfsubjectrulesreviews"):
        direct("POST", f"/apis/authorization.k8s.io/v1/{kind}", body)
        direct("POST", f"/apis/authorization.k8s.io/v1/{kind}", {"spec": body})
    direct("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": body})
    direct("DELETE", CONFIGMAPS.path("default", "d"), body, dryRun="All")


@EXAMPLES
@given(body=objects, schema=objects)
def test_crds(direct: Direct, body: Any, schema: Any) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    names_ = {"plural": "xs", "kind": "X"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    direct("POST", path, body)
    direct(
        "POST",
        path,
        {"metadata": {"name": "xs.g"}, "spec": {"group": "g", "scope": "Cluster", "names": names_, "versions": [version]}},
    )
    direct("POST", "/apis/g/v1/xs", {"metadata": {"name": "x"}, "spec": body})
    direct("DELETE", f"{path}/xs.g")
    direct.clock.advance(1)


@EXAMPLES
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
    parts=st.lists(
        st.sampled_from(
            [
                "api",
                "apis",
                "v1",
                "namespaces",
                "default",
                "pods",
                "d",
                "apps",
                "deployments",
                "status",
                "log",
                "..",
                "%2e",
                "openapi",
                "v3",
                "",
            ]
        )
        | st.text(alphabet="abc%/.~\u00e9\x00", max_size=5),
        max_size=8,
    ),
)
def test_paths(direct: Direct, method: str, parts: list[str]) -> None:
    direct(method, "/" + "/".join(parts), dryRun="All")


@EXAMPLES
@given(
    labels=st.text(alphabet="ab=!(), in<>notx/", max_size=20),
    fields=st.text(alphabet="ab=!,.metadataname\\", max_size=20),
    limit=st.text(alphabet="0123456789-x", max_size=4),
    token=st.text(max_size=12),
    version=st.text(alphabet="0123456789x", max_size=25),
)
def test_list_queries(direct: Direct, *, labels: str, fields: str, limit: str, token: str, version: str) -> None:
    for query in ({"labelSelector": labels}, {"fieldSelector": fields}, {"limit": limit, "continue": token}):
        direct("GET", PODS.path("default"), **query)
    try:
        direct("GET", PODS.path("default"), resourceVersion=version)
    except AssertionError:
        assert version.isdigit()
        assert int(version) > direct.server.store.rv


@EXAMPLES
@given(body=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_bytes_of_every_type(direct: Direct, body: bytes) -> None:
    for type_ in ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf"):
        direct("POST", CONFIGMAPS.path("default"), body, type_, dryRun="All")
    for type_ in (*PATCHES, "application/json-patch+json"):
        direct("PATCH", CONFIGMAPS.path("default", "d"), body, type_, dryRun="All", fieldManager="fuzz")
