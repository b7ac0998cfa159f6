"""Rows by bucket: blobs of rows on their way to a stage, and the control rows that go with them.

One task's rows of one input go to the buckets of the stage that joins them, in as few blobs as possible, and
each bucket learns how many rows go to it, to the buckets before it and to all. Rows with the same key go to
the same bucket, whichever input brings them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from braided.spark.plan import JoinPlan
from braided.spark.wire import blobs
from braided.spark.wire.labels import labels
from braided.spark.wire.packed import NO_STREAM, Newest, Packed, latest, to_arrow

_FLUSH_BYTES = 64 << 20  # rows that a task holds back, for fewer and larger blobs


class Bucketing:
    """One task's rows of one of a stage's inputs, by bucket; blobs are numbered in the order they are made.

    `counts` is what the task has seen of its input, named as in `Packed`, and `newest_us` the newest time.
    """

    def __init__(self, plan: JoinPlan, number: int = NO_STREAM) -> None:
        self._plan, self._number, self._part, self._seq = plan, number, _partition(), 0
        self._labels = labels(plan.buckets)
        self._began_us = time.time_ns() // 1000
        self._by_bucket = np.zeros(plan.buckets, np.int64)
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self.counts: Counter[str] = Counter()
        self.newest_us: int | None = None

    def saw(self, newest_us: int | None) -> None:
        """Note the newest time of some rows."""
        self.newest_us = latest((self.newest_us, newest_us))

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
        for number in range(self._plan.buckets):
            yield self._row(number, blobs.encode(punctuations), closing=True)

    def passing(self, blob: bytes) -> pa.RecordBatch:
        """A blob that is none of the stage's business, as a packed row.

        All of a task's go to one bucket, by the task's number: a repeated attempt must choose the same.
        """
        return self._row(self._part % self._plan.buckets, blob, stream=NO_STREAM)

    def control(self, leaves_us: Newest | None = None) -> pa.RecordBatch:
        """A row for every bucket: counts go to the first, so that sums are right; times go to all.

        `began_us` is when this task began, by its own clock: no result depends on it, only later budgets.
        """
        upto = np.cumsum(self._by_bucket).tolist()
        row = Packed(
            self._labels[0], self._number, self._part, self._seq, newest_us=self.newest_us,
            rows_upto=upto[0], rows_total=upto[-1], began_us=self._began_us, leaves_us=leaves_us,
            dropped=self.counts["null_keys"] + self.counts["null_times"],
        )  # fmt: skip
        others = zip(self._labels[1:], upto[:-1], upto[1:], strict=True)
        rest = (row._replace(bucket=b, rows_before=n, rows_upto=m) for b, n, m in others)
        counts: dict[str, Any] = self.counts
        return to_arrow([row._replace(**counts), *rest])

    def _sorted(self, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows by bucket, in pieces of bounded size."""
        places = self._plan.places(self._plan.inputs[self._number])
        hashes = self._plan.keys.hashes([rows.column(k) for k in places], rows.num_rows)
        bucket = (hashes & (self._plan.buckets - 1)).astype(np.uint16)
        counts = np.bincount(bucket, minlength=self._plan.buckets)
        rows = rows.take(pa.array(np.argsort(bucket, kind="stable")))
        start = 0
        for number in np.flatnonzero(counts).tolist():
            for piece in blobs.bounded(rows.slice(start, counts[number])):
                yield number, piece
            start += int(counts[number])

    def _row(self, bucket: int, blob: bytes, **others: Any) -> pa.RecordBatch:
        row = Packed(self._labels[bucket], self._number, self._part, self._seq, blob=blob)
        self._seq += 1
        return to_arrow([row._replace(**others)])


def _partition() -> int:
    """The number of the task's part of the data."""
    from pyspark import TaskContext  # noqa: PLC0415  (only inside a task)

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
