"""A running query as a page in the browser, for the user of this machine alone.

The server listens on 127.0.0.1. A site in the same browser could reach it by a name of its own that resolves
to that address, so requests must name this host themselves (`Host`). The page loads nothing from elsewhere,
and its policy forbids it; data becomes text on it, never markup. `records.json` and `metrics` are for
programs. A request has seconds in all to be sent, however it trickles, and as many again to take its answer;
more than a few connections at a time are closed, so that nobody can hold the page for long.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
import socketserver
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from braided.query.errors import InvalidType, InvalidValue
from braided.view import prometheus
from braided.view.charts import charts_of, latest_adaptations, summary, table
from braided.view.records import Record, ViewFailed, os_errors

HOST = "127.0.0.1"
PORT = 4041
_ADAPTATIONS = 20
_NAMES = (HOST, "localhost")
_CONNECTIONS = 32  # at a time
_REQUEST_BYTES = 16_384
_TEXT = "text/plain; charset=utf-8"


class Page(ThreadingHTTPServer):
    """A server of the latest records, and what `why` says."""

    daemon_threads = True

    def __init__(self, records: Sequence[Record], port: int) -> None:
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        self._shown: tuple[tuple[Record, ...], str] = (tuple(records), "")
        super().__init__((HOST, port), _Handler)
        self.url = f"http://{HOST}:{self.server_port}/"

    def show(self, records: Sequence[Record], why: str) -> None:
        """Serve these from now on; from any thread."""
        self._shown = (tuple(records), why)

    def answer(self, path: str) -> tuple[str, str] | None:
        """Content type and text of a path; None if there is no such path."""
        records, why = self._shown
        if path == "/":
            return "text/html; charset=utf-8", _html()
        if path == "/records.json":
            return "application/json", json.dumps(_data(records, why))
        if path == "/metrics":
            return prometheus.CONTENT_TYPE, prometheus.exposition(records[-1] if records else None)
        return None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; one connection too many is closed."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for the next."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def server_bind(self) -> None:
        """Bind without looking up this host's name, as `HTTPServer` would."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that goes away."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def opened(records: Sequence[Record], port: int) -> Page:
    """Return a page that listens at a port; raise if it cannot."""
    if isinstance(port, bool) or not isinstance(port, int):
        raise InvalidType.must("port", "a whole number", port, owner="serve")
    if not 0 <= port < 65_536:
        raise InvalidValue.must("port", "from 0 (any free one) to 65535", port, owner="serve")
    remedy = "give another, or 0 for any free one"
    with os_errors(lambda why: ViewFailed(f"serve: port {port} cannot be used ({why}); {remedy}")):
        return Page(records, port)


@contextmanager
def serve(records: Sequence[Record] = (), port: int = PORT) -> Iterator[Page]:
    """A page on this machine while the context lasts; give its `show` to `follow`. Port 0 is any free one."""
    with opened(records, port) as page:
        thread = threading.Thread(target=page.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield page
        finally:
            page.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Page
    server_version = "braided"
    sys_version = ""
    timeout = 10  # seconds for a request, and for its answer

    def setup(self) -> None:
        """Read the request: all of it in some seconds, and not too many bytes."""
        super().setup()
        request, more, end = b"", b"any", time.monotonic() + self.timeout
        while more and b"\r\n\r\n" not in request:
            seconds = end - time.monotonic()
            if seconds <= 0 or len(request) >= _REQUEST_BYTES:
                raise TimeoutError
            self.connection.settimeout(seconds)
            more = self.connection.recv(_REQUEST_BYTES)
            request += more
        self.rfile = io.BytesIO(request)

    def do_GET(self) -> None:
        """Answer a request."""
        if not self._is_for_us():
            self._send(HTTPStatus.FORBIDDEN, _TEXT, "This is not the host you asked for.\n")
        elif answer := self.server.answer(self.path.partition("?")[0]):
            self._send(HTTPStatus.OK, *answer)
        else:
            self._send(HTTPStatus.NOT_FOUND, _TEXT, "There is no such page.\n")

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Log nothing: the terminal is the user's."""

    def _is_for_us(self) -> bool:
        port = self.server.server_port
        known = {f"{name}:{port}" for name in _NAMES} | (set(_NAMES) if port == 80 else set())
        return self.headers.get_all("Host", []) in [[name] for name in known]

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **_headers()}.items():
            self.send_header(name, value)
        self.connection.settimeout(self.timeout)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def asset(name: str) -> str:
    """A file that the page or the report is made of."""
    return resources.files("braided.view").joinpath(f"assets/{name}").read_text(encoding="utf-8")


@functools.cache
def _html() -> str:
    html = asset("page.html")
    return html.replace("/*style*/", asset("style.css")).replace("/*script*/", asset("page.js"))


@functools.cache
def _headers() -> dict[str, str]:
    """Only this style and this script, and data from this server alone."""
    digests = [hashlib.sha256(asset(name).encode()).digest() for name in ("style.css", "page.js")]
    style, script = (f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Content-Security-Policy": f"default-src 'none'; style-src {style}; script-src {script}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
    }


def _data(records: Sequence[Record], why: str) -> dict[str, Any]:
    return {
        "why": why,
        "summary": summary(records),
        "table": table(records[-1]) if records else [],
        "charts": [vars(chart) for chart in charts_of(records)],
        "adaptations": latest_adaptations(records, _ADAPTATIONS),
        "records": [record.to_dict() for record in records],
    }
