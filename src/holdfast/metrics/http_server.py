"""Serves /metrics, /healthz and /readyz from threads, so that neither a job nor a blocked event loop is in
the way.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from holdfast.errors import InvalidInput
from holdfast.metrics.exposition import CONTENT_TYPE, exposition
from holdfast.metrics.figures import Figures
from holdfast.metrics.probes import Verdict

_SECONDS_FOR_A_REQUEST = 5.0


class Answers(Protocol):
    """Each is called from a thread of its own."""

    def figures(self) -> Figures: ...

    def health(self) -> Verdict: ...

    def readiness(self) -> Verdict: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], answers: Answers) -> None:
        import socket

        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.answers = answers
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Without the parent's look for the host's name, which may ask a name server."""
        import socketserver

        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that has gone is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # type: ignore[mutable-override]  # the only one that makes it
    timeout = _SECONDS_FOR_A_REQUEST  # type: ignore[mutable-override]
    server_version = "holdfast"
    sys_version = ""

    def do_GET(self) -> None:
        answers = self.server.answers
        match self.path.partition("?")[0]:
            case "/metrics":
                self._say(200, CONTENT_TYPE, exposition(answers.figures()))
            case "/healthz":
                self._judge(answers.health())
            case "/readyz":
                self._judge(answers.readiness())
            case _:
                self._say(404, "text/plain; charset=utf-8", "ask for /metrics, /healthz or /readyz\n")

    do_HEAD = do_GET  # noqa: N815  # as its base calls it

    def _judge(self, verdict: Verdict) -> None:
        body = json.dumps({"ok": verdict.is_ok, "reasons": verdict.reasons})
        self._say(200 if verdict.is_ok else 503, "application/json", f"{body}\n")

    def _say(self, status: int, kind: str, body: str) -> None:
        content = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as its base calls it
        """A line for each scrape would bury those of jobs."""


@contextmanager
def serving(host: str, port: int, answers: Answers) -> Iterator[int]:
    """Serve until the block ends. Gives the port: of `0`, the one that was free."""
    try:
        server = _Server((host, port), answers)
    except OSError as error:
        reason = error.strerror or error
        raise InvalidInput(f"metrics cannot be served at {host}, port {port}: {reason}") from error
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="holdfast-metrics", daemon=True
    )
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(2)
