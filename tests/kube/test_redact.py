"""No secret passes; what a reader needs stays."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.kube.redact import redact

JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQ\n-----END RSA PRIVATE KEY-----"

SECRETS = {
    "Secret data": ({"kind": "Secret", "data": {"a": "S3CRET"}}, {"kind": "Secret", "data": {"a": "[redacted]"}}),
    "Secret stringData": ({"kind": "Secret", "stringData": "S3CRET"}, {"kind": "Secret", "stringData": "[redacted]"}),
    "token key": ({"user": {"token": "S3CRET"}}, {"user": {"token": "[redacted]"}}),
    "client key": ({"client-key-data": "S3CRET"}, {"client-key-data": "[redacted]"}),
    "environment": ([{"name": "DB_PASSWORD", "value": "S3CRET"}], [{"name": "DB_PASSWORD", "value": "[redacted]"}]),
    "bearer": ("curl -H 'Authorization: Bearer S3CRETabc'", "curl -H 'Authorization: [redacted]'"),
    "basic": ("Authorization: Basic S3CRET==", "Authorization: Basic [redacted]"),
    "jwt": (f"got {JWT}.", "got [redacted]."),
    "private key": (f"key {KEY} end", "key [redacted] end"),
    "cut private key": (KEY[:50], "[redacted]"),
    "url": ("https://me:S3CRET@host/x", "https://[redacted]@host/x"),
    "cloud-init": ("#cloud-config\npassword: S3CRET\nchpasswd: x", "#cloud-config\npassword: [redacted]\nchpasswd: x"),
    "kubeconfig text": ("users:\n- user:\n    token: S3CRET", "users:\n- user:\n    token: [redacted]"),
    "json in a text": ('{"token": "S3CRET", "a": 1}', '{"token": "[redacted]", "a": 1}'),
    "escaped json": ('{\\"token\\":\\"S3CRET\\"}', '{\\"token\\":\\"[redacted]\\"}'),
    "argument": ("--token=S3CRET --v=3", "--token=[redacted] --v=3"),
    "tuple": (("token=S3CRET",), ["token=[redacted]"]),
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_masked_and_its_surroundings_stay(name):
    value, wanted = SECRETS[name]
    assert redact(value) == wanted
    assert redact(redact(value)) == wanted


def test_an_applied_secret_inside_an_annotation_is_masked():
    key = "kubectl.kubernetes.io/last-applied-configuration"
    inner = json.dumps({"kind": "Secret", "data": {"a": "S3CRET"}})
    assert json.loads(redact({"annotations": {key: inner}})["annotations"][key])["data"] == {"a": "[redacted]"}
    assert redact({key: "{cut"}) == {key: "[redacted]"}


INNOCENT = [
    {"automountServiceAccountToken": False, "tokenExpirationSeconds": 3607},
    {"volumes": [{"name": "policy", "secret": {"secretName": "certs"}}]},
    {"imagePullSecrets": [{"name": "pull"}]},
    {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "k"}}},
    'I0101 00:00:00.000000 1 evictions.go:1] "Eviction in background assumed" pod="ns/virt-launcher-x"',
    "--feature-gates=EvictionsInBackground=true",
    "automountServiceAccountToken: false",
    "https://host:6443/api",
    {"a": None, "b": 1.5, "c": True, "d": []},
]


@pytest.mark.parametrize("value", INNOCENT, ids=range(len(INNOCENT)))
def test_what_is_no_secret_stays(value):
    assert redact(value) == value


def test_the_original_is_not_touched():
    value = {"kind": "Secret", "data": {"a": "S3CRET"}}
    redact(value)
    assert value["data"]["a"] == "S3CRET"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=10), v, max_size=4),
    max_leaves=15,
)


@given(json_values)
def test_any_json_value_keeps_its_shape(value):
    assert type(redact(value)) is type(value)
    assert redact(redact(value)) == redact(value)


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_token_never_survives_its_surroundings(before, after):
    assert JWT not in redact(f"{before} {JWT} {after}")


@pytest.mark.parametrize("piece", ["a", "token", "eyJ", "-----BEGIN PRIVATE KEY-----", "://a:", "bearer ", "token: "])
def test_a_hostile_text_takes_linear_time(piece):
    text = piece * (400_000 // len(piece))
    started = time.perf_counter()
    redact(text)
    assert time.perf_counter() - started < 2
