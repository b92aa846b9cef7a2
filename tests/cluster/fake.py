"""A scripted API server over plain HTTP: answers by rule, records requests, streams watches that tests feed by hand."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kubernetes.client import ApiClient, Configuration

from fixtures.cluster.client import KubeCluster

#: Ends a stream: cleanly, or by cutting the connection in the middle of a chunk.
END, CUT = object(), object()


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Answer:
    """``body`` a wire object, text, or a queue of watch events for a stream."""

    body: Any = None
    status: int = 200
    headers: list[tuple[str, str]] = field(default_factory=list)


Rule = Callable[[Seen], Any]


class FakeServer:
    """``on(method, path, rule)``: the last rule wins; a rule is a callable of the request, or what it would return."""

    def __init__(self) -> None:
        self.rules: dict[tuple[str, str], Any] = {}
        self.requests: list[Seen] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _serve(self) -> None:
                parts = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                raw = self.rfile.read(length)
                seen = Seen(
                    self.command,
                    parts.path,
                    dict(parse_qsl(parts.query)),
                    {k.title(): v for k, v in self.headers.items()},
                    json.loads(raw) if raw else None,
                )
                fake.requests.append(seen)
                rule = fake.rules.get((self.command, parts.path), Answer("404 page not found\n", 404))
                answer = rule(seen) if callable(rule) else rule
                answer = answer if isinstance(answer, Answer) else Answer(answer)
                if answer.body is CUT:
                    self.close_connection = True
                elif isinstance(answer.body, queue.Queue):
                    self._stream(answer.body)
                else:
                    self._whole(answer)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

            def _whole(self, answer: Answer) -> None:
                text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def _stream(self, feed: queue.Queue[Any]) -> None:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.flush()
                while (event := feed.get(timeout=30)) is not END:
                    if event is CUT:
                        self.wfile.write(b"ff\r\n{")
                        self.close_connection = True
                        return
                    line = json.dumps(event).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # clients that hang up are part of the tests

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def on(self, method: str, path: str, answer: Any) -> None:
        self.rules[method, path] = answer

    def asked(self, method: str, path: str) -> list[Seen]:
        return [r for r in self.requests if (r.method, r.path) == (method, path)]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def status(code: int, reason: str, message: str, **details: Any) -> Answer:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code}
    return Answer({**body, "details": details}, code)


def client(url: str, **options: Any) -> KubeCluster:
    configuration = Configuration(host=url)
    configuration.api_key["authorization"] = "Bearer secret-token"
    return KubeCluster(ApiClient(configuration=configuration), user="tester", **options)


@contextmanager
def serving() -> Iterator[FakeServer]:
    server = FakeServer()
    try:
        yield server
    finally:
        server.stop()
