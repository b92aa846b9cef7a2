"""Bodies as Go clients send them: a small encoder over the vendored field table proves the decoder on whole objects."""

from __future__ import annotations

import base64
import contextlib
import struct
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.embedded.api import protobuf
from fixtures.embedded.clock import parse
from fixtures.kube.resources import Obj

MESSAGES: Obj = protobuf.table()["messages"]
KINDS: Obj = protobuf.table()["kinds"]
META = "k8s.io.apimachinery.pkg.apis.meta.v1."


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def scalar(number: int, type_: str, value: Any) -> bytes:
    match type_:
        case "s":
            return field(number, value.encode())
        case "b":
            return field(number, base64.b64decode(value))
        case "t" | "i":
            return varint(number << 3) + varint(int(value))
        case "d":
            return varint(number << 3 | 1) + struct.pack("<d", value)
    return field(number, message(type_, value))


def message(name: str, value: Any) -> bytes:
    if name.endswith("resource.Quantity"):
        return field(1, value.encode())
    if name == f"{META}Time":
        return varint(1 << 3) + varint(int(parse(value))) if value else b""
    if name == f"{META}MicroTime":
        at = parse(value)
        return varint(1 << 3) + varint(int(at)) + varint(2 << 3) + varint(round(at % 1 * 1e6) * 1000)
    if name.endswith("IntOrString"):
        if isinstance(value, str):
            return varint(8) + varint(1) + field(3, value.encode())
        return varint(8) + varint(0) + varint(16) + varint(value)
        return (
            varint(8)
            + varint(int(isinstance(value, str)))
            + (field(3, value.encode()) if isinstance(value, str) else varint(16) + varint(value))
        )
    if name.endswith((".JSON", ".RawExtension", ".FieldsV1")):
        return field(1, orjson.dumps(value))
    out = b""
    for number, (json, type_, flags) in MESSAGES[name].items():
        if "n" in flags:
            out += field(int(number), message(type_, value))
        elif json not in value:
            continue
        elif "m" in flags:
            for key, part in value[json].items():
                out += field(int(number), field(1, key.encode()) + scalar(2, type_, part))
        elif "r" in flags:
            out += b"".join(scalar(int(number), type_, part) for part in value[json])
        else:
            out += scalar(int(number), type_, value[json])
    return out


def encode(obj: Obj) -> bytes:
    group, _, version = obj["apiVersion"].rpartition("/")
    name = KINDS["/".join((group, version, obj["kind"]))]
    head = field(1, obj["apiVersion"].encode()) + field(2, obj["kind"].encode())
    return (
        protobuf.MAGIC + field(1, head) + field(2, message(name, {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}))
    )


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "namespace": "d",
        "labels": {"a": "b"},
        "creationTimestamp": "2026-11-29T12:00:00Z",
        "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u", "controller": True}],
        "finalizers": ["a/b"],
    },
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
                "livenessProbe": {"tcpSocket": {"port": 80}},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "cm", "defaultMode": 420}}],
        "nodeSelector": {"x": "y"},
        "terminationGracePeriodSeconds": 0,
        "priority": -5,
        "hostNetwork": True,
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 0}],
    },
}
EVENT = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "d"},
    "eventTime": "2026-11-29T12:00:00.123456Z",
    "reportingController": "sigs.k8s.io/descheduler",
    "reportingInstance": "d-1",
    "action": "Descheduled",
    "reason": "LowNodeUtilization",
    "regarding": {"kind": "Pod", "name": "p"},
    "note": "pod eviction",
    "type": "Normal",
}
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "descheduler", "namespace": "kube-system"},
    "spec": {
        "holderIdentity": "me",
        "leaseDurationSeconds": 137,
        "renewTime": "2026-11-29T12:00:00.000001Z",
        "leaseTransitions": 0,
    },
}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "AAEC"}, "type": "Opaque"}
EVICTION = {
    "apiVersion": "policy/v1",
    "kind": "Eviction",
    "metadata": {"name": "p", "namespace": "d", "annotations": {"requested-by": "sigs.k8s.io/descheduler"}},
    "deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "dryRun": ["All"]},
}


@pytest.mark.parametrize("obj", [POD, EVENT, LEASE, SECRET, EVICTION], ids=lambda obj: str(obj["kind"]))
def test_whole_objects_survive(obj: Obj) -> None:
    assert protobuf.decode(encode(obj)) == obj


def test_zero_values_that_go_omits_are_dropped_and_pointers_kept() -> None:
    spec = MESSAGES["k8s.io.api.apps.v1.DeploymentSpec"]
    assert (spec["1"][0], spec["5"][0]) == ("replicas", "minReadySeconds")
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": ""}, "spec": {"replicas": 0, "minReadySeconds": 0}}
    found = protobuf.decode(encode(body))
    assert found["spec"] == {"replicas": 0}
    assert "metadata" not in found


def test_lease_and_delete_options_over_http(http: Any) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    type_ = "application/vnd.kubernetes.protobuf"
    status, made, _ = http("POST", path, encode(LEASE), type=type_)
    assert (status, made["spec"]) == (201, LEASE["spec"])
    head = field(1, b"coordination.k8s.io/v1") + field(2, b"DeleteOptions")
    options = protobuf.MAGIC + field(1, head) + field(2, message(KINDS["DeleteOptions"], {"preconditions": {"uid": "other"}}))
    assert http("DELETE", f"{path}/descheduler", options, type=type_)[0] == 409


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 400))
def test_damaged_bodies_are_refused_or_read_but_never_crash(noise: bytes, at: int) -> None:
    whole = encode(POD)
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    with contextlib.suppress(protobuf.MalformedError):
        assert isinstance(protobuf.decode(damaged), dict)
