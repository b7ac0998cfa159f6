"""Following a running query in plain lines, and stopping it between two batches."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from braided.query.errors import InvalidValue

_EVERY_S = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def follow(
    streaming: Any,
    metrics: Callable[[Any], Any],
    *,
    say: Callable[[str], object],
    journal: Path | None = None,
    serve: int | None = None,
) -> None:
    """A line per batch until the query ends; `journal` gets a line of JSON each, `serve` a page of them."""
    told, lines = -1, list[str]()
    with _page(serve, lines):
        while True:
            active = streaming.isActive
            new = [p for p in streaming.recentProgress if p["batchId"] > told and p["numInputRows"]]
            for progress in new:
                told = progress["batchId"]
                record = _record(progress)
                if progress is new[-1]:
                    record["results_so_far"] = metrics(streaming).results  # of all runs on the checkpoint
                lines.append(_line(record))
                say(lines[-1])
                if journal is not None:
                    with journal.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(record) + "\n")
            if not active:
                return
            time.sleep(_EVERY_S)


def _record(progress: Any) -> dict[str, Any]:
    seconds = progress["durationMs"]["triggerExecution"] / 1e3
    return {"batch": progress["batchId"], "rows": progress["numInputRows"], "seconds": seconds}


def _line(record: dict[str, Any]) -> str:
    found = f", {record['results_so_far']:,} results so far" if "results_so_far" in record else ""
    return f"batch {record['batch']}: {record['rows']:,} rows in {record['seconds']:.1f} s{found}"


@contextmanager
def stopping(streaming: Any, say: Callable[[str], object]) -> Iterator[threading.Event]:
    """While it lasts, Ctrl-C ends the query after its batch, and a second one at once; the event says so."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def stop(_number: int, _frame: object) -> None:
        patient = not asked.is_set()
        asked.set()
        threading.Thread(target=_stop, args=(streaming, say, patient), daemon=True).start()

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(streaming: Any, say: Callable[[str], object], patient: bool) -> None:
    if patient:
        say("stopping after this batch (Ctrl-C again: at once)")
        began = (streaming.lastProgress or {}).get("batchId")
        while streaming.isActive and streaming.status["isTriggerActive"]:
            if (streaming.lastProgress or {}).get("batchId") != began:
                break
            time.sleep(0.05)
    streaming.stop()


@contextmanager
def holding(say: Callable[[str], object]) -> Iterator[list[int]]:
    """While it lasts, Ctrl-C is only noted: a Spark that is interrupted while it starts would never end."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, _frame: object) -> None:
        asked.append(number)
        say("stopping as soon as Spark has started")

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def errors_to(log: Path | None) -> Iterator[None]:
    """Processes that are started meanwhile write their errors to a file."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    before = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)


def _page(port: int | None, lines: list[str]) -> Any:
    """The lines on a page of this machine, if a port is given."""
    if port is None:
        return nullcontext()
    return _served(port, lines)


@contextmanager
def _served(port: int, lines: list[str]) -> Iterator[None]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.end_headers()
            self.wfile.write("\n".join(["batches so far:", *lines[-100:], ""]).encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the terminal is for batches."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Page)
    except OSError as wrong:
        raise InvalidValue(f"--serve {port}: {wrong.strerror}; name another port") from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
