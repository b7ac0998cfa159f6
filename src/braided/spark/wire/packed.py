"""The rows that travel between tasks, each defined once: its columns, how it is written and read.

Spark hands Python operators with state their input row by row, which is slow; so the rows of streams travel
as blobs (`blobs`), each in one of these:

- `Packed`: from a task that packs to a bucket. Either it has a blob, or it is one of the *control rows* that
  every task sends to every bucket.
- `Emitted`: from a bucket to the next stage, where it is packed again, or out of the join.

All of it belongs to one micro-batch: nothing here is stored, so columns may change with any release.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, get_type_hints

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd

Newest: TypeAlias = Sequence[int | None]  # the newest times of all streams of a query, as far as known
NO_STREAM = -1  # of a packed row that only tells of time, or holds late rows that pass through

_Int = Annotated[int, pa.int32()]
_Long = Annotated[int, pa.int64()]
_LongOrNull = Annotated[int | None, pa.int64()]
_Bool = Annotated[bool, pa.bool_()]
_Blob = Annotated[bytes | None, pa.binary()]
_Text = Annotated[str | None, pa.string()]
_Longs = Annotated[Newest | None, pa.list_(pa.int64())]


class Packed(NamedTuple):
    """A row on its way to a bucket, by the bucket's label.

    `stream` is which of the stage's inputs it is about; `part` and `seq` number the sender and its rows, so
    that a bucket can sort them. `rows_in`, `null_keys`, `null_times` and `punctuations` are to be added up
    over all buckets. Control rows tell every bucket `newest_us`, how many rows were `dropped` because they
    cannot join, when the task began by its own clock, and, of the rows that can join, how many go to the
    buckets before this one, up to it, and in total, and how many there were before they were copied
    (`joining`). The heartbeat's tell the recorded time and the number of the run. In a query of several
    stages `leaves_us` are the newest times of all streams. A blob holds rows, or punctuations if it is
    `closing`; if it is `copied`, another bucket counts them.
    """

    bucket: _Int
    stream: _Int
    part: _Int
    seq: _Int
    rows_in: _Long = 0
    null_keys: _Long = 0
    null_times: _Long = 0
    punctuations: _Long = 0
    newest_us: _LongOrNull = None
    rows_before: _Long = 0
    rows_upto: _Long = 0
    rows_total: _Long = 0
    joining: _Long = 0
    dropped: _Long = 0
    began_us: _LongOrNull = None
    clock_s: _LongOrNull = None
    run: _LongOrNull = None
    blob: _Blob = None
    closing: _Bool = False
    copied: _Bool = False
    leaves_us: _Longs = None


class Emitted(NamedTuple):
    """A row that a bucket made: a blob of results, or at the end a report of its numbers.

    Late rows come in the result's columns; they pass through later stages as they are.
    """

    blob: _Blob = None
    late: _Bool = False
    report: _Text = None
    leaves_us: _Longs = None


@functools.cache
def schema(row: Any) -> pa.Schema:
    """The Arrow schema of `Packed` or `Emitted`."""
    hints = get_type_hints(row, include_extras=True)
    return pa.schema([(name, hint.__metadata__[0]) for name, hint in hints.items()])


def to_arrow(rows: Sequence[Packed] | Sequence[Emitted]) -> pa.RecordBatch:
    """Rows of one kind, at least one, as a record batch."""
    kind: Any = type(rows[0])
    columns, made = zip(*rows, strict=True), schema(kind)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, made, strict=True)], schema=made
    )


def packed_rows(batches: Iterable[pa.RecordBatch]) -> list[Packed]:
    """The packed rows in record batches; they may have been sent in any order of columns."""
    packed: list[Packed] = []
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in Packed._fields]
        packed += map(Packed._make, zip(*columns, strict=True))
    return packed


def packed_frames(frames: Iterable[pd.DataFrame]) -> list[Packed]:
    """The packed rows in pandas frames."""
    packed: list[Packed] = []
    for frame in frames:
        columns = [map(_plain, frame[name].tolist()) for name in Packed._fields]
        packed += [Packed(*row) for row in zip(*columns, strict=True)]
    return packed


def _plain(value: Any) -> Any:
    """A value as it was sent: pandas makes floats of whole numbers beside nulls, and arrays of lists."""
    if hasattr(value, "tolist"):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, float):
        return None if math.isnan(value) else int(value)
    return value


def latest(times_us: Iterable[int | None]) -> int | None:
    """The latest of some times, of which some may be unknown."""
    return max((t for t in times_us if t is not None), default=None)
