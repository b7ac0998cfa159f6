"""From a batch as it comes in to rows a side can store; nothing here changes any state.

Each row of a stream goes one of four ways: its time is null (joins nothing: counted); it is late
(below the watermark: set aside); its key has a null (joins nothing: counted); or it is accepted.

A batch comes in as a user's table, or as `Incoming` from a sender that has counted its rows and left out
those that cannot join. Both are judged by the same code at the same watermark.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braided.engine.operators.finality import Finality
from braided.engine.operators.layout import Layout
from braided.engine.sides import times
from braided.engine.sides.keys import KeyFormat, Keys, key_format, keys_in, valid_keys
from braided.engine.sides.payload import owned
from braided.engine.sides.side import Rows
from braided.engine.sides.storable import conform, from_storable, no_rows, to_storable
from braided.engine.state import linked_rows
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
    partial_punctuations: int = 0  # of these, which close nothing
    punctuated: Keys | None = None  # keys that punctuations close
    upto: int | None = None  # the hash of the key up to which they close all
    violations: int = 0  # rows that broke a promise, left out
    told: Keys | None = None  # keys of its rows here and at other engines, each once
    keys: Keys | None = None  # of its rows, each once, where streams promise something
    copied_rows: int = 0  # at the end of its rows, which another engine counts
    total_rows: int | None = None  # of the stream in this batch, at all engines together
    came: bool = False  # whether the stream brought any row in this batch, though it may not join, anywhere
    brought: bool = False  # whether the stream brought any row in this batch, here or elsewhere

    @property
    def whole(self) -> bool:
        """Whether every row that came can join: none was late, none had a null, also where that is stored."""
        keyed = self.rows.linked is None or bool(self.rows.linked.all())
        return keyed and self.late is None and not self.null_keys and not self.null_times

    @property
    def late_rows(self) -> int:
        """Rows that came too late."""
        return 0 if self.late is None else int(self.late.num_rows)

    @property
    def own_rows(self) -> int:
        """Rows that are counted here; copies come behind them."""
        return len(self.rows) - self.copied_rows

    @property
    def offered_rows(self) -> int:
        """Rows that could have joined."""
        return len(self.rows) + self.shed_rows

    def pick(self, chosen: Bools, **changes: Any) -> Arrival:
        """Return the arrival with some of its rows."""
        copied = int(chosen[self.own_rows :].sum())
        return replace(self, rows=self.rows.pick(chosen), copied_rows=copied, **changes)


@dataclass
class Counters:
    """What one stream has seen since the start."""

    rows_in: int = 0
    late_rows: int = 0
    null_keys: int = 0
    null_times: int = 0
    shed_rows: int = 0
    punctuations: int = 0
    partial_punctuations: int = 0
    copied_rows: int = 0
    violations: int = 0
    expired_rows: int = 0
    purged_rows: int = 0

    def count(self, arrival: Arrival) -> None:
        """Add what arrived in a batch."""
        for name, before in vars(self).items():
            setattr(self, name, before + getattr(arrival, name, 0))


@dataclass(frozen=True)
class Incoming:
    """One stream's part of a batch before it is judged: rows and punctuations apart.

    Of the rows the stored columns are enough, of punctuations the columns that say what they close. `counted`
    are fields of an `Arrival` as the sender counted them, so that the sums over all engines of a join are
    right; without it the rows are all that the stream brought. The last `copies` of them went to several
    engines, and another one counts them. `told` has the columns that the stream promises something about, of
    rows that may have gone to other engines.
    """

    rows: pa.RecordBatch | None
    punctuations: pa.RecordBatch | None = None
    counted: Mapping[str, Any] = field(default_factory=dict)
    copies: int = 0
    told: pa.RecordBatch | None = None


class Intake:
    """Reads the batches of one stream."""

    def __init__(self, query: JoinQuery, layout: Layout, keys: KeyFormat, promised: KeyFormat) -> None:
        """`keys` are those of its operator, `promised` those that its promises are about, if it has any."""
        self.layout, self._keys, self._windowed = layout, keys, query.windowed
        self._promised = promised
        per = window.per if (window := layout.stream.count_window) else None
        self._keeps_null_keys = per == "stream"
        self._needs_checks = (per == "key" or query.promises) and not keys.exact
        self._needs_values = query.emit_punctuations and not keys.exact
        self._finality = final_alone(query, layout.stream)
        self._places = {(layout.stream.name, c): place for place, c in enumerate(layout.columns)}
        _check_range(layout, self._promised)

    def read(self, part: pa.RecordBatch | Incoming, watermark_us: int, *, borrow: bool) -> Arrival:
        """Judge and convert one part of a batch; with `borrow` its buffers are not copied."""
        if not isinstance(part, Incoming):
            rows, closing, partial = split(self.layout.stream, part)
            counted = {"punctuations": closing.num_rows + partial, "partial_punctuations": partial}
            part = Incoming(rows, closing, counted)
        if part.rows is None:
            judged = self.empty()
        else:
            own = part.rows.num_rows - part.copies
            judged = self._judge(part.rows, watermark_us, own, borrow=borrow)
        return replace(judged, **{**self._closing(part.punctuations), **part.counted}, told=self._told(part))

    def _told(self, part: Incoming) -> Keys | None:
        if part.told is None:
            return None
        keys = keys_in(self._promised, [part.told.column(c) for c in self.layout.promised])
        return keys.pick(keys.first_ones())

    def _closing(self, punctuations: pa.RecordBatch | None) -> dict[str, Any]:
        """Read what punctuations close, as fields of an `Arrival`."""
        upto, keys = self.layout.stream.upto, self._promised
        names = self.layout.promised if upto is None else (upto,)
        if punctuations is None or not punctuations.num_rows or not keys.types:
            return {}
        columns = [to_storable(punctuations.column(name)) for name in names]
        if (valid := valid_keys(columns)) is not None:
            columns = [column.filter(pa.array(valid)) for column in columns]
        if upto is not None:
            hashes = keys.hashes(columns, len(columns[0]))
            largest = keys.largest(hashes) if len(hashes) else None
            return {"punctuations": punctuations.num_rows, "upto": largest}
        closed = replace(keys_in(keys, columns), values=self._values(columns))
        return {"punctuations": punctuations.num_rows, "punctuated": closed}

    def keys_of(self, rows: Rows) -> Keys:
        """The keys of rows that promises are about."""
        if self.layout.promised != self.layout.key:
            return keys_in(self._promised, [rows.batch.column(c) for c in self.layout.promised])
        return Keys(rows.hashes, rows.checks, self._values([rows.batch.column(k) for k in self.layout.keys]))

    def keys_in(self, batch: pa.RecordBatch) -> Keys:
        """The keys of rows as they came, with their punctuations; a key with a null may be any."""
        columns = [to_storable(batch.column(name)) for name in self.layout.key]
        return Keys(self._keys.hashes(columns, batch.num_rows), self._checks(columns))

    def _checks(self, columns: list[pa.Array]) -> Int64s | None:
        return self._keys.checks(columns) if self._needs_checks else None

    def _values(self, columns: list[pa.Array]) -> tuple[pa.Array, ...] | None:
        return tuple(self._keys.comparable(columns)) if self._needs_values else None

    def _judge(self, batch: pa.RecordBatch, watermark_us: int, own: int, *, borrow: bool) -> Arrival:
        """Judge rows that are data, the first `own` of which count; columns of punctuations may lack."""
        columns = [to_storable(batch.column(c)) for c in self.layout.columns]
        stored = pa.RecordBatch.from_arrays(columns, schema=self.layout.stored_schema)
        event = self._times(stored)
        keyed = valid_keys([stored.column(c) for c in self.layout.needed])
        late = self._late(event, watermark_us)
        keep = _both(event.valid, None if late is None else ~late)
        null_keys = 0 if keyed is None else int((~keyed if keep is None else ~keyed & keep).sum())
        linked = keyed if self._keeps_null_keys else None
        keep = keep if self._keeps_null_keys else _both(keep, keyed)
        us = event.us
        if keep is not None:
            stored, us = stored.filter(pa.array(keep)), us[keep]
            linked = None if linked is None else linked[keep]
        return Arrival(
            rows=self._hashed(stored if borrow else owned(stored), us, linked),
            late=None if late is None else _picked(batch.slice(0, own), late[:own]),
            copied_rows=batch.num_rows - own if keep is None else int(keep[own:].sum()),
            rows_in=own,
            null_keys=null_keys,
            null_times=0 if event.valid is None else int((~event.valid).sum()),
            newest_us=event.newest_us,
            came=batch.num_rows > 0,
            brought=batch.num_rows > 0,
        )

    def empty(self) -> Arrival:
        """Return an arrival without rows."""
        (none,) = self.stored([no_rows(self.layout.stored_schema)])
        return Arrival(none)

    def stored(self, batches: Iterable[pa.RecordBatch]) -> list[Rows]:
        """Rows of batches of stored columns, as a saved state keeps them, in today's columns."""
        parts = [linked_rows(batch) for batch in batches]
        today = [(conform(rows, self.layout.stored_schema), linked) for rows, linked in parts]
        return [self._hashed(rows, self._times(rows).us, linked) for rows, linked in today]

    def _hashed(self, stored: pa.RecordBatch, event_us: Int64s, linked: Bools | None) -> Rows:
        columns = [stored.column(k) for k in self.layout.keys]
        hashes = self._keys.hashes(columns, len(event_us))
        if linked is None and self.layout.needed != self.layout.joined:
            linked = valid_keys(columns)
        final = (
            None if self._finality is None else self._finality.of(stored, self._places, lambda _: event_us)
        )
        if not self.layout.counted:
            return Rows(stored, hashes, event_us, linked, self._checks(columns), final=final)
        counted = keys_in(self.layout.counting, [stored.column(c) for c in self.layout.counted])
        return Rows(stored, hashes, event_us, linked, counted.checks, counted=counted.hashes)

    def _times(self, batch: pa.RecordBatch) -> times.EventTimes:
        stream = self.layout.stream
        if stream.time is None:
            return times.EventTimes(np.zeros(batch.num_rows, np.int64), None, None, None)
        return times.event_times(stream, batch.column(stream.time))

    def _late(self, event: times.EventTimes, watermark_us: int) -> Bools | None:
        if not self._windowed or event.oldest_us is None or event.oldest_us >= watermark_us:
            return None
        late = event.us < watermark_us
        return late if event.valid is None else late & event.valid


def final_alone(query: JoinQuery, stream: Stream) -> Finality | None:
    """Return what tells when a stream's rows are final, if they are the core (in a full join, both are)."""
    if query.kinds.core == (stream.name,) and query.kinds.optional:
        return Finality(query, query.kinds.core, query.kinds.optional)
    return Finality(query, (stream.name,), query.kinds.core) if stream.how == "full" else None


def joined_elsewhere(part: pa.RecordBatch | Incoming) -> Arrival:
    """Return what an engine learns of a stream whose rows arrive at another engine: its newest time."""
    assert isinstance(part, Incoming)
    return Arrival(_NO_ROWS, newest_us=part.counted.get("newest_us"))


def _picked(batch: pa.RecordBatch, mask: Bools) -> pa.RecordBatch:
    """Rows of a batch, in types as they came."""
    columns = []
    for column in batch.columns:
        picked = from_storable(to_storable(column).filter(pa.array(mask)), column.type)
        columns.append(picked.combine_chunks() if isinstance(picked, pa.ChunkedArray) else picked)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def split(stream: Stream, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch, int]:
    """The rows that are data, the punctuations that close keys, and how many close nothing.

    A null flag is data.
    """
    flags = None if stream.flag is None else batch.column(stream.flag)
    if flags is None or flags.true_count == 0:
        return batch, batch.slice(0, 0), 0
    flagged = flags.fill_null(False) if flags.null_count else flags
    punctuations = batch.filter(flagged)
    whole = punctuations.filter(pa.array(closes(stream, punctuations)))
    return batch.filter(pc.invert(flagged)), whole, punctuations.num_rows - whole.num_rows


def closes(stream: Stream, punctuations: pa.RecordBatch) -> Bools:
    """Which punctuations close their keys: not those that also name a value of another column.

    Such a one says only that no more rows with both will come. Its time is when it was said.
    """
    all_rows = np.ones(punctuations.num_rows, np.bool_)
    aside = {*stream.key_columns, stream.time, stream.flag, stream.upto}
    for name, column in zip(punctuations.schema.names, punctuations.columns, strict=True):
        if name not in aside and column.null_count < len(column):
            all_rows &= np.asarray(column.is_null())
    return all_rows


def _check_range(layout: Layout, keys: KeyFormat) -> None:
    """Raise if ranges of keys cannot be closed by a column of this type."""
    stream, schema = layout.stream, layout.schema
    if stream.upto is None:
        return
    if not keys.ordered:
        type_ = schema.field(layout.promised[0]).type
        raise InvalidType(
            f"stream {stream.name!r}: a RangePunctuation needs a key of numbers, dates or times; key column "
            f"{layout.promised[0]!r} has type {type_}; close keys one by one with punctuation={stream.flag!r}"
        )
    key_format([[(f"{stream.name}.{c}", schema.field(c).type) for c in (layout.promised[0], stream.upto)]])


def as_batch(stream: Stream, data: Any, known: pa.Schema | None) -> pa.RecordBatch:
    """The data as one record batch with the stream's known schema."""
    table = data if isinstance(data, pa.Table | pa.RecordBatch) else None
    if table is None and hasattr(data, "__arrow_c_stream__"):
        with contextlib.suppress(pa.ArrowException):
            table = pa.table(data)
    if table is None:
        raise InvalidType(
            f"stream {stream.name!r}: rows must be a pyarrow Table or RecordBatch, or any data "
            f"frame that exports Arrow; got {type(data).__name__}"
        )
    names = table.schema.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidType(f"stream {stream.name!r}: column {twice!r} occurs twice")
    if known is not None and plain_schema(table.schema) != known:
        _check_same_columns(stream, table.schema, known)
        table = table.select(known.names)
    if isinstance(table, pa.RecordBatch):
        return table
    batches = table.combine_chunks().to_batches() or [no_rows(table.schema)]
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


@functools.lru_cache(maxsize=256)
def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Names and types only."""
    return pa.schema([(f.name, f.type) for f in schema])


def _check_same_columns(stream: Stream, schema: pa.Schema, known: pa.Schema) -> None:
    """Raise unless a batch has the columns and types of the first one; their order may differ."""
    before, now = ({f.name: f.type for f in columns} for columns in (known, schema))
    differences = [f"column {n!r} is missing" for n in before if n not in now]
    differences += [f"column {n!r} is new" for n in now if n not in before]
    both = [n for n in before if n in now and before[n] != now[n]]
    differences += [f"column {n!r} was {before[n]} and is {now[n]}" for n in both]
    if differences:
        raise InvalidType(
            f"stream {stream.name!r}: this batch has another schema than the first one: "
            f"{'; '.join(differences)}"
        )


def _both(a: Bools | None, b: Bools | None) -> Bools | None:
    return b if a is None else a if b is None else a & b
