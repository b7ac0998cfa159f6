"""What a join on Spark must give, by its definition: which rows are late, and the results of every epoch.

It shares no code with the product but the query's own values. `braided.testing.expected` defines the same in
plain loops; this is fast enough for histories of many batches: combinations are extended stream by stream,
and those whose rows lie too far apart go at once.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

import braided as bd
from braided.engine.watermark import Clock
from braided.policies.arrays import Bools, Int64s
from braided.query.durations import to_us

Tables: TypeAlias = Mapping[str, pa.Table]
Bag: TypeAlias = "Counter[tuple[int | None, ...]]"
Columns: TypeAlias = dict[str, Any]
_FAR_US = 1 << 60
WHERE: dict[str, Callable[[Any, Any], Any]] = {
    "s0.n < s1.n": np.less,
    "s0.n <> s1.n": np.not_equal,
    "s0.n <= s1.n + 4": lambda a, b: a <= b + 4,
}


@dataclasses.dataclass(frozen=True)
class Era:
    """An epoch as it was asked for: its query, and from when on it owns results."""

    query: bd.JoinQuery
    since_us: int | None


class Definition:
    """What is known of the rows of one history."""

    def __init__(self, schemas: Mapping[str, pa.Schema]) -> None:
        self.accepted: dict[str, Columns] = {n: {c: [] for c in s.names} for n, s in schemas.items()}
        self.late: Counter[tuple[str, Any]] = Counter()
        self.counts: dict[str, Counter[str]] = {n: Counter() for n in schemas}
        self.newest: dict[str, int | None] = dict.fromkeys(schemas)
        self.watermark: int | None = None
        self.eras: dict[int, Era] = {}
        self._begun = -1  # the newest epoch that had a batch
        self._active: dict[str, float] = {}
        self._clock: Clock | None = None

    # which rows are late

    def started(self, query: bd.JoinQuery, number: int, since_us: int | None) -> None:
        """The query was started, perhaps again, and this is its newest epoch."""
        self.eras = {n: era for n, era in self.eras.items() if n <= self._begun}
        known = self.eras.get(number)
        assert known is None or known.since_us == since_us, "a repeated start chose another time"
        assert known is None or _decisive(known.query) == _decisive(query), "a change without an epoch"
        if known is None and self.eras:
            last = self.eras[max(self.eras)]
            span = max(last.query.bounds.span_us, query.bounds.span_us)
            seen = max((t for t in self.newest.values() if t is not None), default=0)
            assert since_us == max(last.since_us or -_FAR_US, seen + 1 + span)
        self.eras[number] = known or Era(query, since_us)
        self._advance(query)

    def judge(self, query: bd.JoinQuery, tables: Tables, clock: Clock | None) -> None:
        """Sort the rows of a batch; then time moves on."""
        self._begun = max(self.eras)
        for name, table in tables.items():
            stream = query.streams[query.names.index(name)]
            columns = _plain(table)
            flags = columns.get(stream.flag or "", [None] * table.num_rows)
            joined = [columns[c] for c in query.kinds.needed(stream)]
            keys = list(zip(*joined, strict=True)) if joined else [()] * table.num_rows
            for i, (flag, key, time) in enumerate(zip(flags, keys, columns["t"], strict=True)):
                self._sort(query, name, {c: values[i] for c, values in columns.items()}, flag, key, time)
        clock = clock or self._clock  # it stands still
        if clock is not None and any(s.idle_after for s in query.streams):
            fresh = self._clock is None or clock.run != self._clock.run
            came = {n for n, t in tables.items() if fresh or _data_rows(query, n, t)}
            self._active |= dict.fromkeys(query.names if fresh else came, clock.seconds)
            self._clock = clock
        self._advance(query)

    def _sort(
        self, query: bd.JoinQuery, name: str, row: Columns, flag: Any, key: tuple[Any, ...], time: int | None
    ) -> None:
        counts = self.counts[name]
        if flag:
            counts["punctuations"] += 1
            return
        counts["rows_in"] += 1
        if time is None:
            counts["null_times"] += 1
            return
        newest = self.newest[name]
        self.newest[name] = time if newest is None else max(time, newest)
        late = query.windowed and self.watermark is not None and time < self.watermark
        if None in key:
            counts["null_keys"] += 1
        elif late:
            counts["late_rows"] += 1
            self.late[name, row["id"] if name in query.kinds.shown else None] += 1
        else:
            for column, values in self.accepted[name].items():
                values.append(row[column])

    def _advance(self, query: bd.JoinQuery) -> None:
        waiting = [s for s in query.streams if not self._is_idle(s)]
        known = [t - s.lateness_us for s in waiting if (t := self.newest[s.name]) is not None]
        if waiting and len(known) == len(waiting):
            self.watermark = max(min(known), self.watermark if self.watermark is not None else -_FAR_US)

    def _is_idle(self, stream: bd.Stream) -> bool:
        if stream.idle_after is None or self._clock is None:
            return False
        return self._clock.seconds - self._active[stream.name] >= to_us(stream.idle_after) / 1e6

    # what comes out

    def results(self, only: Mapping[str, set[int]] | None = None, *, ended: bool = False) -> Bag:
        """Every epoch's results, as the numbers of their rows; of accepted rows perhaps `only` some.

        Those that wait until no row can come before them are there if all streams have `ended`.
        """
        rows = {name: _arrays(columns) for name, columns in self.accepted.items()}
        if only is not None:
            rows = {n: _picked(r, np.isin(r["id"], list(only[n]))) for n, r in rows.items()}
        bag: Bag = Counter()
        numbers = sorted(self.eras)
        for number, after in zip(numbers, [*numbers[1:], None], strict=True):
            era = self.eras[number]
            since = -_FAR_US if era.since_us is None else era.since_us
            until = _FAR_US if after is None else (self.eras[after].since_us or 0)
            bag += self._of_epoch(era.query, rows, since, until, ended=ended)
        return bag

    def _of_epoch(
        self, query: bd.JoinQuery, rows: Mapping[str, Columns], since: int, until: int, *, ended: bool
    ) -> Bag:
        if query.kinds.optional:
            passed = math.inf if ended else -_FAR_US if self.watermark is None else self.watermark
            return Counter(with_optional(query, rows, since, until, passed))
        last = until + query.bounds.span_us
        near = [_picked(rows[n], (rows[n]["t"] >= since) & (rows[n]["t"] < last)) for n in query.names]
        chosen = combinations(query, near)
        times = np.array([r["t"][c] for r, c in zip(near, chosen, strict=True)])
        kept = (times.min(axis=0) < until) & (times.min(axis=0) >= since)
        if query.counts and not ended:
            kept &= times.max(axis=0) < (-_FAR_US if self.watermark is None else self.watermark)
        ids = [r["id"][c[kept]].tolist() for r, c in zip(near, chosen, strict=True)]
        return Counter(zip(*ids, strict=True))


def with_optional(
    query: bd.JoinQuery, rows: Mapping[str, Columns], since: int, until: int, passed: float
) -> Iterator[tuple[int | None, ...]]:
    """Every choice of partners of rows that an epoch owns, None for none; nulls once time has passed them."""
    kinds = {s.name: s.how for s in query.streams}
    core, shown = query.kinds.core, [n for n in query.names if kinds[n] not in ("semi", "anti")]
    found = {k: _partners(query, rows, (*core, k)) for k in query.kinds.optional}
    matched = {places[-1] for k in found for places in found[k]}
    chosen = combinations(query, [rows[n] for n in core], core)
    for places in zip(*(c.tolist() for c in chosen), strict=True):
        at = dict(zip(core, places, strict=True))
        ids = {n: int(rows[n]["id"][at[n]]) for n in core}
        meet = {k: [p for *c, p in found[k] if tuple(c) == places] for k in query.kinds.optional}
        now = max(rows[n]["t"][at[n]] for n in core)
        meet |= {k: _newest(rows[k]["t"], meet[k], now - age, now) for k, age in query.kinds.as_of.items()}
        partners = {k: [int(rows[k]["id"][p]) for p in of_stream] for k, of_stream in meet.items()}
        oldest = min(rows[n]["t"][at[n]] for n in core)
        wanted = (
            bool(partners[k]) == (kinds[k] != "anti") for k in partners if kinds[k] not in ("left", "full")
        )
        if not since <= oldest < until or not all(wanted):
            continue
        choices: list[list[int | None]] = [[ids[n]] if n in ids else [*partners[n]] or [None] for n in shown]
        waits = query.kinds.late or [None] in choices
        if not waits or _final(query, rows, at) < passed:
            yield from itertools.product(*choices)
    if "full" in kinds.values():
        (a,), (b,) = core, query.kinds.optional
        for place, (number, time) in enumerate(
            zip(rows[b]["id"].tolist(), rows[b]["t"].tolist(), strict=True)
        ):
            final = _final(query, rows, {b: place}, (a,))
            if place not in matched and since <= time < until and final < passed:
                yield None, int(number)


def _newest(times: Any, places: Sequence[int], low: int, high: int) -> list[int]:
    """The places with the newest time of a range."""
    inside = [p for p in places if low <= times[p] <= high]
    return [p for p in inside if times[p] == max(times[q] for q in inside)]


def _partners(
    query: bd.JoinQuery, rows: Mapping[str, Columns], names: Sequence[str]
) -> list[tuple[int, ...]]:
    """The places of rows of the core that meet, with that of a partner of one stream behind them."""
    chosen = combinations(query, [rows[n] for n in names], names)
    return list(zip(*(c.tolist() for c in chosen), strict=True))


def _final(
    query: bd.JoinQuery, rows: Mapping[str, Columns], at: Mapping[str, int], of: Sequence[str] | None = None
) -> float:
    """From which watermark on no partner can come."""
    final, numbers = -math.inf, {name: i for i, name in enumerate(query.names)}
    for k in query.kinds.optional if of is None else of:
        joined = [(n, c) for a in query.graph.attributes for n, c in a if n in at and query.graph.has(a, k)]
        if any(math.isnan(rows[n][c][at[n]]) for n, c in joined):
            continue
        bounds = {n: query.bounds.matrix[numbers[n]][numbers[k]] for n in at}
        last = min(rows[n]["t"][at[n]] + bounds[n] for n in at)
        final = max(final, max(rows[n]["t"][at[n]] for n in at) if k in query.kinds.as_of else last)
    return final


def combinations(
    query: bd.JoinQuery, streams: Sequence[Columns], names: Sequence[str] | None = None
) -> list[Int64s]:
    """Which rows of all streams join, or of some; by stream the number of the row."""
    names = query.names if names is None else names
    place, pairs = (
        {name: i for i, name in enumerate(query.names)},
        {pair: tuple(map(to_us, bounds)) for pair, bounds in query.pairs},
    )
    at = {name: i for i, name in enumerate(names)}
    chosen: list[Int64s] = [np.arange(len(streams[0]["t"]))]
    for i, here in enumerate(streams[1:], 1):
        fits = np.ones((len(chosen[0]), len(here["t"])), np.bool_)
        for attribute in query.graph.attributes:
            others = [(at[s], c) for s, c in attribute if s in at and at[s] < i]
            for own in (c for s, c in attribute if s == names[i]):
                for other, column in others:
                    fits &= streams[other][column][chosen[other]][:, None] == here[own][None, :]
        for j in range(i):
            apart = here["t"][None, :] - streams[j]["t"][chosen[j]][:, None]
            fits &= (apart <= _window(query, place[names[j]])) & (-apart <= _window(query, place[names[i]]))
            low, high = pairs.get((names[j], names[i]), (-_FAR_US, _FAR_US))
            fits &= (low <= apart) & (apart <= high)
            low, high = pairs.get((names[i], names[j]), (-_FAR_US, _FAR_US))
            fits &= (low <= -apart) & (-apart <= high)
        if names[i] == "s1" and query.where is not None:
            fits &= WHERE[query.where](streams[0]["n"][chosen[0]][:, None], here["n"][None, :])
        before, new = np.nonzero(fits)
        chosen = [*(c[before] for c in chosen), new]
    return _inside_counts(query, streams, chosen) if query.counts else chosen


def _window(query: bd.JoinQuery, i: int) -> int:
    window_us = query.streams[i].window_us
    return _FAR_US if window_us is None else window_us


def _inside_counts(query: bd.JoinQuery, streams: Sequence[Columns], chosen: Sequence[Int64s]) -> list[Int64s]:
    """The combinations whose rows are all inside their count windows."""
    now = np.max([r["t"][c] for r, c in zip(streams, chosen, strict=True)], axis=0)
    inside = np.ones(len(now), np.bool_)
    for stream, rows, numbers in zip(query.streams, streams, chosen, strict=True):
        if stream.count_window is not None:
            keys, time = [rows[c] for c in query.graph.columns(stream.name)], rows["t"]
            for i, (number, end) in enumerate(zip(numbers.tolist(), now.tolist(), strict=True)):
                later = (time > time[number]) & (time <= end)
                for key in keys:
                    later &= key == key[number]
                inside[i] &= np.count_nonzero(later) < stream.count_window.rows
    return [c[inside] for c in chosen]


def _decisive(query: bd.JoinQuery) -> Any:
    """What makes another epoch if it differs, besides the layout."""
    return [s.window for s in query.streams], query.within, query.where


def _data_rows(query: bd.JoinQuery, name: str, table: pa.Table) -> int:
    flag = query.streams[query.names.index(name)].flag
    return int(table.num_rows) - (sum(map(bool, table[flag].to_pylist())) if flag else 0)


def _plain(table: pa.Table) -> Columns:
    """Python values; times as numbers."""
    return {
        n: (c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c).to_pylist()
        for n, c in zip(table.column_names, table.columns, strict=True)
    }


def _arrays(columns: Columns) -> Columns:
    return {c: np.array([math.nan if v is None else v for v in vs]) for c, vs in columns.items()}


def _picked(columns: Columns, which: Bools) -> Columns:
    return {name: values[which] for name, values in columns.items()}
