"""Rows by bucket: blobs of rows on their way to a stage, and the control rows that go with them.

One task's rows of one input go to the buckets of the stage that joins them, as few blobs as may be, and each
bucket is told how many rows go to it, to the buckets before it and to all. Rows with the same key go to the
same bucket, whichever input brings them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine.sides.keys import KeyFormat
from braided.spark.plan import JoinPlan
from braided.spark.wire import blobs
from braided.spark.wire.labels import labels
from braided.spark.wire.packed import NO_STREAM, Newest, Packed, to_arrow

_FLUSH_BYTES = 64 << 20  # rows that a task holds back, for fewer and larger blobs

_NO_KEY = KeyFormat(())


@dataclass(frozen=True)
class Target:
    """Where rows go: a stage's number of buckets, which of its inputs they are, and what their key is.

    `places` are the key columns among the stored ones; `keys` is how all inputs of the stage hash them.
    """

    buckets: int
    stream: int = NO_STREAM
    places: tuple[int, ...] = ()
    keys: KeyFormat = _NO_KEY


def target(plan: JoinPlan, number: int) -> Target:
    """Where the rows of one of a stage's inputs go."""
    return Target(plan.buckets, number, plan.places(plan.inputs[number]), plan.keys)


@dataclass
class Seen:
    """What a task has seen of its input, named as in `Packed`."""

    rows_in: int = 0
    null_keys: int = 0
    null_times: int = 0
    punctuations: int = 0
    newest_us: int | None = None

    def at(self, newest_us: int | None) -> None:
        """A newest time has been seen."""
        if newest_us is not None:
            self.newest_us = newest_us if self.newest_us is None else max(newest_us, self.newest_us)


class Bucketing:
    """One task's rows of one input, by bucket; blobs are numbered in the order they are made."""

    def __init__(self, target: Target) -> None:
        self._target, self._part, self._seq = target, _partition(), 0
        self._began_us = time.time_ns() // 1000
        self._by_bucket = np.zeros(target.buckets, np.int64)
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take stored rows that can join; hand out packed rows once there are many."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= _FLUSH_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """The rows that are held, as packed rows with a blob each."""
        held, self._held, self._held_bytes = self._held, [], 0
        if held:
            for number, piece in self._sorted(held[0] if len(held) == 1 else pa.concat_batches(held)):
                self._by_bucket[number] += piece.num_rows
                yield self._row(number, blobs.encode(piece))

    def punctuations(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Punctuations of keys, for the buckets of these keys, which count them."""
        for number, piece in self._sorted(rows):
            yield self._row(number, blobs.encode(piece), closing=True, punctuations=piece.num_rows)

    def to_all(self, punctuations: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Punctuations for every bucket; they are counted elsewhere."""
        for number in range(self._target.buckets):
            yield self._row(number, blobs.encode(punctuations), closing=True)

    def passing(self, blob: bytes) -> pa.RecordBatch:
        """A blob that is none of the stage's business, as a packed row.

        All of a task's go to one bucket, by the task's number: a repeated attempt must choose the same.
        """
        return self._row(self._part % self._target.buckets, blob, stream=NO_STREAM)

    def control(self, seen: Seen, leaves_us: Newest | None = None) -> pa.RecordBatch:
        """A row for every bucket: counts go to the first, so that sums are right; times go to all.

        `began_us` is when this task began, by its own clock: no result depends on it, only later budgets.
        """
        upto = np.cumsum(self._by_bucket).tolist()
        first = Packed(
            labels(self._target.buckets)[0], self._target.stream, self._part, self._seq, **vars(seen),
            rows_upto=upto[0], rows_total=upto[-1], dropped=seen.null_keys + seen.null_times,
            began_us=self._began_us, leaves_us=leaves_us,
        )  # fmt: skip
        rest = first._replace(**vars(Seen(newest_us=seen.newest_us)))
        others = zip(labels(self._target.buckets)[1:], upto[:-1], upto[1:], strict=True)
        return to_arrow([first, *(rest._replace(bucket=b, rows_before=n, rows_upto=m) for b, n, m in others)])

    def _sorted(self, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows by bucket, in pieces of bounded size."""
        columns = [rows.column(k) for k in self._target.places]
        hashes = self._target.keys.hashes(columns, rows.num_rows)
        bucket = (hashes & (self._target.buckets - 1)).astype(np.uint16)
        counts = np.bincount(bucket, minlength=self._target.buckets)
        rows = rows.take(pa.array(np.argsort(bucket, kind="stable")))
        start = 0
        for number in np.flatnonzero(counts).tolist():
            for piece in blobs.bounded(rows.slice(start, counts[number])):
                yield number, piece
            start += int(counts[number])

    def _row(self, bucket: int, blob: bytes, **others: Any) -> pa.RecordBatch:
        label = labels(self._target.buckets)[bucket]
        row = Packed(label, self._target.stream, self._part, self._seq, blob=blob)
        self._seq += 1
        return to_arrow([row._replace(**others)])


def _partition() -> int:
    """The number of the task's part of the data."""
    from pyspark import TaskContext  # noqa: PLC0415  (only inside a task)

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
