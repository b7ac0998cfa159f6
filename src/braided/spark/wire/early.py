"""Rows that are dropped before they are sent, as it was decided for the batch (`policies.recorded`).

A decision is part of the heartbeat's offset, which Spark writes into the checkpoint before the batch runs. A
task reads it there, so every attempt, and a restart, drops the same rows: those with the largest lots, drawn
by the contents that join and time. Where the checkpoint cannot be read, a task sends everything, and the
buckets drop what is too much.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from braided.engine.kernels.hashing import first_lot, lots
from braided.engine.operators.layout import Layout
from braided.engine.sides.keys import content_hashes
from braided.engine.sides.storable import to_storable
from braided.policies.arrays import Int64s
from braided.policies.recorded import Keep
from braided.spark.sources.decided import DECIDED, MARK


class Early:
    """One task's rows of a stream of which not all are sent; few more than these are held meanwhile."""

    def __init__(self, layout: Layout, keep: Keep, start: int) -> None:
        time = [] if layout.stream.time is None else [layout.stream.time]
        self._columns = [*layout.joined, *time] or list(layout.schema.names)
        self._keep, self._start = keep, start
        self._held: list[tuple[pa.RecordBatch, Int64s]] = []
        self.seen = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows that can join."""
        stored = pa.record_batch([to_storable(batch.column(c)) for c in self._columns], self._columns)
        hashes = content_hashes(stored)
        draws = np.asarray(lots(hashes, hashes, self._start))
        self.seen += batch.num_rows
        self._held.append(self._only(batch, draws))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows that are sent, now that all are seen."""
        for batch, draws in self._held:
            yield self._only(batch, draws)[0]

    def _only(self, batch: pa.RecordBatch, draws: Int64s) -> tuple[pa.RecordBatch, Int64s]:
        part = self._keep.part(self.seen)
        if part >= 1:
            return batch, draws
        chosen = draws.view(np.uint64) < np.uint64(part * (1 << 64))
        return batch.filter(pa.array(chosen)), draws[chosen]


def early(layout: Layout, number: int, seed: int, offsets: str | None) -> Early | None:
    """What was decided about a stream's rows in this task's batch; None: all are sent."""
    if offsets is None or (batch := _batch()) is None:
        return None
    decided = recorded(Path(offsets) / str(batch)).get("keep", {}).get(layout.stream.name)
    if decided is None:
        return None
    share, rows = decided
    return Early(layout, Keep(share, int(rows)), first_lot(seed, batch * 64 + number))


def recorded(offsets: Path) -> dict[str, dict[str, list[float]]]:
    """What was decided for a batch, by its file in Spark's log; nothing if there is none."""
    try:
        lines = offsets.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    for line in lines:
        if f'"{MARK}"' in line:
            found: dict[str, dict[str, list[float]]] = json.loads(json.loads(line).get(DECIDED) or "{}")
            return found
    return {}


def _batch() -> int | None:
    """The number of the task's batch, if it has one."""
    from pyspark import TaskContext  # noqa: PLC0415  (only inside a task)

    context = TaskContext.get()
    number = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    return None if number is None else int(number)
