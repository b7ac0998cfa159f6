"""Which columns of a stream are stored, and how results are put together from them.

Only what the query can still need is stored: keys (to compare them), times, what `where` reads and
what `select` asks for.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from braided.engine.sides.keys import KeyFormat, check_key_type, key_format
from braided.engine.sides.storable import check_storable, storable_type
from braided.engine.sides.times import check_time_type, result_time_type
from braided.query.errors import InvalidType, InvalidValue, UnknownName, did_you_mean
from braided.query.join_graph import Attribute
from braided.query.join_query import JoinQuery
from braided.query.layout import Dimension
from braided.query.parts import PUNCTUATION, RESULT_TIME
from braided.query.plan_tree import Plan, operators
from braided.query.stream import Stream


@dataclass(frozen=True)
class Layout:
    """The stored columns of one stream, and where its key and time are among them.

    `key` are the columns that its operator is keyed by, `joined` all that must be equal to others.
    """

    stream: Stream
    schema: pa.Schema
    columns: tuple[str, ...]
    key: tuple[str, ...]
    joined: tuple[str, ...]

    @functools.cached_property
    def stored_schema(self) -> pa.Schema:
        """Names and stored types."""
        return pa.schema([(c, storable_type(self.schema.field(c).type)) for c in self.columns])

    @functools.cached_property
    def keys(self) -> list[int]:
        """Where the key columns are among the stored ones."""
        return [self.columns.index(c) for c in self.key]


@dataclass(frozen=True)
class OutputColumn:
    """One column of the result: its name, and the stream and column it comes from."""

    name: str
    stream: int
    column: str
    type: pa.DataType


@dataclass(frozen=True)
class Output:
    """The columns of the result in order, and the type of `result_time` (None: there is none).

    If `punctuated`, the last column tells punctuations from results.
    """

    columns: tuple[OutputColumn, ...]
    time_type: pa.DataType | None
    punctuated: bool = False

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the result."""
        fields = [(c.name, c.type) for c in self.columns]
        fields += [(RESULT_TIME, self.time_type)] if self.time_type else []
        return pa.schema(fields + ([(PUNCTUATION, pa.bool_())] if self.punctuated else []))


def layout_of(query: JoinQuery, stream: Stream, schema: pa.Schema) -> Layout:
    """What to store of a stream; missing columns and unfit types raise."""
    used = _used_columns(query, stream)
    joined = query.graph.columns(stream.name)
    asides = {c: "punctuation" for c in (stream.flag, stream.upto) if c is not None}
    for column, use in (*used.items(), *asides.items()):
        _require_column(stream, column, use, schema)
    for column in joined:
        check_key_type(stream, column, schema.field(column).type)
    if stream.time is not None:
        check_time_type(stream, schema.field(stream.time).type)
    everything = query.select is None
    if stream.flag is not None and not pa.types.is_boolean(schema.field(stream.flag).type):
        type_ = schema.field(stream.flag).type
        raise InvalidType(
            f"stream {stream.name!r}: punctuation column {stream.flag!r} has type {type_}; it must be boolean"
        )
    wanted = [c for c in schema.names if (everything and c not in stream.asides) or c in used]
    columns = tuple(wanted) or _any_column(stream, schema)
    for column in columns:
        type_ = schema.field(column).type
        reason = check_storable(type_)
        if reason:
            raise InvalidType(
                f"stream {stream.name!r}: column {column!r} has type {type_}, which Arrow cannot gather "
                f"({reason}); cast it, or leave it out with select"
            )
    return Layout(stream, schema, columns, _key(query, stream.name), joined)


def key_format_of(query: JoinQuery, operator: tuple[Plan, ...], layouts: Iterable[Layout]) -> KeyFormat:
    """How the key of an operator is read, from the streams that are known; types that cannot meet raise."""
    known = [_typed(attribute, layouts) for attribute in query.graph.key(operator)]
    return key_format([columns for columns in known if columns])


def attribute_format(attribute: Attribute, layouts: Iterable[Layout]) -> KeyFormat:
    """How columns that must be equal are compared, from the streams that are known."""
    return key_format([_typed(attribute, layouts)])


def dimension_format(dimension: Dimension, layouts: Iterable[Layout]) -> KeyFormat:
    """How the columns of a dimension are hashed, whichever stream they are in."""
    return key_format([_typed(attribute, layouts) for attribute in dimension.key])


def check_key_types(query: JoinQuery, layouts: Sequence[Layout]) -> None:
    """Raise if columns that must be equal have types that cannot meet."""
    for attribute in query.graph.attributes:
        if _typed(attribute, layouts):
            attribute_format(attribute, layouts)


def _typed(attribute: Attribute, layouts: Iterable[Layout]) -> list[tuple[str, pa.DataType]]:
    schemas = {layout.stream.name: layout.schema for layout in layouts}
    return [(f"{s}.{c}", schemas[s].field(c).type) for s, c in attribute if s in schemas]


def _key(query: JoinQuery, stream: str) -> tuple[str, ...]:
    """The columns of a stream that its operator is keyed by."""
    operator = next(node for node in operators(query.tree) if stream in node)
    return tuple(query.graph.source(a, stream)[1] for a in query.graph.key(operator))


def output_of(query: JoinQuery, layouts: Sequence[Layout]) -> Output:
    """The result's columns; two with the same name raise."""
    at = {name: i for i, name in enumerate(query.names)}
    if query.selected is not None:
        wanted = [(name, at[stream], column) for name, stream, column in query.selected]
    else:
        wanted = [
            (f"{layout.stream.name}_{column}", i, column)
            for i, layout in enumerate(layouts)
            for column in layout.schema.names
            if column not in layout.stream.asides
        ]
    _check_clashes(query, wanted)
    schemas = [layout.schema for layout in layouts]
    columns = tuple(OutputColumn(n, i, c, schemas[i].field(c).type) for n, i, c in wanted)
    return Output(columns, result_time_type(query.streams, schemas), query.emit_punctuations)


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


def _require_column(stream: Stream, column: str, use: str, schema: pa.Schema) -> None:
    if column not in schema.names:
        raise UnknownName(
            f"stream {stream.name!r}: no column {column!r} (used as {use}); "
            f"{did_you_mean(column, schema.names)}"
        )


def _check_clashes(query: JoinQuery, wanted: Iterable[tuple[str, int, str]]) -> None:
    timed = any(s.time for s in query.streams)
    taken: dict[str, str] = {RESULT_TIME: "the result's time"} if timed else {}
    if query.emit_punctuations:
        taken[PUNCTUATION] = "emit_punctuations"
    for name, i, column in wanted:
        source = f"{query.names[i]}.{column}"
        if name in taken:
            raise InvalidValue(
                f"output name {name!r} is wanted by {taken[name]} and by {source}; "
                "rename a stream, or name the output columns with select"
            )
        taken[name] = source
