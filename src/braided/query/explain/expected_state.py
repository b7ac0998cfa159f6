"""How large the state of a join will be, if it is known how many rows a second come, and how long they are.

A row is forgotten when the watermark has passed it by its stream's retention; the watermark is behind the
newest row by the largest lateness of all streams. So a stream holds rate x (retention + that lateness) rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from braided.query.durations import to_text
from braided.query.errors import InvalidType, InvalidValue, require_stream
from braided.query.memory import LIVE_SHARE

if TYPE_CHECKING:
    from braided.query.join_query import JoinQuery
    from braided.query.stream import Stream

INDEX_BYTES = 64  # of a row, beside its columns: key hash, time, links (docs/inside/engine.md)
_DAY_S = 86_400


@dataclass(frozen=True)
class Expected:
    """The rows and bytes of one stream (None if they cannot be known), and the reason.

    Of the rows `joinable` are inside the window; the others wait for the watermark.
    """

    stream: str
    why: str
    rows: float | None = None
    size_bytes: float | None = None
    joinable: float = 0.0

    def __str__(self) -> str:
        """Describe the stream in one line."""
        size = "" if self.size_bytes is None else f", {_size(self.size_bytes)}"
        amount = self.why if self.rows is None else f"{self.rows:,.0f} rows{size} ({self.why})"
        return f"  {self.stream}: {amount}"


@dataclass(frozen=True)
class ExpectedState:
    """Of all streams, spread over buckets."""

    query: JoinQuery
    streams: tuple[Expected, ...]
    buckets: int
    rates: Mapping[str, float] = field(default_factory=dict)
    row_bytes: Mapping[str, float] = field(default_factory=dict)

    def at(self, rates: Mapping[str, float]) -> ExpectedState:
        """Return what would be stored at other rates."""
        streams = (_expected(self.query, s, rates.get(s.name), None) for s in self.query.streams)
        return ExpectedState(self.query, tuple(streams), self.buckets, rates)

    @property
    def rows(self) -> float:
        """Of all streams that are known."""
        return sum(e.rows or 0 for e in self.streams)

    @property
    def size_bytes(self) -> float:
        """Of all streams that are known."""
        return sum(e.size_bytes or 0 for e in self.streams)

    def lines(self) -> Iterator[str]:
        """Yield the description, line by line."""
        yield from ("expected state:", *map(str, self.streams))
        if self.rows:
            yield f"  total: {self._amount(1)}{self._spread()}"
        if self.size_bytes:
            yield f"  (bytes are those of columns, and {INDEX_BYTES} a row for its index)"
        if not self.query.flat:
            yield "  (rows that operators below the root make are not counted)"

    def warnings(self) -> Iterator[str]:
        """Yield the budgets that cannot be met."""
        memory, overload = self.query.memory, self.query.overload
        if memory is not None and self.size_bytes > LIVE_SHARE * memory.limit_bytes:
            limit = f"the limit of {_size(memory.limit_bytes)}, three quarters of it for rows"
            disk = "rows go to disk, results stay exact and come later"
            enough = f"{_size(self.size_bytes / LIVE_SHARE)} (on Spark: over all executors)"
            small = f"{limit}, does not hold the expected {_size(self.size_bytes)}"
            yield f"memory: {small}; {disk}; raise it to {enough}, or shorten windows"
        budgets = {} if overload is None else {"state_rows": self.rows, "state_bytes": self.size_bytes}
        for option, need in budgets.items():
            if (most := getattr(overload, option)) is None or need <= most:
                continue
            few = f"{option}={most:,} is {most / need:.1%} of the expected {need:,.0f}"
            lost = "windows are cut to that, and results are lost"
            yield f"overload: {few}; {lost}; raise it, or shorten windows yourself"

    def _spread(self) -> str:
        if self.buckets == 1:
            return ""
        if self.query.keyless:
            return "; all in one bucket, because there is no key"
        return f"; in each of {self.buckets} buckets {self._amount(self.buckets)}, if keys are spread evenly"

    def _amount(self, parts: int) -> str:
        """Return what each part holds, in words; "at least" where a stream is not known."""
        rows, size = f"{self.rows / parts:,.0f} rows", f", {_size(self.size_bytes / parts)}"
        if any(e.rows is None for e in self.streams):
            rows = f"at least {rows}"
        elif any(e.size_bytes is None for e in self.streams):
            size = f", at least{size[1:]}"
        return rows + (size if self.size_bytes else "")


def expected_state(query: JoinQuery, rates: Any, row_bytes: Any, buckets: int | None) -> ExpectedState | None:
    """Estimate the state from `rates` (rows a second) and `row_bytes` (of a row's columns), if given."""
    if rates is None:
        if row_bytes is None and buckets is None:
            return None
        option = "buckets" if row_bytes is None else "row_bytes"
        raise InvalidValue(f"explain: {option} says nothing without rates; give rates={{stream: rows/s}}")
    per_second = _numbers(query, "rates", rates, "rows a second")
    sizes = _numbers(query, "row_bytes", row_bytes or {}, "bytes")
    if buckets is not None and (isinstance(buckets, bool) or not isinstance(buckets, int) or buckets < 1):
        raise InvalidValue(f"explain: buckets must be a whole number from 1 on; got {buckets!r}")
    streams = (_expected(query, s, per_second.get(s.name), sizes.get(s.name)) for s in query.streams)
    return ExpectedState(query, tuple(streams), buckets or 1, per_second, sizes)


def _expected(query: JoinQuery, stream: Stream, rate: float | None, row_bytes: float | None) -> Expected:
    stay_us, count = query.stay_us(stream), stream.count_window
    if rate is None:
        return Expected(stream.name, "not known, because its rate is not given")
    late_us = max(s.lateness_us for s in query.streams) if query.windowed else 0
    late = f" and {to_text(late_us)} of lateness" if late_us else ""
    speed = f"{rate:,.2f}".removesuffix(".00") + " a second"
    rows, why = math.inf, ""
    if stay_us is not None:
        rows, why = rate * (stay_us + late_us) / 1e6, f"{speed} for {to_text(stay_us)}{late}"
    if count is not None and count.per == "stream" and count.rows + rate * late_us / 1e6 < rows:
        rows, why = count.rows + rate * late_us / 1e6, f"its window counts {count.rows:,} rows{late}"
    if rows < math.inf:
        size_bytes = None if row_bytes is None else rows * (row_bytes + INDEX_BYTES)
        return Expected(stream.name, why, rows, size_bytes, rows - rate * late_us / 1e6)
    if count is not None:
        return Expected(stream.name, f"{count.rows:,} rows of each key; how many keys is not known")
    end = " until keys are closed" if query.promises else ", and none is ever forgotten"
    return Expected(stream.name, f"{rate * _DAY_S:,.0f} rows more a day ({speed}){end}")


def _size(size_bytes: float) -> str:
    """Write bytes as `Memory` reads them.

    >>> _size(1_160_000_000), _size(80)
    ('1.16 GB', '80 B')
    """
    for unit, least in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= least:
            return f"{size_bytes / least:,.2f}".removesuffix(".00") + f" {unit}"
    return f"{size_bytes:,.0f} B"


def _numbers(query: JoinQuery, option: str, given: Any, unit: str) -> Mapping[str, float]:
    if not isinstance(given, Mapping):
        raise InvalidType(f"explain: {option} must map streams to {unit}; got {given!r}")
    for name, value in given.items():
        require_stream(name, query.names, f"explain: {option}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidType(f"explain: {option} of {name!r} must be a number ({unit}); got {value!r}")
        if not 0 <= value < math.inf:
            raise InvalidValue(f"explain: {option} of {name!r} must be 0 or more {unit}; got {value!r}")
    return given
