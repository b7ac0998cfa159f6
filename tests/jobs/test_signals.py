"""A query stops between two batches; here with one that only plays."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from braided.jobs.signals import holding, stopping


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


def test_ctrl_c_stops_after_the_batch() -> None:
    query, said = Playing(1000), list[str]()
    before = signal.getsignal(signal.SIGINT)
    with stopping(query, said.append) as stopped:
        threading.Timer(0.35, os.kill, (os.getpid(), signal.SIGINT)).start()
        while query.isActive:
            time.sleep(0.01)
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
