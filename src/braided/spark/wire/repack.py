"""Between two stages: the rows one stage found go to the buckets of the next, by the next stage's key.

A stage's task hands on blobs of rows and, from every bucket, the newest time of each leaf stream. All of it
belongs to the micro-batch at hand: the next stage runs in the same Spark job. Every task tells every bucket
of the next stage these times and its row counts, even if it found no row; a bucket of a stage has input in
every batch in which any leaf stream brings a row, so no bucket of the next stage misses a batch either.

The watermark is over all leaf streams, so the first stages must know the newest times of streams that only
a later stage joins: `Teller` sends them, from a scan of the time column alone.

Late rows that are to come out flagged travel through all later stages as they are: a stage's output is used
once, because Spark would run it again for a second use.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from braided.engine.sides import times
from braided.query.stream import Stream
from braided.spark.wire import blobs
from braided.spark.wire.bucketing import Bucketing, Seen, Target
from braided.spark.wire.packed import Newest, newer


class Repacker:
    """Sorts the rows of one partition of a stage into the buckets of the next."""

    def __init__(self, target: Target, leaves: int) -> None:
        self._target, self._leaves = target, leaves

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Data blobs, then one control row per bucket."""
        bucketing, seen = Bucketing(self._target), Seen()
        newest: Newest | None = None
        for blob, late, leaves_us in _handed_on(batches):
            if leaves_us is not None:
                newest = newer(newest or [None] * self._leaves, leaves_us)
            if blob is not None and late:
                yield bucketing.passing(blob.to_pybytes())
            elif blob is not None:
                rows = blobs.decode(blob)
                seen.rows_in += rows.num_rows
                yield from bucketing.add(rows)
        yield from bucketing.flush()
        if newest is not None:
            yield bucketing.control(seen, newest)


class Teller:
    """Tells the buckets of a stage the newest time of a leaf stream that another stage joins."""

    def __init__(self, stream: Stream, leaf: int, leaves: int, buckets: int) -> None:
        self._stream, self._leaf, self._leaves, self._buckets = stream, leaf, leaves, buckets

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One control row per bucket, if there is a time to tell."""
        seen = Seen()
        for batch in batches:
            if batch.num_rows and self._stream.time is not None:
                seen.at(times.event_times(self._stream, batch.column(0)).newest_us)
        if seen.newest_us is not None:
            leaves_us: list[int | None] = [None] * self._leaves
            leaves_us[self._leaf] = seen.newest_us
            yield Bucketing(Target(self._buckets)).control(Seen(), leaves_us)


class Heartbeat:
    """Tells every bucket that there is time."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One control row per bucket, if time has passed."""
        if sum(batch.num_rows for batch in batches):
            yield Bucketing(Target(self._buckets)).control(Seen())


def _handed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.Buffer | None, bool, Newest | None]]:
    """Rows that a stage found: blob, whether it is of late rows, newest times."""
    for batch in batches:
        columns = (batch.column(name) for name in ("blob", "late", "leaves_us"))
        for blob, late, leaves_us in zip(*columns, strict=True):
            yield (blob.as_buffer() if blob.is_valid else None), late.as_py(), leaves_us.as_py()
