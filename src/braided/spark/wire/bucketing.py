"""Rows by bucket: blobs of rows on their way to a stage, and the control rows that go with them.

One task's rows of one input go to the buckets of the stage that joins them, as few blobs as may be, and each
bucket is told how many rows go to it, to the buckets before it and to all. Rows with the same key go to the
same bucket, whichever input brings them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from braided.engine.sides.keys import KeyFormat
from braided.policies.arrays import Int64s
from braided.spark.plan import JoinPlan
from braided.spark.wire import blobs
from braided.spark.wire.labels import labels

Newest: TypeAlias = Sequence[int | None]
PACKED_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("stream", pa.int32()),
        ("part", pa.int32()),
        ("seq", pa.int32()),
        ("rows_in", pa.int64()),
        ("null_keys", pa.int64()),
        ("null_times", pa.int64()),
        ("newest_us", pa.int64()),
        ("rows_before", pa.int64()),
        ("rows_upto", pa.int64()),
        ("rows_total", pa.int64()),
        ("dropped", pa.int64()),
        ("began_us", pa.int64()),
        ("blob", pa.binary()),
        ("leaves_us", pa.list_(pa.int64())),
    ]
)
NO_STREAM = -1  # a control row that only tells times of leaf streams, or late rows that pass through


@dataclass(frozen=True)
class Target:
    """Where rows go: a stage's number of buckets, which of its inputs they are, and what their key is.

    `places` are the key columns among the stored ones; `keys` is how all inputs of the stage hash them.
    """

    buckets: int
    stream: int
    places: tuple[int, ...]
    keys: KeyFormat


def target(plan: JoinPlan, number: int) -> Target:
    """Where the rows of one of a stage's inputs go."""
    return Target(plan.buckets, number, plan.places(plan.inputs[number]), plan.keys)


@dataclass
class Seen:
    """What a task has seen of its input."""

    rows: int = 0
    null_keys: int = 0
    null_times: int = 0
    newest_us: int | None = None

    def at(self, newest_us: int | None) -> None:
        """A newest time has been seen."""
        if newest_us is not None:
            self.newest_us = newest_us if self.newest_us is None else max(newest_us, self.newest_us)


class Bucketing:
    """One task's rows of one input, by bucket; blobs are numbered in the order they are made."""

    def __init__(self, target: Target, part: int) -> None:
        self._target, self._part, self._seq = target, part, 0
        self._began_us = time.time_ns() // 1000
        self._by_bucket = np.zeros(target.buckets, np.int64)

    def packed(self, held: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stored rows that can join, as packed rows with a blob each."""
        if held:
            rows = held[0] if len(held) == 1 else pa.concat_batches(held)
            self._by_bucket += yield from self._sorted(rows)

    def punctuations(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The same of rows that are no data: a bucket does not count them."""
        yield from self._sorted(rows)

    def to_all(self, make: Callable[[bool], pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A blob for every bucket; what it holds may be another in the first."""
        for number in range(self._target.buckets):
            yield self._row(number, blobs.encode(make(number == 0)))
            self._seq += 1

    def _sorted(self, rows: pa.RecordBatch) -> Generator[pa.RecordBatch, None, Int64s]:
        columns = [rows.column(k) for k in self._target.places]
        hashes = self._target.keys.hashes(columns, rows.num_rows)
        bucket = (hashes & (self._target.buckets - 1)).astype(np.uint16)
        counts = np.bincount(bucket, minlength=self._target.buckets)
        rows = rows.take(pa.array(np.argsort(bucket, kind="stable")))
        start = 0
        for number in np.flatnonzero(counts):
            for piece in blobs.bounded(rows.slice(start, counts[number])):
                yield self._row(int(number), blobs.encode(piece))
                self._seq += 1
            start += int(counts[number])
        return counts

    def passing(self, blob: bytes) -> pa.RecordBatch:
        """A blob that is none of the stage's business, as a packed row.

        All of a task's go to one bucket, by the task's number: a repeated attempt must choose the same.
        """
        made = self._row(self._part % self._target.buckets, blob, NO_STREAM)
        self._seq += 1
        return made

    def control(self, seen: Seen, leaves_us: Newest | None = None) -> pa.RecordBatch:
        """A row for every bucket: counts go to the first, so that sums are right; times go to all.

        `began_us` is when this task began, by its own clock: no result depends on it, only later budgets.

        In a query of several stages, `leaves_us` are the newest times of all leaf streams, as far as known.
        """
        n = self._target.buckets
        first = [1] + [0] * (n - 1)
        upto = np.cumsum(self._by_bucket)
        columns = [
            labels(n), [self._target.stream] * n, [self._part] * n, [self._seq] * n,
            [seen.rows * f for f in first], [seen.null_keys * f for f in first],
            [seen.null_times * f for f in first], [seen.newest_us] * n,
            upto - self._by_bucket, upto, [upto[-1]] * n, [seen.null_keys + seen.null_times] * n,
            [self._began_us] * n, [None] * n, [leaves_us] * n,
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, PACKED_SCHEMA, strict=True)], schema=PACKED_SCHEMA
        )

    def _row(self, bucket: int, blob: bytes, stream: int | None = None) -> pa.RecordBatch:
        label = labels(self._target.buckets)[bucket]
        stream = self._target.stream if stream is None else stream
        values = [label, stream, self._part, self._seq, 0, 0, 0, None, 0, 0, 0, 0, None, blob, None]
        return pa.RecordBatch.from_arrays(
            [pa.array([v], f.type) for v, f in zip(values, PACKED_SCHEMA, strict=True)], schema=PACKED_SCHEMA
        )


def newer(a: Newest, b: Newest) -> list[int | None]:
    """The newest times out of two accounts."""
    return [x if y is None else y if x is None else max(x, y) for x, y in zip(a, b, strict=True)]


def partition() -> int:
    """The number of the task's part of the data."""
    from pyspark import TaskContext  # noqa: PLC0415  (only inside a task)

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
