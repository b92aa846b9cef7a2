"""The small API client: TLS, tokens, gzip, errors without an answer."""

from __future__ import annotations

import gzip
import json
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trustme

from fixtures.kube.kubeconfig import Access, KubeconfigError
from fixtures.kube.resources import NODES, PODS
from fixtures.kube.transport import Client, NoAnswerError, Page, Reply


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[dict[str, str]]] = []
    paths: ClassVar[list[str]] = []
    body = b'{"items": [{"metadata": {"name": "a"}}, 5, null], "metadata": {"resourceVersion": "7", "continue": "more"}}'
    code = 200
    zipped = False
    chunks: tuple[bytes, ...] = ()

    def do_GET(self) -> None:
        type(self).seen.append(dict(self.headers))
        type(self).paths.append(self.path)
        self.send_response(self.code)
        if self.chunks:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in self.chunks:
                self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
            return
        data = gzip.compress(self.body) if self.zipped else self.body
        if self.zipped:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def handler() -> type[Handler]:
    return type("Fresh", (Handler,), {"seen": [], "paths": []})


def serve(handler: type[Handler], context: ssl.SSLContext | None = None) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    return server


@pytest.fixture
def url(handler: type[Handler]) -> Iterator[str]:
    server = serve(handler)
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_page_of_a_list(url: str, handler: type[Handler]) -> None:
    page = Client(Access(f"{url}/base")).page(NODES, limit=5, token="a b")
    assert page == Page([{"metadata": {"name": "a"}}], "7", "more")
    assert handler.paths == ["/base/api/v1/nodes?limit=5&continue=a+b"]


def test_compressed_answers_are_read(url: str, handler: type[Handler]) -> None:
    handler.zipped = True
    assert isinstance(Client(Access(url)).page(NODES, limit=5), Page)
    assert handler.seen[0]["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"null", b'{"message": 5}'])
def test_an_answer_that_is_no_status_has_words_all_the_same(url: str, handler: type[Handler], body: bytes) -> None:
    handler.body, handler.code = body, 502
    reply = Client(Access(url)).get("/x")
    assert isinstance(reply, Reply)
    assert (reply.ok, reply.message) == (False, "an error on the server (502) has prevented the request from succeeding")


def test_ways_to_say_who_one_is(url: str, handler: type[Handler], tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("from-file\n")
    Client(Access(url, token="t", impersonate="me")).get("/x")
    Client(Access(url, token_file=str(token))).get("/x")
    Client(Access(url, basic=("a", "b"))).get("/x")
    Client(Access(url, token_file=str(tmp_path / "none"))).get("/x")
    assert [h.get("Authorization") for h in handler.seen] == ["Bearer t", "Bearer from-file", "Basic YTpi", None]
    assert handler.seen[0]["Impersonate-User"] == "me"


def test_events_of_a_watch_come_as_they_are_written(url: str, handler: type[Handler]) -> None:
    handler.chunks = (b'{"type": "ADDED", "obj', b'ect": {"a": 1}}\n\n{"type": "BOOKMARK"}\n', b"nonsense\n")
    assert list(Client(Access(url)).watch(PODS, version="5", seconds=3)) == [
        {"type": "ADDED", "object": {"a": 1}},
        {"type": "BOOKMARK"},
    ]
    assert handler.paths == ["/api/v1/pods?watch=1&resourceVersion=5&allowWatchBookmarks=true&timeoutSeconds=3"]


def test_a_watch_that_is_refused_is_one_error(url: str, handler: type[Handler]) -> None:
    handler.code, handler.body = 403, json.dumps({"message": "no"}).encode()
    assert list(Client(Access(url)).watch(PODS, version="5", seconds=3)) == [
        {"type": "ERROR", "object": {"message": "no", "code": 403}}
    ]


def test_nobody_answers() -> None:
    with pytest.raises(NoAnswerError, match=r'^Get "http://127.0.0.1:9/base/x": .*Connection refused$'):
        Client(Access("http://127.0.0.1:9/base")).get("/x")
    with pytest.raises(NoAnswerError):
        list(Client(Access("http://127.0.0.1:9")).watch(PODS, version="1", seconds=1))


def test_a_connection_that_breaks_off(url: str, handler: type[Handler]) -> None:
    class Broken(Handler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"{")
            self.close_connection = True

    server = serve(Broken)
    try:
        with pytest.raises(NoAnswerError):
            Client(Access(f"http://127.0.0.1:{server.server_address[1]}")).get("/x")
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secure(authority: trustme.CA, handler: type[Handler]) -> Iterator[str]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1", "cluster.example").configure_cert(context)
    server = serve(handler, context)
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_tls_is_checked_against_the_clusters_authority(authority: trustme.CA, secure: str) -> None:
    ca = authority.cert_pem.bytes()
    assert Client(Access(secure, ca=ca)).get("/x").ok
    assert Client(Access(secure, ca=ca, server_name="cluster.example")).get("/x").ok
    assert Client(Access(secure, insecure=True)).get("/x").ok
    with pytest.raises(NoAnswerError, match="certificate"):
        Client(Access(secure, ca=trustme.CA().cert_pem.bytes())).get("/x")
    with pytest.raises(NoAnswerError, match="match"):
        Client(Access(secure, ca=ca, server_name="other.example")).get("/x")


def test_a_client_certificate_is_shown(authority: trustme.CA, handler: type[Handler]) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = serve(handler, context)
    try:
        url = f"https://127.0.0.1:{server.server_address[1]}"
        mine = authority.issue_cert("me@example")
        cert, key = mine.cert_chain_pems[0].bytes(), mine.private_key_pem.bytes()
        assert Client(Access(url, ca=authority.cert_pem.bytes(), client_cert=cert, client_key=key)).get("/x").ok
        with pytest.raises(NoAnswerError):
            Client(Access(url, ca=authority.cert_pem.bytes())).get("/x")
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "access",
    [
        Access("https://k", ca=b"no certificate"),
        Access("https://k", ca=b"\xff\xfe"),
        Access("https://k", insecure=True, client_cert=b"x", client_key=b"y"),
    ],
)
def test_certificates_that_are_none(access: Access) -> None:
    with pytest.raises(KubeconfigError, match="unable to load root certificates or the client certificate"):
        Client(access)


def test_plain_requests_through_a_proxy(url: str, handler: type[Handler]) -> None:
    client = Client(Access("http://cluster.example:6443/base", proxy=url))
    page = client.page(NODES, limit=5)
    assert isinstance(page, Page)
    assert handler.paths == ["http://cluster.example:6443/base/api/v1/nodes?limit=5"]
    handler.chunks = (b'{"type": "BOOKMARK"}\n',)
    assert list(client.watch(PODS, version="5", seconds=3)) == [{"type": "BOOKMARK"}]
    client.close()


def test_a_proxy_that_is_not_there() -> None:
    with pytest.raises(NoAnswerError, match="Connection refused"):
        Client(Access("http://cluster.example", proxy="http://127.0.0.1:9")).get("/x")


def test_a_tunnel_through_a_proxy(authority: trustme.CA, secure: str) -> None:
    class Tunnel(BaseHTTPRequestHandler):
        asked: ClassVar[list[str]] = []

        def do_CONNECT(self) -> None:
            self.asked.append(self.path)
            with socket.create_connection(("127.0.0.1", int(secure.rpartition(":")[2]))) as there:
                self.connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                ends = [self.connection, there]
                while True:
                    for one in select.select(ends, [], [])[0]:
                        data = one.recv(1 << 16)
                        if not data:
                            return
                        ends[one is self.connection].sendall(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = serve(Tunnel)  # type: ignore[arg-type]
    try:
        proxy = f"http://127.0.0.1:{server.server_address[1]}"
        access = Access("https://far.example", ca=authority.cert_pem.bytes(), server_name="cluster.example", proxy=proxy)
        client = Client(access)
        assert client.get("/x").ok
        assert Tunnel.asked == ["far.example:443"]
        client.close()
    finally:
        server.shutdown()
        server.server_close()


def test_a_connection_that_the_server_has_closed_meanwhile_is_made_anew() -> None:
    class Once(Handler):
        def do_GET(self) -> None:
            super().do_GET()
            self.close_connection = True

    server = serve(type("Fresh", (Once,), {"seen": [], "paths": []}))
    try:
        client = Client(Access(f"http://127.0.0.1:{server.server_address[1]}"))
        for _ in range(3):
            assert client.get("/x").ok
            select.select([client._wire._connection.sock], [], [], 5)  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("body", [gzip.compress(b"{}" * 99, mtime=0)[:-9], b"no gzip at all"], ids=["cut short", "no gzip"])
def test_a_compressed_answer_that_is_none(body: bytes) -> None:
    class Torn(Handler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = serve(Torn)
    try:
        with pytest.raises(NoAnswerError, match="gzip"):
            Client(Access(f"http://127.0.0.1:{server.server_address[1]}")).get("/x")
    finally:
        server.shutdown()
        server.server_close()


def test_a_long_compressed_answer_is_read_whole(url: str, handler: type[Handler]) -> None:
    handler.body, handler.zipped = json.dumps({"text": "a" * (5 << 20)}).encode(), True
    reply = Client(Access(url)).get("/x")
    assert len(reply.body["text"]) == 5 << 20
