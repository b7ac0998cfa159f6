"""A query is followed in lines, and stops between two batches; here with a query that only plays."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from braided.jobs.following import follow, holding, stopping
from braided.query.errors import BraidedError


class Playing:
    """A query with a batch every 0.1 s until it is stopped, or has done all."""

    def __init__(self, batches: int) -> None:
        self.batches, self.began, self.stopped_at = batches, time.monotonic(), 1e9

    @property
    def _done(self) -> int:
        return min(self.batches, int((min(time.monotonic(), self.stopped_at) - self.began) / 0.1))

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802
        rows = [{"batchId": n, "numInputRows": 10} for n in range(self._done)]
        return [{**row, "durationMs": {"triggerExecution": 100}} for row in rows]

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802
        return (self.recentProgress or [None])[-1]  # type: ignore[list-item]

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._done < self.batches and self.stopped_at == 1e9

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": True}

    def stop(self) -> None:
        self.stopped_at = time.monotonic()


def metrics(playing: Playing) -> Any:
    return SimpleNamespace(results=len(playing.recentProgress))


def test_a_line_per_batch_in_the_terminal_and_in_the_journal(tmp_path: Path) -> None:
    said: list[str] = []
    follow(Playing(3), metrics, say=said.append, journal=tmp_path / "j")
    assert said[-1] == "batch 2: 10 rows in 0.1 s, 3 results so far"
    journal = [json.loads(line) for line in (tmp_path / "j").read_text().splitlines()]
    assert [line["batch"] for line in journal] == [0, 1, 2]
    assert journal[-1]["results_so_far"] == 3


def test_a_page_shows_the_lines_and_a_taken_port_is_said() -> None:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    query, pages = Playing(1000), list[str]()

    def look() -> None:
        time.sleep(0.7)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}") as page:
            pages.append(page.read().decode())
        query.stop()

    threading.Thread(target=look).start()
    follow(query, metrics, say=lambda _: None, serve=port)
    assert "batch 0: 10 rows" in pages[0]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BraidedError, match="--serve"):
            follow(query, metrics, say=lambda _: None, serve=taken.getsockname()[1])


def test_ctrl_c_stops_after_the_batch() -> None:
    query, said = Playing(1000), list[str]()
    before = signal.getsignal(signal.SIGINT)
    with stopping(query, said.append) as stopped:
        threading.Timer(0.35, os.kill, (os.getpid(), signal.SIGINT)).start()
        follow(query, metrics, say=lambda _: None)
    assert stopped.is_set()
    assert said == ["stopping after this batch (Ctrl-C again: at once)"]
    assert 3 <= len(query.recentProgress) <= 5
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_waits_while_spark_starts() -> None:
    said: list[str] = []
    with holding(said.append) as asked:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    assert asked == [signal.SIGINT]
    assert said == ["stopping as soon as Spark has started"]
