"""Kubeconfigs and the in-cluster configuration, good and bad."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.kube import kubeconfig
from fixtures.kube.kubeconfig import KubeconfigError


def config(*, cluster: Any = None, user: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "current-context": "c",
        "contexts": [{"name": "other", "context": {}}, {"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://k:6443/base/"} if cluster is None else cluster}],
        "users": [{"name": "u", "user": {} if user is None else user}],
    } | more


def test_server_and_defaults() -> None:
    found = kubeconfig.access(config())
    assert (found.server, found.insecure, found.token, found.ca) == ("https://k:6443/base", False, None, None)


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"CA")
    cluster = {
        "server": "https://k",
        "certificate-authority": "ca.pem",
        "tls-server-name": "name",
        "proxy-url": "http://proxy:3128",
        "insecure-skip-tls-verify": True,
    }
    user = {
        "token": "t",
        "tokenFile": "token",
        "client-certificate-data": base64.b64encode(b"CERT").decode(),
        "client-key-data": base64.b64encode(b"KEY").decode(),
        "username": "me",
        "password": "p",
        "as": "system:serviceaccount:a:b",
    }
    found = kubeconfig.access(config(cluster=cluster, user=user), folder=str(tmp_path))
    assert (found.ca, found.client_cert, found.client_key) == (b"CA", b"CERT", b"KEY")
    assert (found.token, found.token_file, found.basic) == ("t", str(tmp_path / "token"), ("me", "p"))
    assert (found.server_name, found.proxy, found.insecure) == ("name", "http://proxy:3128", True)
    assert found.impersonate == "system:serviceaccount:a:b"
    assert "t" not in repr(found).removeprefix("Access").replace("https", "")


def test_another_context() -> None:
    two = config(contexts=[{"name": "a", "context": {"cluster": "k", "user": "nobody"}}])
    assert kubeconfig.access(two, context="a").server == "https://k:6443/base"


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "current context not found"),
    (config(contexts=None), "current context not found"),
    (config(contexts="x"), "current context not found"),
    (config(clusters=[]), "cluster information not found"),
    (config(cluster={}), 'the cluster\'s server "" is no http or https address'),
    (config(cluster={"server": "k:6443"}), "is no http or https address"),
    (config(cluster={"server": "https://k:99999"}), "is no http or https address"),
    (config(cluster={"server": 5}), "server is no text but int"),
    (config(cluster={"server": "https://k", "certificate-authority-data": "%%%"}), "no certificates"),
    (config(cluster={"server": "https://k", "certificate-authority": "/no/such"}), "open /no/such: no such file or directory"),
    (config(user={"auth-provider": {"name": "gcp"}}), 'no Auth Provider found for name "gcp"'),
    (config(user={"token": ["x"]}), "token is no text but list"),
    (config(user={"exec": {"command": "/no/such"}}), "getting credentials: exec: "),
    (config(user={"exec": {"command": "/bin/false"}}), "executable /bin/false failed with exit code 1"),
    (config(user={"exec": {"command": "/bin/true"}}), "/bin/true printed no ExecCredential"),
]


@pytest.mark.parametrize(("found", "message"), [b for b in BAD if b[1] != "no certificates"])
def test_what_is_wrong_is_said(found: dict[str, Any], message: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        kubeconfig.access(found)
    assert message in str(caught.value)


def test_a_credential_plugin_is_run_without_a_shell() -> None:
    script = (
        "import json, os, sys\n"
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'\n"
        "assert os.environ['EXTRA'] == '$HOME' and sys.argv[1] == '; true'\n"
        "print(json.dumps({'status': {'token': 'from-plugin'}}))"
    )
    plugin = {"command": sys.executable, "args": ["-c", script, "; true"], "env": [{"name": "EXTRA", "value": "$HOME"}]}
    assert kubeconfig.access(config(user={"exec": plugin})).token == "from-plugin"


def test_files_are_read_within_bounds(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_bytes(b"#" * 100)
    assert kubeconfig.read_file(str(path), most=100) == b"#" * 100
    with pytest.raises(KubeconfigError, match="longer than 99 bytes"):
        kubeconfig.read_file(str(path), most=99)
    with pytest.raises(KubeconfigError, match="is a directory"):
        kubeconfig.read_file(str(tmp_path))
    with pytest.raises(KubeconfigError, match="no such file or directory"):
        kubeconfig.read_file(str(tmp_path / "x"))
    with pytest.raises(KubeconfigError, match="null byte"):
        kubeconfig.read_file("a\0b")


@pytest.mark.parametrize(("text", "message"), [("[", "error loading config file"), ("- a", "no mapping but list"), ("\0", "error")])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    with pytest.raises(KubeconfigError, match=message):
        kubeconfig.load(str(path))


def test_an_empty_file_is_an_empty_configuration(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text("")
    assert kubeconfig.load(str(path)) == {}


@pytest.mark.parametrize(("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")])
def test_the_pods_own_access(host: str, server: str) -> None:
    files = {"/var/run/secrets/kubernetes.io/serviceaccount/token": b"tok\n", kubeconfig.SERVICE_ACCOUNT + "/ca.crt": b"CA"}
    env = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    found = kubeconfig.in_cluster(env, files.__getitem__)
    assert (found.server, found.token, found.ca) == (server, "tok", b"CA")
    assert found.token_file == kubeconfig.SERVICE_ACCOUNT + "/token"


def test_outside_a_pod_there_is_no_own_access() -> None:
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"):
        kubeconfig.in_cluster({})
    with pytest.raises(KubeconfigError, match=r"open /var/run/secrets/.*token: no such file"):
        kubeconfig.in_cluster({"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"})


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)
CLUSTER = ("server", "certificate-authority-data", "insecure-skip-tls-verify", "proxy-url", "tls-server-name")
USER = ("token", "tokenFile", "client-certificate-data", "client-key-data", "username", "password", "as", "auth-provider")


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(CLUSTER, JSON)),
    st.one_of(JSON, st.fixed_dictionaries({}, optional=dict.fromkeys(USER, JSON))),
)
def test_any_cluster_and_user_are_taken_or_refused(cluster: Any, user: Any) -> None:
    for found in (config(cluster=cluster, user=user), config(user=user), config(cluster=cluster)):
        try:
            kubeconfig.access(found)
        except KubeconfigError as refusal:
            text = str(refusal)
            if not text:
                pytest.fail("an error without words")


@given(st.text())
def test_any_text_is_taken_or_refused(text: str) -> None:
    try:
        found = kubeconfig.parse(text.encode("utf-8", "surrogatepass"), "k")
        kubeconfig.access(json.loads(json.dumps(found, default=str)))
    except (KubeconfigError, TypeError):
        return
