"""Which columns a query needs of its streams, and which of them a source does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from braided.jobs.definitions import Schema, Source
from braided.jobs.problems import Place, Problem
from braided.jobs.queries import stream_place
from braided.query.errors import did_you_mean
from braided.query.join_graph import column_name
from braided.query.join_query import JoinQuery


def missing_columns(
    query: JoinQuery, written: Mapping[str, Any] | str, columns: Mapping[str, Sequence[str]]
) -> Iterator[Problem]:
    """Columns that the query uses (`written`: as in the file) and that known `columns` of a stream lack."""
    for stream, column, at, use in _used(query, written):
        if stream in columns and column not in columns[stream]:
            hint = did_you_mean(column, columns[stream])
            yield Problem(at, f"stream {stream!r} has no column {column!r} ({use}); {hint}")


def declared(source: Source) -> tuple[str, ...] | None:
    """Return the columns of a source as far as the job file names them."""
    if source.select:
        return None
    if source.value is not None and not isinstance(source.value, str):
        return names(source.value.schema)
    return None if source.value is not None or source.schema is None else names(source.schema)


def names(schema: Schema) -> tuple[str, ...]:
    """The columns of a schema, in Spark's words or as a mapping.

    >>> names("a long, `b c` struct<x: int, y: decimal(9, 2)>, d: string")
    ('a', 'b c', 'd')
    """
    if isinstance(schema, Mapping):
        return tuple(schema)
    flat = schema
    for inner in (r"\([^()]*\)", r"<[^<>]*>") * 8:
        flat = re.sub(inner, "", flat)
    found = (re.match(r"\s*(?:`((?:[^`]|``)+)`|([^\s:`]+))", part) for part in flat.split(","))
    return tuple((m[1] or m[2]).replace("``", "`") for m in found if m)


def ddl(schema: Schema) -> str:
    """A schema in Spark's words."""
    if isinstance(schema, str):
        return schema
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in schema.items())


def _used(query: JoinQuery, written: Mapping[str, Any] | str) -> Iterator[tuple[str, str, Place, str]]:
    """Stream, column, place in the file, and what for."""
    for stream in query.streams:
        at = ("query", *stream_place(written, stream.name))
        for column in stream.key_columns if query.on is None else ():
            yield stream.name, column, (*at, "key"), "its key"
        if stream.time is not None:
            yield stream.name, stream.time, (*at, "time"), "its time"
        for aside in (stream.flag, stream.upto):
            if aside is not None:
                yield stream.name, aside, (*at, "punctuation"), "its punctuation"
    for pair in query.on or ():
        for text in pair:
            yield *column_name(text), ("query", "on"), "used by on"
    for name, owner, column in query.selected or ():
        yield owner, column, ("query", "select", name), f"selected as {name!r}"
    if query.condition is not None:
        for owner, column in sorted(query.condition.columns()):
            yield owner, column, ("query", "where"), "used by where"
