"""The join by its definition, in plain Python loops: slow, and meant to be read.

`expected` takes all rows as accepted (none late), so it is what every batching and arrival order of
those rows must yield. It shares no code with the engine but the query's own values.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from braided.query.condition import Call, Column, Condition, Literal
from braided.query.durations import to_us
from braided.query.join_query import JoinQuery
from braided.query.parts import RESULT_TIME
from braided.query.stream import Stream

Row: TypeAlias = dict[str, Any]


def expected(query: JoinQuery, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Compute a query's exact result over tables of accepted rows, by nested loops, without punctuations."""
    streams = [_Rows(query, stream, _data(stream, tables[stream.name])) for stream in query.streams]
    candidates = _same_key(streams) if query.on is None else _equal_columns(query, streams)
    number = {stream.name: i for i, stream in enumerate(query.streams)}
    pairs = [(number[a], number[b], to_us(low), to_us(high)) for (a, b), (low, high) in query.pairs]
    found = [c for c in candidates if _inside(pairs, streams, c) and _where(query, streams, c)]
    return _table(query, streams, found)


def _data(stream: Stream, table: pa.Table) -> pa.Table:
    """Return the rows that are not punctuations, without the columns that only these use."""
    if stream.flag is None:
        return table
    kept = [flag is not True for flag in table[stream.flag].to_pylist()]
    return table.filter(pa.array(kept, pa.bool_())).drop_columns(list(stream.asides))


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Count the rows of a table by their values (NaN equals NaN)."""
    return Counter(zip(*map(_values, table.columns), strict=True))


def assert_same_bag(actual: pa.Table, wanted: pa.Table) -> None:
    """Raise AssertionError, with examples, unless both tables hold the same rows equally often."""
    assert actual.schema.names == wanted.schema.names, (
        f"columns differ: {actual.schema.names} and {wanted.schema.names}"
    )
    here, there = bag(actual), bag(wanted)
    missing, doubled = there - here, here - there
    assert here == there, (
        f"missing {missing.total()}, doubled or wrong {doubled.total()} of {there.total()}; "
        f"for example missing {list(missing)[:2]}, doubled or wrong {list(doubled)[:2]}"
    )


class _Rows:
    """One stream's rows: keys and times as Python values."""

    def __init__(self, query: JoinQuery, stream: Stream, table: pa.Table) -> None:
        self.stream, self.table = stream, table
        self.window_us, self.count = stream.window_us, stream.count_window
        names = stream.key_columns if query.on is None else _own_columns(query, stream.name)
        columns = [_values(table[c]) for c in names]
        self.keys = list(zip(*columns, strict=True)) if columns else [()] * table.num_rows
        self.times: list[Any] = _times(table[stream.time]) if stream.time else [0] * table.num_rows
        self.null_free = [
            None not in key and time is not None for key, time in zip(self.keys, self.times, strict=True)
        ]


def _own_columns(query: JoinQuery, stream: str) -> tuple[str, ...]:
    """The columns of a stream that `on` names."""
    ends = [end for pair in query.on or () for end in pair]
    return tuple(sorted({e.split(".", 1)[1] for e in ends if e.split(".", 1)[0] == stream}))


def _times(column: pa.ChunkedArray) -> list[int | None]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz))
    return list(column.cast(pa.int64()).to_pylist())


def _same_key(streams: Sequence[_Rows]) -> Iterator[tuple[int, ...]]:
    groups: list[dict[Any, list[int]]] = []
    for rows in streams:
        group = defaultdict(list)
        for i, key in enumerate(rows.keys):
            if rows.null_free[i]:
                group[key].append(i)
        groups.append(group)
    for key in groups[0]:
        yield from itertools.product(*(g.get(key, []) for g in groups))


def _equal_columns(query: JoinQuery, streams: Sequence[_Rows]) -> Iterator[tuple[int, ...]]:
    """Combinations in which both columns of every pair of `on` are equal, stream by stream."""
    values = {(r.stream.name, c): _values(r.table[c]) for r in streams for c in r.table.column_names}
    number = {r.stream.name: i for i, r in enumerate(streams)}
    pairs = [tuple(tuple(end.split(".", 1)) for end in pair) for pair in query.on or ()]

    def value(chosen: tuple[int, ...], column: Any) -> Any:
        return values[column][chosen[number[column[0]]]]

    found: list[tuple[int, ...]] = [()]
    for i, rows in enumerate(streams):
        here = [p for p in pairs if max(number[p[0][0]], number[p[1][0]]) == i]
        longer = ((*c, n) for c in found for n in range(len(rows.keys)) if rows.null_free[n])
        found = [c for c in longer if all(value(c, a) == value(c, b) for a, b in here)]
    yield from found


def _inside(
    pairs: Sequence[tuple[int, int, int, int]], streams: Sequence[_Rows], chosen: tuple[int, ...]
) -> bool:
    """Check a combination against all bounds (of the first and the second, from, to) and windows."""
    times = [rows.times[i] for rows, i in zip(streams, chosen, strict=True)]
    now = max(times)
    for first, second, low_us, high_us in pairs:
        if not low_us <= times[second] - times[first] <= high_us:
            return False
    for rows, i, mine in zip(streams, chosen, times, strict=True):
        count = rows.count
        if rows.window_us is not None and now - mine > rows.window_us:
            return False
        if count is not None:
            newer = sum(
                time is not None
                and mine < time <= now
                and (count.per == "stream" or rows.keys[j] == rows.keys[i])
                for j, time in enumerate(rows.times)
            )
            if newer >= count.rows:
                return False
    return True


def _where(query: JoinQuery, streams: Sequence[_Rows], chosen: tuple[int, ...]) -> bool:
    if query.condition is None:
        return True
    row = {
        (r.stream.name, c): r.table[c][i].as_py()
        for r, i in zip(streams, chosen, strict=True)
        for c in r.table.column_names
    }
    return _value(query.condition, row) is True


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "=": lambda a, b: _ordered(a) == _ordered(b),
    "<>": lambda a, b: _ordered(a) != _ordered(b),
    "<": lambda a, b: _ordered(a) < _ordered(b),
    "<=": lambda a, b: _ordered(a) <= _ordered(b),
    ">": lambda a, b: _ordered(a) > _ordered(b),
    ">=": lambda a, b: _ordered(a) >= _ordered(b),
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else None,
    "%": lambda a, b: _remainder(a, b) if b else None,
    "neg": operator.neg,
    "abs": abs,
    "like": lambda a, b: bool(re.fullmatch(_pattern(b), a, re.DOTALL)),
}


_READERS = {"date": dt.date.fromisoformat, "timestamp": dt.datetime.fromisoformat}


def _value(node: Condition, row: Mapping[tuple[str, str], Any]) -> Any:
    if isinstance(node, Column):
        return row[node.stream, node.column]
    if isinstance(node, Literal):
        return _READERS[node.kind](str(node.value)) if node.kind else node.value
    values = [_value(a, row) for a in node.arguments]
    if node.operation in ("and", "or", "not", "is null", "in"):
        return _logic(node, values)
    if None in values:
        return None
    return _OPERATIONS[node.operation](*_alike(values))


def _logic(node: Call, values: list[Any]) -> Any:
    if node.operation == "is null":
        return values[0] is None
    if node.operation == "not":
        return None if values[0] is None else not values[0]
    if node.operation == "in":
        first, *others = values
        values = [None if None in (first, o) else _OPERATIONS["="](*_alike([first, o])) for o in others]
    decisive = node.operation != "and"
    if decisive in values:
        return decisive
    return None if None in values else not decisive


def _alike(values: list[Any]) -> list[Any]:
    """Read text beside dates, times and numbers as one of those."""
    kinds = {type(v) for v in values}
    if str in kinds and len(kinds) == 2:
        other = next(v for v in values if not isinstance(v, str))
        return [_read(v, other) if isinstance(v, str) else v for v in values]
    if Decimal in kinds and float in kinds:
        return [float(v) for v in values]
    if dt.datetime in kinds:
        zones = {v.tzinfo for v in values if isinstance(v, dt.datetime)} - {None}
        return [_moment(v, dt.UTC if zones else None) for v in values]
    return values


def _moment(value: dt.date, zone: dt.tzinfo | None) -> dt.datetime:
    """A date as its midnight, and a time without a zone in this one."""
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def _read(text: str, like: Any) -> Any:
    if isinstance(like, dt.datetime):
        moment = dt.datetime.fromisoformat(text)
        return moment if moment.tzinfo or not like.tzinfo else moment.replace(tzinfo=dt.UTC)
    return dt.date.fromisoformat(text) if isinstance(like, dt.date) else type(like)(text)


def _ordered(value: Any) -> tuple[bool, Any]:
    """What sorts as the value does: NaN equals NaN and comes after all other numbers."""
    nan = isinstance(value, float) and math.isnan(value)
    return nan, 0 if nan else value


def _remainder(a: Any, b: Any) -> Any:
    """The remainder with the sign of `a`."""
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b) if math.isfinite(a) else math.nan
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _pattern(like: str) -> str:
    """The regular expression of a LIKE; a backslash before a character means the character."""
    pieces = re.split(r"(\\.|%|_)", like, flags=re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return "".join(wild.get(p, re.escape(p[1:] if p.startswith("\\") else p)) for p in pieces)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """A column's values as they compare."""
    values: list[Any] = column.to_pylist()
    plain = pa.types.is_integer(column.type) or pa.types.is_string(column.type)
    return values if plain else [_comparable(v) for v in values]


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple | dict):
        return repr(value)
    return value


def _table(query: JoinQuery, streams: Sequence[_Rows], found: Sequence[tuple[int, ...]]) -> pa.Table:
    columns: dict[str, Any] = {}
    number = {rows.stream.name: i for i, rows in enumerate(streams)}
    wanted = query.selected or [
        (f"{rows.stream.name}_{column}", rows.stream.name, column)
        for rows in streams
        for column in rows.table.column_names
    ]
    for name, stream, column in wanted:
        i = number[stream]
        values = streams[i].table[column].to_pylist()
        columns[name] = pa.array([values[c[i]] for c in found], streams[i].table[column].type)
    timed = [i for i, rows in enumerate(streams) if rows.stream.time]
    if timed:
        newest = [max(streams[i].times[c[i]] or 0 for i in timed) for c in found]
        type_ = streams[timed[0]].table[str(streams[timed[0]].stream.time)].type
        type_ = type_ if type_ == pa.int64() else pa.timestamp("us", tz=type_.tz)
        columns[RESULT_TIME] = pa.array(newest, pa.int64()).cast(type_)
    return pa.table(columns)
