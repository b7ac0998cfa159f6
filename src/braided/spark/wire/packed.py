"""The rows that travel between tasks, each defined once: its columns, how it is written and read.

Spark hands Python operators with state their input row by row, which is slow; so the rows of streams travel
as blobs (`blobs`), each in one of these:

- `Packed`: from a task that packs to a bucket. Either it has a blob, or it is one of the *control rows* that
  every task sends to every bucket.
- `Emitted`: from a bucket to the next stage, where it is packed again, or out of the join.

Spark itself must see only the bucket of one and the report of the other; all else is in one binary value, a
header of JSON with the blob behind it, because a column more costs every bucket something in every batch. All
of it belongs to one micro-batch: nothing here is stored, so it may change with any release.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa

from braided.spark.plan import BLOB_BYTES
from braided.spark.wire import blobs

if TYPE_CHECKING:
    import pandas as pd

Newest: TypeAlias = Sequence[int | None]  # the newest times of all streams of a query, as far as known
Blob: TypeAlias = bytes | memoryview
_APART = ("bucket", "report", "blob")  # what is no part of a header
NO_STREAM = -1  # of a packed row that only tells of time, or holds late rows that pass through
_ALIGNED = 64  # bytes: blobs begin where Arrow likes its buffers to


class Packed(NamedTuple):
    """A row on its way to a bucket, by the bucket's label.

    `stream` is which of the stage's inputs it is about; `part` and `seq` number the sender and its rows, so
    that a bucket can sort them. `rows_in`, `null_keys`, `null_times` and the punctuations are to be added up
    over all buckets. Control rows tell every bucket `newest_us`, how many rows were `dropped` because they
    cannot join (or kept for an outer join, without a key), when the task began by its own clock, and, of the
    rows that can join, how many go to the buckets before this one, up to it, and in total, and how many there
    were before they were copied (`joining`), how many were dropped `early`, and whether the task `reads`
    which. The heartbeat's tell the recorded time, the number of the run and what was `decided` for the
    bucket: its part of a budget, and the rows that all buckets let in (-1: nothing). In a query of several
    stages `leaves_us` are the newest times of all streams. A blob holds rows, or punctuations if it is
    `closing`; if it is `copied`, another bucket counts them. If it is `told`, it holds the values that a
    stream promises something about, of rows that may have gone to other buckets.
    """

    bucket: int
    stream: int
    part: int
    seq: int
    rows_in: int = 0
    null_keys: int = 0
    null_times: int = 0
    shed_rows: int = 0
    punctuations: int = 0
    partial_punctuations: int = 0
    newest_us: int | None = None
    rows_before: int = 0
    rows_upto: int = 0
    rows_total: int = 0
    joining: int = 0
    early: int = 0
    reads: bool = False
    dropped: int = 0
    began_us: int | None = None
    clock_s: int | None = None
    run: int | None = None
    decided: tuple[float, int] | None = None
    blob: Blob | None = None
    closing: bool = False
    copied: bool = False
    told: bool = False
    leaves_us: Newest | None = None


class Emitted(NamedTuple):
    """A row that a bucket made: a blob of results, or at the end a report of its numbers.

    Late rows come in the result's columns; they pass through later stages as they are.
    """

    blob: Blob | None = None
    late: bool = False
    report: str | None = None
    leaves_us: Newest | None = None


def schema(kind: type[Packed] | type[Emitted]) -> pa.Schema:
    """The columns of `Packed` or `Emitted` in Spark."""
    seen = ("bucket", pa.int32()) if kind is Packed else ("report", pa.string())
    return pa.schema([seen, ("data", pa.binary())])


def to_arrow(rows: Sequence[Packed] | Sequence[Emitted]) -> pa.RecordBatch:
    """Rows of one kind, at least one, as a record batch."""
    made = schema(type(rows[0]))
    columns = [getattr(row, made.names[0]) for row in rows], [encoded(row) for row in rows]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, made, strict=True)], schema=made
    )


def encoded(row: Packed | Emitted) -> bytes:
    """All of a row that Spark need not see: its length, the header, padding, the blob.

    >>> data = encoded(Emitted(b"rows", late=True))
    >>> data[4:18], len(data), data[64:]
    (b'{"late": true}', 68, b'rows')
    """
    plain = row._field_defaults
    said = {n: v for n, v in zip(row._fields, row, strict=True) if v != plain.get(n) and n not in _APART}
    header = json.dumps(said).encode()
    padding = b" " * (-(4 + len(header)) % _ALIGNED)
    return b"".join((len(header).to_bytes(4, "little"), header, padding, row.blob or b""))


def decoded(data: Blob) -> dict[str, Any]:
    """The fields of a row that are in `encoded`; the blob is not copied."""
    view = memoryview(data)
    end = 4 + int.from_bytes(view[:4], "little")
    said: dict[str, Any] = json.loads(bytes(view[4:end]))
    blob = view[end + -end % _ALIGNED :]
    return said | ({"blob": blob} if blob else {})


def packed_rows(batches: Iterable[pa.RecordBatch]) -> list[Packed]:
    """The packed rows in record batches; they may have been sent in any order of columns."""
    rows = (zip(b.column("bucket").to_pylist(), b.column("data").to_pylist(), strict=True) for b in batches)
    return [Packed(bucket=bucket, **decoded(data)) for of_batch in rows for bucket, data in of_batch]


def packed_frames(bucket: int, frames: Iterable[pd.DataFrame]) -> list[Packed]:
    """A bucket's packed rows in pandas frames."""
    return [Packed(bucket=bucket, **decoded(data)) for frame in frames for data in frame["data"].tolist()]


def emitted_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Emitted]:
    """What buckets made, but for their reports."""
    for batch in batches:
        for data in batch.column("data"):
            yield Emitted(**decoded(data.as_buffer()))


def gathered(rows: Iterable[Emitted]) -> Iterator[list[Emitted]]:
    """Rows in groups that are large enough for a frame each, and not too large."""
    group: list[Emitted] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row.blob or b"")
        if size >= BLOB_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The result rows in the blobs after the join; rows that only carry metrics are passed over."""
    return (blobs.decode(row.blob) for row in emitted_rows(batches) if row.blob is not None)


def latest(times_us: Iterable[int | None]) -> int | None:
    """The latest of some times, of which some may be unknown."""
    return max((t for t in times_us if t is not None), default=None)
