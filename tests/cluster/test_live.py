"""Connecting by kubeconfig: whatever is wrong is one usage error, within ten seconds."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from fixtures import about
from fixtures.checks import Impact
from fixtures.cluster.api import Cap
from fixtures.cluster.embedded import EmbeddedUnderTest
from fixtures.cluster.live import capabilities, connect_live
from fixtures.embedded.cluster import EmbeddedCluster
from fixtures.kube.resources import NAMESPACES
from fixtures.options import Settings, UsageError
from tests.cluster.fake import CUT, Answer, FakeServer, serving, status


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def kubeconfig(server: str | None, **cluster: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "prod",
        "clusters": [{"name": "c1", "cluster": {**({"server": server} if server is not None else {}), **cluster}}],
        "users": [{"name": "alice", "user": {"token": "secret-token"}}],
        "contexts": [
            {"name": "prod", "context": {"cluster": "c1", "user": "alice"}},
            {"name": "lost", "context": {"cluster": "c9", "user": "alice"}},
        ],
    }


def settings(tmp_path: Path, content: Any, **more: Any) -> Settings:
    file = tmp_path / "config"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return Settings(cluster="live", cluster_kubeconfig=file, **more)


def complaint(given: Settings) -> str:
    started = time.monotonic()
    with pytest.raises(UsageError) as caught:
        connect_live(given)
    assert time.monotonic() - started < 10
    text = str(caught.value)
    assert "\n" not in text
    assert "secret-token" not in text
    return text


def test_a_working_kubeconfig_connects(server: FakeServer, tmp_path: Path) -> None:
    server.on("GET", "/version", {"gitVersion": "v1.35.0"})
    cluster = connect_live(settings(tmp_path, kubeconfig(server.url), allow=Impact.READ_ONLY))
    assert cluster.address == f"alice@{server.url}"
    assert cluster.can == {Cap.READ}
    assert cluster.version()["gitVersion"] == "v1.35.0"
    assert server.requests[0].headers["Authorization"] == "Bearer secret-token"
    cluster.close()


def test_kubeconfig_comes_from_the_environment(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on("GET", "/version", {})
    given = settings(tmp_path, kubeconfig(server.url))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{given.cluster_kubeconfig}")
    connect_live(Settings(cluster="live")).close()
    monkeypatch.delenv("KUBECONFIG")
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text((tmp_path / "config").read_text())
    connect_live(Settings(cluster="live")).close()


def test_allow_bounds_what_is_sent() -> None:
    assert capabilities(Impact.READ_ONLY) == {Cap.READ}
    assert capabilities(Impact.DRY_RUN) == {Cap.READ, Cap.DRYRUN}
    assert capabilities(Impact.DISRUPTIVE) == {Cap.READ, Cap.DRYRUN, Cap.WRITE, Cap.ENGINE}


@pytest.fixture
def beside() -> Iterator[FakeServer]:
    with serving() as running:
        yield running


def global_file(tmp_path: Path, content: Any) -> Path:
    file = tmp_path / "global"
    file.write_text(yaml.safe_dump(content))
    return file


def test_a_global_cluster_is_asked_by_the_same_agent_read_only_and_at_the_runs_cost(
    server: FakeServer, beside: FakeServer, tmp_path: Path
) -> None:
    server.on("GET", "/version", {})
    beside.on("GET", "/version", {})
    given = settings(tmp_path, kubeconfig(server.url), allow=Impact.DISRUPTIVE)
    cluster = connect_live(replace(given, global_kubeconfig=global_file(tmp_path, kubeconfig(beside.url))))
    assert cluster.global_cluster is not None
    assert cluster.global_cluster.can == {Cap.READ}
    cluster.asking = "ACP-1"
    beside.on("GET", "/apis", {})
    cluster.global_cluster.probe("moduleinfoes.cluster.alauda.io")
    assert beside.requests[-1].headers["User-Agent"] == f"vm-rebalance-conformance/{about.version()} (ACP-1)"
    assert (len(server.requests), len(beside.requests), cluster.cost.requests) == (1, 2, 3)
    cluster.close()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({**kubeconfig("https://h"), "clusters": []}, "names the cluster 'c1'; known clusters: (none)"),
        (
            {**kubeconfig("https://h"), "current-context": None},
            "has no current-context; set it in the file to one of these: lost, prod",
        ),
        (kubeconfig("http://127.0.0.1:1"), "no answer from alice@http://127.0.0.1:1 to GET /version: connection refused"),
    ],
)
def test_a_global_cluster_that_cannot_be_asked_is_named_by_its_option(
    server: FakeServer, tmp_path: Path, content: Any, says: str
) -> None:
    server.on("GET", "/version", {})
    text = complaint(replace(settings(tmp_path, kubeconfig(server.url)), global_kubeconfig=global_file(tmp_path, content)))
    assert text.startswith("--global-kubeconfig: ")
    assert says in text


def test_a_missing_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"--cluster-kubeconfig={tmp_path}/none does not exist" in complaint(Settings(cluster_kubeconfig=tmp_path / "none"))
    assert "~/.kube/config does not exist; give --cluster-kubeconfig=FILE or set KUBECONFIG" in complaint(Settings())
    monkeypatch.setenv("KUBECONFIG", "/nowhere/a:/nowhere/b")
    assert "KUBECONFIG=/nowhere/a:/nowhere/b does not exist" in complaint(Settings())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a: b\nc: [1,\n", "config is not YAML: expected the node content, but found '<stream end>' in line 3, column 1"),
        ("a: " + "[" * 3000, "is not YAML: it is nested too deeply to be read"),
        ("", "is empty, wanted a mapping with clusters"),
        ("- a", "is a list, wanted a mapping"),
        ("just text", "is a text, wanted a mapping"),
        ("\x00\x01", "is not YAML"),
        ("a: 1", "has no current-context; choose one with --context: (none)"),
        ({**kubeconfig("https://h"), "current-context": ""}, "has no current-context; choose one with --context: lost, prod"),
        ({**kubeconfig("https://h"), "current-context": "gone"}, "current-context 'gone' does not exist"),
        ({**kubeconfig("https://h"), "contexts": "prod"}, "config: contexts is a text, wanted a list of entries with a name"),
        ({**kubeconfig("https://h"), "clusters": 5}, "config: clusters is a number, wanted a list of entries with a name"),
        (kubeconfig(None), "cluster 'c1' of kubeconfig"),
        (kubeconfig("ftp://h"), "server is 'ftp://h', wanted https://HOST:PORT"),
        ({**kubeconfig("https://h"), "clusters": []}, "names the cluster 'c1'; known clusters: (none)"),
        ({**kubeconfig("https://h"), "users": None}, "names the user 'alice'; known users: (none)"),
        (kubeconfig("https://h", **{"certificate-authority": "/nowhere/ca.crt"}), "/nowhere/ca.crt"),
        (
            kubeconfig("https://h", **{"certificate-authority-data": "%%%"}),
            "cluster 'c1' of kubeconfig {}: certificate-authority-data is not base64 (",
        ),
        (
            kubeconfig("https://h", **{"certificate-authority-data": "aGVsbG8="}),
            "certificate-authority-data is base64 of something that is no PEM text, wanted a PEM text in base64 on one line",
        ),
        (
            {**kubeconfig("https://h"), "users": [{"name": "alice", "user": {"client-key-data": "secret-token!"}}]},
            "user 'alice' of kubeconfig {}: client-key-data is not base64 (",
        ),
        (
            {**kubeconfig("https://h"), "users": [{"name": "alice", "user": {"client-certificate-data": 5}}]},
            "client-certificate-data is a number, wanted a PEM text",
        ),
    ],
)
def test_a_broken_kubeconfig(tmp_path: Path, content: Any, says: str) -> None:
    assert says.replace("{}", str(tmp_path / "config")) in complaint(settings(tmp_path, content))


def test_an_unknown_context_lists_the_known_ones(tmp_path: Path) -> None:
    text = complaint(settings(tmp_path, kubeconfig("https://h"), context="staging"))
    assert text.startswith("--context=staging does not exist in kubeconfig ")
    assert text.endswith("known contexts: lost, prod")
    assert "names the cluster 'c9'; known clusters: c1" in complaint(settings(tmp_path, kubeconfig("https://h"), context="lost"))


def test_an_unreadable_kubeconfig(tmp_path: Path) -> None:
    assert "Is a directory" in complaint(Settings(cluster_kubeconfig=tmp_path))


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = complaint(settings(tmp_path, kubeconfig(f"https://127.0.0.1:{port}")))
    assert f"no answer from alice@https://127.0.0.1:{port} to GET /version: connection refused" in text
    assert f"(from {tmp_path}/config)" in text


def test_a_host_that_does_not_resolve(tmp_path: Path) -> None:
    text = complaint(settings(tmp_path, kubeconfig("https://no-such-host.invalid:6443")))
    assert "does not resolve" in text or "no answer" in text


@contextmanager
def listener(accept: bool) -> Iterator[int]:
    """A port that accepts connections and says nothing, or that lets them wait."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        fillers = [] if accept else [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        try:
            yield port
        finally:
            for filler in fillers:
                filler.close()


@pytest.mark.slow
@pytest.mark.parametrize("accept", [True, False])
def test_silence_ends_within_ten_seconds(tmp_path: Path, accept: bool) -> None:
    with listener(accept) as port:
        text = complaint(settings(tmp_path, kubeconfig(f"http://127.0.0.1:{port}")))
    assert "no connection within 3 s" in text or "no answer in time" in text


def test_a_certificate_of_somebody_else(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    with socket.socket() as raw:
        raw.bind(("127.0.0.1", 0))
        raw.listen()

        def shake_hands() -> None:
            peer, _ = raw.accept()
            with peer, pytest.raises(ssl.SSLError):
                context.wrap_socket(peer, server_side=True)

        thread = threading.Thread(target=shake_hands)
        thread.start()
        text = complaint(settings(tmp_path, kubeconfig(f"https://127.0.0.1:{raw.getsockname()[1]}")))
        thread.join()
    assert "TLS failed" in text
    assert "certificate-authority" in text


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (status(401, "Unauthorized", "Unauthorized"), "401: Unauthorized; the API server does not know this account"),
        (status(500, "InternalError", "boom"), "500 InternalError: boom"),
        (Answer("<html>", 200, [("Content-Type", "text/html")]), "login page"),
        (Answer("", 302, [("Location", "https://sso/")]), "redirected (302) to https://sso/"),
        (Answer([]), "wanted an object: is it an API server?"),
        (Answer(CUT), "the connection broke"),
    ],
)
def test_an_answer_that_does_not_help(server: FakeServer, tmp_path: Path, answer: Answer, says: str) -> None:
    server.on("GET", "/version", answer)
    assert says in complaint(settings(tmp_path, kubeconfig(server.url)))


def test_a_hidden_version_is_no_obstacle(server: FakeServer, tmp_path: Path) -> None:
    server.on("GET", "/version", status(403, "Forbidden", 'User "alice" cannot get path "/version"'))
    connect_live(settings(tmp_path, kubeconfig(server.url))).close()


def test_a_credential_plugin_that_fails_is_named(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "false", "interactiveMode": "Never"}
    content = {**kubeconfig("https://127.0.0.1:1"), "users": [{"name": "alice", "user": {"exec": plugin}}]}
    assert "user 'alice' of kubeconfig" in complaint(settings(tmp_path, content))
    assert "'false' gave no credentials" in complaint(settings(tmp_path, content))


def test_of_several_kubeconfigs_the_first_wins(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on("GET", "/version", {})
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text(yaml.safe_dump({k: v for k, v in kubeconfig(server.url).items() if k != "current-context"}))
    second.write_text(yaml.safe_dump(kubeconfig("https://127.0.0.1:1")))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    cluster = connect_live(Settings(cluster="live"))
    assert cluster.address == f"alice@{server.url}"
    cluster.close()


@pytest.fixture
def embedded() -> Iterator[EmbeddedUnderTest]:
    running = EmbeddedUnderTest(EmbeddedCluster(controllers=()))
    yield running
    running.close()


def test_over_https_with_a_token(embedded: EmbeddedUnderTest) -> None:
    cluster = connect_live(Settings(cluster="live", cluster_kubeconfig=embedded.kubeconfig))
    assert cluster.version()["gitVersion"].startswith("v1.")
    assert "kube-system" in [n["metadata"]["name"] for n in cluster.list(NAMESPACES)]
    assert cluster.now() == pytest.approx(embedded.now(), abs=2)
    cluster.close()


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_skipping_verification_is_the_users_choice(embedded: EmbeddedUnderTest, tmp_path: Path) -> None:
    content = yaml.safe_load(embedded.kubeconfig.read_text())
    content["clusters"][0]["cluster"] = {"server": embedded.world.server.url, "insecure-skip-tls-verify": True}
    connect_live(settings(tmp_path, content)).close()


def test_a_token_of_yesterday(embedded: EmbeddedUnderTest, tmp_path: Path) -> None:
    content = yaml.safe_load(embedded.kubeconfig.read_text())
    content["users"][0]["user"]["token"] = "expired"
    assert "401: Unauthorized; the API server does not know this account" in complaint(settings(tmp_path, content))
