"""Lists in protobuf say the same as lists in JSON; encoded here from the vendored field table, not from the reader's own."""

from __future__ import annotations

import copy
import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fixtures.engine.reference.process.trimming import trimmed
from fixtures.kube import protobuf
from fixtures.kube.kubeconfig import Access
from fixtures.kube.resources import NODES, PODS
from fixtures.kube.transport import Client, NoAnswerError, Page
from tests.kube.test_transport import Handler, serve

OBJECTS = Path(__file__).parent / "objects"
TABLE = Path(__file__).parents[2] / "fixtures" / "embedded" / "data" / "protobuf.json.gz"
MESSAGES: dict[str, Any] = json.loads(gzip.decompress(TABLE.read_bytes()))["messages"]


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def part(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def value(number: int, kind: str, found: Any) -> bytes:
    if kind == "s":
        return part(number, str(found).encode())
    if kind in ("i", "t"):
        return varint(number << 3) + varint(int(found))
    return part(number, message(kind, found))


def message(kind: str, obj: Any) -> bytes:
    if kind.endswith((".Time", ".MicroTime")):
        return varint(8) + varint(int(datetime.fromisoformat(obj).timestamp()))
    if kind.endswith(".Quantity"):
        return part(1, str(obj).encode())
    if kind not in MESSAGES:
        return b""
    out = b""
    for number, (field, type_, flags) in MESSAGES[kind].items():
        if "n" in flags:
            out += part(int(number), message(type_, obj))
        elif obj.get(field) is None:
            continue
        elif "m" in flags:
            for key, item in obj[field].items():
                out += part(int(number), part(1, key.encode()) + value(2, type_, item))
        elif type_ in "sit" or type_ in MESSAGES or type_.endswith((".Time", ".Quantity")):
            for item in obj[field] if "r" in flags else [obj[field]]:
                out += value(int(number), type_, item)
    return out


def encoded(kind: str, items: list[dict[str, Any]], *, version: str = "77", more: str = "") -> bytes:
    meta = part(2, version.encode()) + part(3, more.encode())
    body = part(1, meta) + b"".join(part(2, message(f"k8s.io.api.core.v1.{kind}", item)) for item in items)
    return protobuf.MAGIC + part(1, part(1, b"v1") + part(2, f"{kind}List".encode())) + part(2, body)


def real(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((OBJECTS / f"{name}.yaml").read_text(encoding="utf-8"))
    return json.loads(json.dumps(found, default=str))


def agrees(compact: Any, full: Any, path: str = "") -> None:
    """Everything in ``compact`` is in ``full``."""
    if isinstance(compact, dict):
        for key, item in compact.items():
            assert key in full or item == {}, f"{path}.{key}"
            agrees(item, full.get(key, {}), f"{path}.{key}")
    elif isinstance(compact, list):
        assert len(compact) == len(full), path
        for number, (one, other) in enumerate(zip(compact, full, strict=True)):
            agrees(one, other, f"{path}[{number}]")
    else:
        assert compact == full, path


def test_a_real_pod_says_the_same() -> None:
    pod = real("pod-source-running")
    (found,), version, more = protobuf.page(encoded("Pod", [pod], more="tok"), "Pod")
    assert (version, more) == ("77", "tok")
    agrees(found, pod)
    lean = trimmed(copy.deepcopy(pod))
    for key in ("nodeName", "priority", "tolerations", "affinity", "nodeSelector", "volumes", "containers", "initContainers"):
        assert found["spec"][key] == lean["spec"][key], key
    for key in ("name", "namespace", "uid", "resourceVersion", "labels", "annotations"):
        assert found["metadata"][key] == lean["metadata"][key], key
    assert found["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["ownerReferences"][0]["uid"]
    assert found["status"] == {k: v for k, v in lean["status"].items() if k != "conditions"}


def test_a_real_node_says_the_same() -> None:
    node = real("node-worker-0")
    node["spec"] |= {
        "unschedulable": True,
        "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "c", "effect": "NoExecute"}],
    }
    (found,), _, _ = protobuf.page(encoded("Node", [node]), "Node")
    agrees(found, node)
    assert found["spec"] == {"unschedulable": True, "taints": node["spec"]["taints"]}
    assert found["status"]["allocatable"] == {k: str(v) for k, v in node["status"]["allocatable"].items()}
    assert [c["type"] for c in found["status"]["conditions"]] == [c["type"] for c in node["status"]["conditions"]]


def test_what_real_objects_lack() -> None:
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "uid": "u",
            "deletionTimestamp": "2026-01-02T03:04:05Z",
            "annotations": {"a": ""},
        },
        "spec": {
            "containers": [{"name": "c", "resources": {}}],
            "priority": -5,
            "overhead": {"cpu": "1m"},
            "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}},
            "resourceClaims": [{"name": "gpu"}],
            "volumes": [
                {"name": "h", "hostPath": {"path": "/x"}},
                {"name": "p", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "o"},
            ],
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "labelSelector": {
                                "matchLabels": {"a": "b"},
                                "matchExpressions": [{"key": "k", "operator": "In", "values": ["v", "w"]}],
                            },
                            "namespaces": ["x"],
                            "topologyKey": "kubernetes.io/hostname",
                        }
                    ]
                }
            },
        },
        "status": {"phase": "Failed", "reason": "Evicted"},
    }
    (found,), _, _ = protobuf.page(encoded("Pod", [pod]), "Pod")
    assert found["metadata"] | {"resourceVersion": ""} == pod["metadata"] | {"resourceVersion": ""}
    assert found["spec"] == pod["spec"]
    assert found["status"] == pod["status"]


def test_an_empty_list() -> None:
    items, version, more = protobuf.page(encoded("Pod", []), "Pod")
    assert (list(items), version, more) == ([], "77", "")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for body in (data, protobuf.MAGIC + data, protobuf.MAGIC + part(2, part(2, data))):
        for kind in ("Pod", "Node"):
            try:
                list(protobuf.page(body, kind)[0])
            except ValueError as refusal:
                if not str(refusal):
                    pytest.fail("an error without words")


class Compact(Handler):
    kind = "application/vnd.kubernetes.protobuf"

    def send_header(self, keyword: str, value: str) -> None:
        if keyword == "Content-Length":
            super().send_header("Content-Type", self.kind)
        super().send_header(keyword, value)


def test_the_client_asks_for_it_and_reads_it() -> None:
    handler = type("Fresh", (Compact,), {"seen": [], "paths": [], "body": encoded("Pod", [real("pod-source-running")], more="t")})
    server = serve(handler)
    try:
        client = Client(Access(f"http://127.0.0.1:{server.server_address[1]}"))
        page = client.page(PODS, limit=5)
        assert isinstance(page, Page)
        assert (next(iter(page.items))["metadata"]["name"], page.version, page.more) == ("virt-launcher-vm-a-nhg49", "77", "t")
        assert handler.seen[0]["Accept"] == "application/vnd.kubernetes.protobuf, application/json"
        handler.body = protobuf.MAGIC + part(2, b"\xff\xff\xff")
        with pytest.raises(NoAnswerError, match="cannot be read"):
            client.page(NODES, limit=5)
    finally:
        server.shutdown()
        server.server_close()
