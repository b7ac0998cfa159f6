"""Which columns of a stream are stored, and how results are put together from them.

Only what the query can still need is stored: keys (to compare them), times, what `where` reads and
what `select` asks for.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from braided.engine.sides.keys import KeyFormat, check_key_type, key_format
from braided.engine.sides.storable import check_storable, storable_type
from braided.engine.sides.times import check_time_type, result_time_type
from braided.query.errors import InvalidType, InvalidValue, UnknownName, did_you_mean
from braided.query.join_graph import Attribute, ColumnName
from braided.query.join_query import JoinQuery
from braided.query.parts import PUNCTUATION, RESULT_TIME
from braided.query.stream import Stream


@dataclass(frozen=True, eq=False)
class Layout:
    """The stored columns of one stream, and where its key and time are among them.

    `key` are the columns that its operator is keyed by, `joined` all that must be equal to others (of which
    those that are `needed` may not be null), and `promised` those that its promises are about. `counted` are
    the columns by which its window counts rows, where its side's index does not find rows by them: all that
    are joined.
    """

    stream: Stream
    schema: pa.Schema
    columns: tuple[str, ...]
    key: tuple[str, ...]
    joined: tuple[str, ...]
    promised: tuple[str, ...]
    counted: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()

    @functools.cached_property
    def stored_schema(self) -> pa.Schema:
        """Names and stored types."""
        return pa.schema([(c, storable_type(self.schema.field(c).type)) for c in self.columns])

    @functools.cached_property
    def keys(self) -> list[int]:
        """Where the key columns are among the stored ones."""
        return [self.columns.index(c) for c in self.key]

    @functools.cached_property
    def counting(self) -> KeyFormat:
        """How the columns by which rows are counted are read."""
        return key_format([[(f"{self.stream.name}.{c}", self.schema.field(c).type)] for c in self.counted])


@dataclass(frozen=True)
class Output:
    """The result's schema: columns of streams, given by `sources`, behind them `result_time` if `timed`.

    With `emit_punctuations` the last column tells punctuations from results.
    """

    schema: pa.Schema
    sources: Mapping[str, ColumnName]  # by name of the result's column
    timed: bool


@functools.lru_cache(maxsize=256)  # every bucket of a worker asks in every batch
def layout_of(query: JoinQuery, stream: Stream, schema: pa.Schema) -> Layout:
    """Decide what to store of a stream; missing columns and unfit types raise."""
    used = _used_columns(query, stream)
    joined = query.graph.columns(stream.name)
    asides = {c: "punctuation" for c in (stream.flag, stream.upto) if c is not None}
    for column, use in (*used.items(), *asides.items()):
        if column not in schema.names:
            raise UnknownName(
                f"stream {stream.name!r}: no column {column!r} (used as {use}); "
                f"{did_you_mean(column, schema.names)}"
            )
    for column in joined:
        check_key_type(stream, column, schema.field(column).type)
    if stream.time is not None:
        check_time_type(stream, schema.field(stream.time).type)
    if stream.flag is not None and not pa.types.is_boolean(type_ := schema.field(stream.flag).type):
        raise InvalidType(
            f"stream {stream.name!r}: punctuation column {stream.flag!r} has type {type_}; it must be boolean"
        )
    shown = query.select is None and stream.name in query.kinds.shown
    wanted = [c for c in schema.names if (shown and c not in stream.asides) or c in used]
    columns = tuple(wanted) or _any_column(stream, schema)
    for column in columns:
        if reason := check_storable(type_ := schema.field(column).type):
            raise InvalidType(
                f"stream {stream.name!r}: column {column!r} has type {type_}, which Arrow cannot gather "
                f"({reason}); cast it, or leave it out with select"
            )
    key = query.operator_key(stream)
    counted = joined if query.counts_apart(stream) else ()
    promised, needed = _promised_columns(query, stream) or key, query.kinds.needed(stream)
    return Layout(stream, schema, columns, key, joined, promised, counted, needed)


def key_format_of(attributes: Iterable[Attribute], layouts: Iterable[Layout]) -> KeyFormat:
    """Tell how a key of attributes is read, from the streams that are known; types that cannot meet raise."""
    schemas = {layout.stream.name: layout.schema for layout in layouts}
    typed = [[(f"{s}.{c}", schemas[s].field(c).type) for s, c in a if s in schemas] for a in attributes]
    return key_format([columns for columns in typed if columns])


@functools.lru_cache(maxsize=256)
def output_of(query: JoinQuery, layouts: tuple[Layout, ...]) -> Output:
    """The result's columns; two with the same name raise."""
    schemas = {layout.stream.name: layout.schema for layout in layouts}
    wanted = query.selected
    if wanted is None:
        shown = [layout for layout in layouts if layout.stream.name in query.kinds.shown]
        named = [(layout.stream, column) for layout in shown for column in layout.schema.names]
        wanted = tuple((f"{s.name}_{c}", s.name, c) for s, c in named if c not in s.asides)
    time_type = result_time_type(query.streams, list(schemas.values()))
    fields = [(name, schemas[stream].field(column).type) for name, stream, column in wanted]
    taken = {}
    if time_type is not None:
        fields.append((RESULT_TIME, time_type))
        taken[RESULT_TIME] = "the result's time"
    if query.emit_punctuations:
        fields.append((PUNCTUATION, pa.bool_()))
        taken[PUNCTUATION] = "emit_punctuations"
    for name, stream, column in wanted:
        if name in taken:
            raise InvalidValue(
                f"output name {name!r} is wanted by {taken[name]} and by {stream}.{column}; "
                "rename a stream, or name the output columns with select"
            )
        taken[name] = f"{stream}.{column}"
    return Output(pa.schema(fields), {name: (s, c) for name, s, c in wanted}, time_type is not None)


def _promised_columns(query: JoinQuery, stream: Stream) -> tuple[str, ...]:
    """The columns that a stream's promises are about, in the order of the attributes that they belong to."""
    columns = [(stream.name, column) for column in stream.key_columns]
    return tuple(c for a in query.promised(stream) for name, c in columns if (name, c) in a)


def _used_columns(query: JoinQuery, stream: Stream) -> Mapping[str, str]:
    """Columns the query names, each with what for."""
    used = dict.fromkeys(query.graph.columns(stream.name), "key")
    if stream.time is not None:
        used.setdefault(stream.time, "time")
    for name, source, column in query.selected or ():
        if source == stream.name:
            used.setdefault(column, f"select {name!r}")
    for source, column in sorted(query.condition.columns() if query.condition else ()):
        if source == stream.name:
            used.setdefault(column, "where")
    return used


def _any_column(stream: Stream, schema: pa.Schema) -> tuple[str, ...]:
    """A column to store where the query uses none: without any, rows could not be counted."""
    fit = [f for f in schema if check_storable(f.type) is None]
    if not fit:
        raise InvalidType(f"stream {stream.name!r}: it has no column that can be stored; give it one")
    return (min(fit, key=lambda f: f.type.bit_width if pa.types.is_primitive(f.type) else 1 << 20).name,)
