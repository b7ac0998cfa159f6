"""Rows that are dropped before they are sent, as it was decided for the batch (`policies.recorded`).

A decision is part of the heartbeat's offset, which Spark writes into the checkpoint before the batch runs. A
task reads it there, so every attempt, and a restart, drops the same rows: those with the largest lots, drawn
by their contents (all of them, so that rows with one key and a coarse time do not go together). A task that
cannot read the checkpoint sends everything, and says that it could not: then nothing is to be dropped early
in later batches, and buckets drop what is too much.

Streams of which every row must be seen send all (`may_drop`).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from braided.engine.kernels.hashing import first_lot, lots
from braided.engine.operators.layout import Layout
from braided.engine.sides.keys import content_hashes
from braided.engine.sides.storable import to_storable
from braided.policies.arrays import Int64s
from braided.policies.recorded import Decision, Keep
from braided.query.overload import Overload
from braided.spark.plan import JoinPlan
from braided.spark.sources.decided import DECIDED, beat_in


class Recorded(NamedTuple):
    """What was decided for a batch with this number."""

    batch: int
    decision: Decision


Read: TypeAlias = Callable[[], Recorded | None]  # None: it cannot be read here


class Early:
    """One task's rows of a stream of which not all are sent; few more than these are held meanwhile."""

    def __init__(self, layout: Layout, keep: Keep, start: int) -> None:
        plain = [c for c in layout.columns if not pa.types.is_nested(layout.schema.field(c).type)]
        self._columns = plain or list(layout.columns)  # it takes time to look into others
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


def budget_of(overload: Overload | None) -> int:
    """By which a budget is known: what was decided for one says nothing of another."""
    return zlib.crc32(repr(overload).encode())


def may_drop(plan: JoinPlan, number: int) -> bool:
    """Whether rows of a stream may be dropped before they are sent.

    Not if late rows are handed out: only buckets know which are late. Nor if a stream promises something of
    its keys: a row that is dropped tells of its key all the same.
    """
    stream, overload = plan.query.streams[number], plan.query.overload
    promises = stream.unique or stream.arrival != "any"
    return overload is not None and overload.drops_input and plan.late == "drop" and not promises


def early(plan: JoinPlan, number: int, recorded: Recorded | None) -> Early | None:
    """What takes the rows of a stream of which not all are sent in a task's batch; None: all are."""
    if recorded is None or recorded.decision.of != budget_of(plan.query.overload):
        return None
    layout = plan.layouts[number]
    keep = recorded.decision.keep.get(layout.stream.name)
    if keep is None or not may_drop(plan, number):
        return None
    return Early(layout, keep, first_lot(plan.query.tuning.seed, recorded.batch * 64 + number))


def logged(offsets: str) -> Recorded | None:
    """What was decided for the task's batch, in this folder of Spark's log; None if that is not readable.

    Nor if it is another query's log.
    """
    from pyspark import TaskContext  # noqa: PLC0415  (only inside a task)

    context = TaskContext.get()
    batch, query = (
        None if context is None else context.getLocalProperty(name)
        for name in ("streaming.sql.batchId", "sql.streaming.queryId")
    )
    return None if batch is None or query is None else entry(Path(offsets), int(batch), query)


def entry(offsets: Path, batch: int, query: str) -> Recorded | None:
    """What was decided for a batch of a query, by its entry in Spark's log; None if it cannot be read."""
    try:
        if json.loads((offsets.parent / "metadata").read_text(encoding="utf-8"))["id"] != query:
            return None
        beat = beat_in((offsets / str(batch)).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Recorded(batch, Decision.read(beat.get(DECIDED) or "")) if beat else None
