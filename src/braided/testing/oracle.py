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
from dataclasses import dataclass
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
    number = {stream.name: i for i, stream in enumerate(query.streams)}
    equal = _equal_columns(query, number)
    streams = [
        _Rows(stream, _data(stream, tables[stream.name]), {c for pair in equal for n, c in pair if n == i})
        for i, stream in enumerate(query.streams)
    ]
    pairs = [(number[a], number[b], to_us(low), to_us(high)) for (a, b), (low, high) in query.pairs]
    if query.kinds.optional:
        outer = Outer(query, _transitive(equal), pairs, streams)
        return _table(query, streams, list(outer.results()))
    combinations = _combinations(equal, streams)
    results = [c for c in combinations if _inside(pairs, streams, c) and _where(query, streams, c)]
    return _table(query, streams, results)


def _data(stream: Stream, table: pa.Table) -> pa.Table:
    """Return the rows that are not punctuations, without the columns that only these use."""
    if stream.flag is None:
        return table
    is_data = [flag is not True for flag in table[stream.flag].to_pylist()]
    return table.filter(pa.array(is_data, pa.bool_())).drop_columns(list(stream.asides))


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
    """One stream's rows: joined columns and times as Python values."""

    def __init__(self, stream: Stream, table: pa.Table, joined: set[str]) -> None:
        self.stream, self.table = stream, table
        self.values = {c: _values(table[c]) for c in sorted(joined)}
        self.keys = list(zip(*self.values.values(), strict=True)) if joined else [()] * table.num_rows
        self.times: list[Any] = _times(table[stream.time]) if stream.time else [0] * table.num_rows

    def joinable(self) -> Iterator[int]:
        """Yield the rows without nulls."""
        for i, (key, time) in enumerate(zip(self.keys, self.times, strict=True)):
            if None not in key and time is not None:
                yield i


def _times(column: pa.ChunkedArray) -> list[int | None]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz))
    return list(column.cast(pa.int64()).to_pylist())


def _equal_columns(query: JoinQuery, number: Mapping[str, int]) -> list[list[tuple[int, str]]]:
    """List the pairs of columns that must be equal, each as (stream, column), in the order of streams."""
    if query.on is None:
        first, *others = [[(i, c) for c in s.key_columns] for i, s in enumerate(query.streams)]
        return [[a, b] for other in others for a, b in zip(first, other, strict=True)]
    ends = [[end.split(".", 1) for end in pair] for pair in query.on]
    return [sorted((number[stream], column) for stream, column in pair) for pair in ends]


def _combinations(
    equal: Sequence[Sequence[tuple[int, str]]], streams: Sequence[_Rows]
) -> list[tuple[int, ...]]:
    """Combine rows in which both columns of every pair are equal, stream by stream."""
    combinations: list[tuple[int, ...]] = [()]
    for i, rows in enumerate(streams):
        here = [(a, b) for a, b in equal if b[0] == i]
        groups = defaultdict(list)
        for n in rows.joinable():
            groups[tuple(rows.values[column][n] for _, (_, column) in here)].append(n)
        combinations = [
            (*chosen, n)
            for chosen in combinations
            for n in groups[tuple(streams[s].values[column][chosen[s]] for (s, column), _ in here)]
        ]
    return combinations


def _inside(
    pairs: Sequence[tuple[int, int, int, int]], streams: Sequence[_Rows], chosen: tuple[int, ...]
) -> bool:
    """Check a combination against all bounds (of the first and the second, from, to) and windows."""
    times = [rows.times[i] for rows, i in zip(streams, chosen, strict=True)]
    bounded = all(low <= times[second] - times[first] <= high for first, second, low, high in pairs)
    return bounded and all(_in_window(rows, i, max(times)) for rows, i in zip(streams, chosen, strict=True))


def _in_window(rows: _Rows, i: int, now: int) -> bool:
    """Check whether a row is inside its stream's window at a time."""
    count, window_us = rows.stream.count_window, rows.stream.window_us
    time: int = rows.times[i]
    if count is not None:
        of_key = (count.per == "stream" or key == rows.keys[i] for key in rows.keys)
        later = (t is not None and time < t <= now for t in rows.times)
        return sum(1 for here, after in zip(of_key, later, strict=True) if here and after) < count.rows
    return window_us is None or now - time <= window_us


@dataclass(frozen=True)
class Outer:
    """A join with optional streams: every core combination with every choice of partners, None for none."""

    query: JoinQuery
    equal: Sequence[tuple[tuple[int, str], tuple[int, str]]]
    pairs: Sequence[tuple[int, int, int, int]]
    streams: Sequence[_Rows]

    def results(self) -> Iterator[tuple[int | None, ...]]:
        """Yield them all."""
        matched: set[int] = set()
        for chosen in self._core_combinations():
            choices: list[Sequence[int | None]] = [[chosen.get(i)] for i in range(len(self.streams))]
            passes = True
            for k, rows in enumerate(self.streams):
                if rows.stream.optional:
                    found = [n for n in range(rows.table.num_rows) if self._meet({**chosen, k: n})]
                    matched |= set(found)
                    if rows.stream.as_of is not None:
                        found = [n for n in found if rows.times[n] == max(rows.times[m] for m in found)]
                        passes &= bool(found) or rows.stream.how == "left"
                    if rows.stream.how in ("semi", "anti"):
                        passes &= bool(found) == (rows.stream.how == "semi")
                    elif found:
                        choices[k] = found
            if passes:
                yield from itertools.product(*choices)
        if self.streams[-1].stream.how == "full":
            timed = (n for n, time in enumerate(self.streams[1].times) if time is not None)
            yield from ((None, n) for n in timed if n not in matched)

    def _core_combinations(self) -> Iterator[dict[int, int]]:
        core = [i for i, rows in enumerate(self.streams) if not rows.stream.optional]
        for picked in itertools.product(*(range(self.streams[i].table.num_rows) for i in core)):
            chosen = dict(zip(core, picked, strict=True))
            if self._meet(chosen):
                yield chosen

    def _meet(self, chosen: Mapping[int, int]) -> bool:
        """Check rows of the core against each other, or with a row of one optional stream."""
        times = {i: self.streams[i].times[n] for i, n in chosen.items()}
        values = {
            (i, c): column[n] for i, n in chosen.items() for c, column in self.streams[i].values.items()
        }
        if None in times.values():
            return False
        for first, second in self.equal:
            if first[0] in chosen and second[0] in chosen:
                known = values[first] is not None
                if not known or values[first] != values[second]:
                    return False
        for a, b, low, high in self.pairs:
            if a in chosen and b in chosen and not low <= times[b] - times[a] <= high:
                return False
        now = max((t for i, t in times.items() if not self.streams[i].stream.optional), default=0)
        for i, time in times.items():
            window_us, as_of = self.streams[i].stream.window_us, self.streams[i].stream.as_of
            if as_of is not None and not 0 <= now - time <= to_us(as_of.age):
                return False
            if window_us is not None and max(times.values()) - time > window_us:
                return False
        optional = next(
            (self.streams[i].stream.name for i in chosen if self.streams[i].stream.optional), None
        )
        condition = self.query.kinds.match(optional)
        return condition is None or _value(condition, self._row(chosen)) is True

    def _row(self, chosen: Mapping[int, int]) -> dict[tuple[str, str], Any]:
        tables = {self.streams[i].stream.name: (self.streams[i].table, n) for i, n in chosen.items()}
        return {(name, c): t[c][n].as_py() for name, (t, n) in tables.items() for c in t.column_names}


def _transitive(equal: Sequence[Sequence[tuple[int, str]]]) -> list[tuple[tuple[int, str], tuple[int, str]]]:
    """All pairs of columns that are equal, be it through others."""
    classes: list[set[tuple[int, str]]] = []
    for pair in equal:
        touched = [c for c in classes if c & set(pair)]
        classes = [c for c in classes if c not in touched] + [set(pair).union(*touched)]
    return [(a, b) for columns in classes for a, b in itertools.combinations(sorted(columns), 2)]


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
        return _moment(dt.datetime.fromisoformat(text), dt.UTC if like.tzinfo else None)
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


def _table(query: JoinQuery, streams: Sequence[_Rows], results: Sequence[tuple[int | None, ...]]) -> pa.Table:
    columns: dict[str, Any] = {}
    number = {rows.stream.name: i for i, rows in enumerate(streams)}
    wanted = query.selected or [
        (f"{rows.stream.name}_{column}", rows.stream.name, column)
        for rows in streams
        for column in rows.table.column_names
        if rows.stream.name in query.kinds.shown
    ]
    for name, stream, column in wanted:
        i = number[stream]
        values = streams[i].table[column].to_pylist()
        cells = [None if (n := c[i]) is None else values[n] for c in results]
        columns[name] = pa.array(cells, streams[i].table[column].type)
    timed = [i for i, rows in enumerate(streams) if rows.stream.time]
    if timed:
        newest = [_newest(query, streams, c) for c in results]
        type_ = streams[timed[0]].table[str(streams[timed[0]].stream.time)].type
        type_ = type_ if type_ == pa.int64() else pa.timestamp("us", tz=type_.tz)
        columns[RESULT_TIME] = pa.array(newest, pa.int64()).cast(type_)
    return pa.table(columns)


def _newest(query: JoinQuery, streams: Sequence[_Rows], chosen: Sequence[int | None]) -> int:
    """The newest time of a result: of the core where a null came, else of all streams that are shown."""
    shown = [
        i for i, rows in enumerate(streams) if rows.stream.time and rows.stream.name in query.kinds.shown
    ]
    if any(chosen[i] is None for i in shown):
        core = [i for i in shown if not streams[i].stream.optional and chosen[i] is not None]
        shown = core or [i for i in shown if chosen[i] is not None]
    return int(max(streams[i].times[n] for i in shown if (n := chosen[i]) is not None))
