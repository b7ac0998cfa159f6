"""From a batch as it comes in to rows a side can store; nothing here changes any state.

Each row of a stream goes one of four ways: its time is null (joins nothing: counted); it is late
(below the watermark: set aside); its key has a null (joins nothing: counted); or it is accepted.

A batch comes in as a user's table, or as `Incoming` from a sender that has counted its rows and left out
those that cannot join. Both are judged by the same code at the same watermark.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braided.engine.operators.layout import Layout
from braided.engine.sides import times
from braided.engine.sides.keys import KeyFormat, Keys, key_format, valid_keys
from braided.engine.sides.payload import owned
from braided.engine.sides.side import Rows
from braided.engine.sides.storable import from_storable, no_rows, to_storable
from braided.policies.arrays import Bools, Int64s
from braided.query.errors import InvalidType
from braided.query.join_query import JoinQuery
from braided.query.stream import Stream

_NO_ROWS = Rows(pa.RecordBatch.from_pylist([], pa.schema([])), np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True)
class Arrival:
    """One stream's part of a batch, judged; of the rows offered to the join, some may have been shed."""

    rows: Rows
    late: pa.RecordBatch | None = None
    shed_rows: int = 0
    cut_rows: int = 0
    rows_in: int = 0
    null_keys: int = 0
    null_times: int = 0
    newest_us: int | None = None
    punctuations: int = 0
    punctuated: Keys | None = None  # keys that punctuations close
    upto: int | None = None  # the hash of the key up to which they close all
    violations: int = 0  # rows that broke a promise, left out
    keys: Keys | None = None  # of its rows, each once, where streams promise something
    copied_rows: int = 0  # at the end of its rows, which another engine counts
    total_rows: int | None = None  # of the stream in this batch, at all engines together
    brought: bool = False  # whether the stream brought any row in this batch, here or elsewhere

    @property
    def whole(self) -> bool:
        """Whether no row was set aside or cannot join."""
        return self.late is None and not self.null_keys and not self.null_times

    @property
    def late_rows(self) -> int:
        """Rows that came too late."""
        return 0 if self.late is None else int(self.late.num_rows)

    @property
    def offered_rows(self) -> int:
        """Rows that could have joined."""
        return len(self.rows) + self.shed_rows


@dataclass(frozen=True)
class Counted:
    """What a sender counted of one stream, so that the sums over all engines of a join are right."""

    rows_in: int = 0
    null_keys: int = 0
    null_times: int = 0
    punctuations: int = 0
    newest_us: int | None = None
    brought: bool = False
    total_rows: int | None = None


@dataclass(frozen=True)
class Incoming:
    """One stream's part of a batch before it is judged: rows and punctuations apart.

    Of the rows the stored columns are enough, of punctuations the columns that say what they close. Without
    `counted` the rows are all that the stream brought. The last `copies` of them went to several engines, and
    another one counts them.
    """

    rows: pa.RecordBatch | None
    punctuations: pa.RecordBatch | None = None
    counted: Counted | None = None
    copies: int = 0


class Intake:
    """Reads the batches of one stream."""

    def __init__(self, query: JoinQuery, layout: Layout, keys: KeyFormat) -> None:
        self._layout, self._keys, self._windowed = layout, keys, query.windowed
        window = layout.stream.count_window
        self._keeps_null_keys = window is not None and window.per == "stream"
        counts_keys = window is not None and window.per == "key"
        self._needs_checks = (counts_keys or query.promises) and not keys.exact
        self._needs_values = query.emit_punctuations and not keys.exact
        if layout.stream.upto is not None:
            check_range(layout, keys)

    def read(self, part: pa.RecordBatch | Incoming, watermark_us: int, *, borrow: bool) -> Arrival:
        """Judge and convert one part of a batch; with `borrow` its buffers are kept as they are."""
        if not isinstance(part, Incoming):
            part = Incoming(*split(self._layout.stream, part))
        judged = self.empty()
        if part.rows is not None:
            own = part.rows.num_rows - part.copies
            judged = self._judge(part.rows, watermark_us, own, borrow=borrow)
        counted = {} if part.counted is None else vars(part.counted)
        return dataclasses.replace(judged, **{**self._closing(part.punctuations), **counted})

    def _closing(self, punctuations: pa.RecordBatch | None) -> dict[str, Any]:
        """What punctuations close, as fields of an `Arrival`."""
        if punctuations is None or not punctuations.num_rows:
            return {}
        stream = self._layout.stream
        names = self._layout.key if stream.upto is None else (stream.upto,)
        keys = self._some_keys([to_storable(punctuations.column(name)) for name in names])
        count = {"punctuations": punctuations.num_rows}
        if stream.upto is None:
            return {**count, "punctuated": keys}
        return {**count, "upto": self._keys.largest(keys.hashes) if len(keys) else None}

    def _some_keys(self, columns: list[pa.Array]) -> Keys:
        valid = valid_keys(columns)
        if valid is not None:
            columns = [column.filter(pa.array(valid)) for column in columns]
        checks = self._keys.checks(columns) if self._needs_checks else None
        return Keys(self._keys.hashes(columns, len(columns[0])), checks, self._values(columns))

    def keys_of(self, rows: Rows) -> Keys:
        """The keys of rows."""
        return Keys(rows.hashes, rows.checks, self._values([rows.batch.column(k) for k in self._layout.keys]))

    def _values(self, columns: list[pa.Array]) -> tuple[pa.Array, ...] | None:
        return tuple(self._keys.comparable(columns)) if self._needs_values else None

    def _judge(self, batch: pa.RecordBatch, watermark_us: int, own: int, *, borrow: bool) -> Arrival:
        """Judge rows that are data, the first `own` of which count; columns of punctuations may lack."""
        columns = [to_storable(batch.column(c)) for c in self._layout.columns]
        stored = pa.RecordBatch.from_arrays(columns, schema=self._layout.stored_schema)
        event = self._times(stored)
        timed = event.valid
        keyed = valid_keys([stored.column(c) for c in self._layout.joined])
        late = self._late(event, watermark_us)
        keep = _both(timed, None if late is None else ~late)
        null_keys = 0 if keyed is None else int((~keyed if keep is None else ~keyed & keep).sum())
        linked = keyed
        if not self._keeps_null_keys:
            keep, linked = _both(keep, keyed), None
        return Arrival(
            rows=self._rows(stored, event.us, keep, linked, borrow=borrow),
            late=None if late is None else _picked(batch.slice(0, own), late[:own]),
            copied_rows=batch.num_rows - own if keep is None else int(keep[own:].sum()),
            rows_in=own,
            null_keys=null_keys,
            null_times=0 if timed is None else int((~timed).sum()),
            newest_us=event.newest_us,
            brought=batch.num_rows > 0,
        )

    def empty(self) -> Arrival:
        """No rows at all."""
        return Arrival(self.stored(no_rows(self._layout.stored_schema)))

    def stored(self, batch: pa.RecordBatch, linked: Bools | None = None) -> Rows:
        """Rows of a batch of stored columns, as a snapshot keeps them."""
        return self._hashed(batch, self._times(batch).us, linked)

    def _rows(
        self, stored: pa.RecordBatch, event_us: Int64s, keep: Bools | None, linked: Bools | None,
        *, borrow: bool,
    ) -> Rows:  # fmt: skip
        if keep is not None:
            stored, event_us = stored.filter(pa.array(keep)), event_us[keep]
            linked = linked[keep] if linked is not None else None
        return self._hashed(stored if borrow else owned(stored), event_us, linked)

    def _hashed(self, stored: pa.RecordBatch, event_us: Int64s, linked: Bools | None) -> Rows:
        columns = [stored.column(k) for k in self._layout.keys]
        checks = self._keys.checks(columns) if self._needs_checks else None
        return Rows(stored, self._keys.hashes(columns, len(event_us)), event_us, linked, checks)

    def _times(self, batch: pa.RecordBatch) -> times.EventTimes:
        stream = self._layout.stream
        if stream.time is None:
            return times.EventTimes(np.zeros(batch.num_rows, np.int64), None, None, None)
        return times.event_times(stream, batch.column(stream.time))

    def _late(self, event: times.EventTimes, watermark_us: int) -> Bools | None:
        if not self._windowed or event.oldest_us is None or event.oldest_us >= watermark_us:
            return None
        late = event.us < watermark_us
        return late if event.valid is None else late & event.valid


def joined_elsewhere(part: Incoming) -> Arrival:
    """What an engine learns of a stream whose rows arrive at another engine: its newest time."""
    return Arrival(_NO_ROWS, newest_us=part.counted.newest_us if part.counted else None)


def _picked(batch: pa.RecordBatch, mask: Bools) -> pa.RecordBatch:
    """Rows of a batch, in types as they came."""
    columns = []
    for column in batch.columns:
        picked = from_storable(to_storable(column).filter(pa.array(mask)), column.type)
        columns.append(picked.combine_chunks() if isinstance(picked, pa.ChunkedArray) else picked)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def split(stream: Stream, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows that are data, and the punctuations among them; a null flag is data."""
    flags = None if stream.flag is None else batch.column(stream.flag)
    if flags is None or flags.true_count == 0:
        return batch, batch.slice(0, 0)
    flagged = flags.fill_null(False) if flags.null_count else flags
    return batch.filter(pc.invert(flagged)), batch.filter(flagged)


def check_range(layout: Layout, keys: KeyFormat) -> None:
    """Raise if ranges of keys cannot be closed by a column of this type."""
    stream, schema = layout.stream, layout.schema
    assert stream.upto is not None
    if not keys.ordered:
        type_ = schema.field(layout.key[0]).type
        raise InvalidType(
            f"stream {stream.name!r}: a RangePunctuation needs a key of numbers, dates or times; key column "
            f"{layout.key[0]!r} has type {type_}; close keys one by one with punctuation={stream.flag!r}"
        )
    key_format([[(f"{stream.name}.{c}", schema.field(c).type) for c in (layout.key[0], stream.upto)]])


def as_batch(stream: Stream, data: Any, known: pa.Schema | None) -> pa.RecordBatch:
    """The data as one record batch with the stream's known schema."""
    table = _as_table(stream, data)
    if known is not None:
        table = _with_schema(stream, table, known)
    if isinstance(table, pa.RecordBatch):
        return table
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return no_rows(table.schema)
    return pa.concat_batches(batches)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Names and types only."""
    return pa.schema([(f.name, f.type) for f in schema])


def _as_table(stream: Stream, data: Any) -> pa.Table | pa.RecordBatch:
    table = data if isinstance(data, pa.Table | pa.RecordBatch) else None
    if table is None and hasattr(data, "__arrow_c_stream__"):
        with contextlib.suppress(pa.ArrowException):
            table = pa.table(data)
    if table is None:
        raise InvalidType(
            f"stream {stream.name!r}: rows must be a pyarrow Table or RecordBatch, or any data "
            f"frame that exports Arrow; got {type(data).__name__}"
        )
    for name in table.schema.names:
        if table.schema.names.count(name) > 1:
            raise InvalidType(f"stream {stream.name!r}: column {name!r} occurs twice")
    return table


def _with_schema(
    stream: Stream, table: pa.Table | pa.RecordBatch, known: pa.Schema
) -> pa.Table | pa.RecordBatch:
    now = plain_schema(table.schema)
    if now == known:
        return table
    differences = [f"column {n!r} is missing" for n in known.names if n not in now.names] + [
        f"column {n!r} is new" for n in now.names if n not in known.names
    ]
    differences += [
        f"column {n!r} was {known.field(n).type} and is {now.field(n).type}"
        for n in known.names
        if n in now.names and known.field(n).type != now.field(n).type
    ]
    if differences:
        raise InvalidType(
            f"stream {stream.name!r}: this batch has another schema than the first one: "
            f"{'; '.join(differences)}"
        )
    return table.select(known.names)


def _both(a: Bools | None, b: Bools | None) -> Bools | None:
    return b if a is None else a if b is None else a & b
