"""Signals: a query is stopped between two batches, and a Spark that starts is not interrupted."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping(streaming: Any, say: Callable[[str], object]) -> Iterator[threading.Event]:
    """While it lasts, Ctrl-C ends the query after its batch, and a second one at once; the event says so."""
    asked = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        patient = not asked.is_set()
        asked.set()
        threading.Thread(target=_stop, args=(streaming, say, patient), daemon=True).start()

    with _handled_by(stop):
        yield asked


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

    def note(number: int, _frame: object) -> None:
        asked.append(number)
        say("stopping as soon as Spark has started")

    with _handled_by(note):
        yield asked


@contextmanager
def _handled_by(handler: Callable[[int, object], None]) -> Iterator[None]:
    """While it lasts, Ctrl-C and SIGTERM are this handler's; only the main thread gets them."""
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in _SIGNALS if main}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def errors_to(log: Path) -> Iterator[None]:
    """Processes that are started meanwhile write their errors to a file."""
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
