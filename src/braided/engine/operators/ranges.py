"""Between which values the columns of a condition lie, and whether it might fail on a pair of such rows.

A condition fails on data where exact numbers get too long or times do not fit their unit. Who puts off to
evaluate it on some pairs wants to know before whether it might. Ranges of values go through its operations
like values; what is said of them is true of every pair, and sometimes of none that there is.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from braided.engine.operators.predicate import EXACT, literal_of
from braided.query.condition import MOST_DIGITS, Call, Column, Condition, Literal
from braided.query.join_graph import ColumnName

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "in")
_UNITS_NS = {"s": 10**9, "ms": 10**6, "us": 1_000, "ns": 1}
_DAY_NS = 86_400 * 10**9
_MOST_INT64 = (1 << 63) - 1


class Range(NamedTuple):
    """The least and the largest value, digits behind the point, and of times (in ns) the unit in ns."""

    low: Decimal
    high: Decimal
    scale: int = 0
    unit_ns: int = 0

    @property
    def digits(self) -> int:
        """How many digits a value may have."""
        return max(x.adjusted() + 1 if x else 1 for x in (self.low, self.high)) + self.scale

    def fits(self, unit_ns: int) -> bool:
        """Whether all times can be told in a unit."""
        return max(abs(self.low), abs(self.high)) / unit_ns <= _MOST_INT64


class _TooLargeError(Exception):
    pass


class Ranges:
    """The ranges of the columns of a condition, as far as rows have come."""

    def __init__(self, condition: Condition | None, known: Mapping[ColumnName, Range] | None = None) -> None:
        self._condition, self._known = condition, dict(known or {})
        self._columns = condition.columns() if condition is not None and _computes(condition) else frozenset()

    def including(self, batches: Mapping[str, pa.RecordBatch]) -> Ranges:
        """The ranges with more rows, by stream."""
        later = Ranges(self._condition, self._known)
        for stream, column in self._columns:
            if stream in batches and (seen := _range_of(batches[stream].column(column))) is not None:
                known = self._known.get((stream, column), seen)
                low, high = min(known.low, seen.low), max(known.high, seen.high)
                later._known[stream, column] = seen._replace(low=low, high=high)
        return later

    @functools.cached_property
    def may_fail(self) -> bool:
        """Whether the condition might fail on a pair of rows."""
        if not self._columns or self._condition is None:
            return False
        try:
            with localcontext(prec=6 * MOST_DIGITS):
                self._follow(self._condition)
        except _TooLargeError:
            return True
        return False

    def _follow(self, condition: Condition) -> Range | None:
        """Where the values of an expression lie; None if they cannot be too large, or are null."""
        if isinstance(condition, Column):
            return self._known.get((condition.stream, condition.column))
        if isinstance(condition, Literal):
            return _range_of(pa.array([literal_of(condition)]))
        ranges = [self._follow(argument) for argument in condition.arguments]
        known = [r for r in ranges if r is not None]
        if len(known) < len(ranges) or condition.operation not in (*EXACT, *_COMPARISONS):
            return None
        unit_ns = min((r.unit_ns for r in known if r.unit_ns), default=0)
        if unit_ns and not all(r.fits(unit_ns) for r in known):
            raise _TooLargeError
        if condition.operation in _COMPARISONS:
            computed = any(isinstance(argument, Call) for argument in condition.arguments)
            if computed and not unit_ns and sum(r.digits for r in known[:2]) > MOST_DIGITS:
                raise _TooLargeError
            return None
        made = _computed(condition.operation, known)._replace(unit_ns=unit_ns)
        if not made.fits(unit_ns) if unit_ns else made.digits > MOST_DIGITS:
            raise _TooLargeError
        return made

    # from and to a checkpoint

    def save(self) -> list[list[Any]]:
        """As plain values."""
        return [[*name, str(r.low), str(r.high), r.scale, r.unit_ns] for name, r in self._known.items()]

    def load(self, saved: Sequence[Sequence[Any]]) -> Ranges:
        """The ranges as they were saved."""
        known = {(s, c): Range(Decimal(a), Decimal(b), *rest) for s, c, a, b, *rest in saved}
        return Ranges(self._condition, known)


def _computes(condition: Condition) -> bool:
    """Whether anything in a condition could be too large: it computes, or compares times of two units."""
    if not isinstance(condition, Call):
        return False
    names = [a for a in condition.arguments if isinstance(a, Column)]
    operation = condition.operation
    compares = operation in _COMPARISONS and len(names) == len(condition.arguments)
    return operation in EXACT or compares or any(map(_computes, condition.arguments))


def _computed(operation: str, given: Sequence[Range]) -> Range:
    """Where the results of an operation lie."""
    a, scale = given[0], max(r.scale for r in given)
    if operation == "neg":
        return Range(-a.high, -a.low, scale)
    if operation in ("abs", "%"):
        largest = max(abs(a.low), abs(a.high))
        return Range(-largest if operation == "%" else Decimal(0), largest, scale)
    ends = [EXACT[operation](x, y) for x, y in product(*((r.low, r.high) for r in given))]
    return Range(min(ends), max(ends), sum(r.scale for r in given) if operation == "*" else scale)


def _range_of(column: pa.Array) -> Range | None:
    """The range of a column of whole numbers, decimals or times; None if it has no value, or another type."""
    type_ = column.type
    if not (unit_ns := _unit_ns(type_)) and not pa.types.is_integer(type_) and not pa.types.is_decimal(type_):
        return None
    low, high = (pc.min_max(column)[end] for end in ("min", "max"))
    if not low.is_valid:
        return None
    if unit_ns:
        return Range(Decimal(low.value) * unit_ns, Decimal(high.value) * unit_ns, unit_ns=unit_ns)
    return Range(Decimal(low.as_py()), Decimal(high.as_py()), getattr(type_, "scale", 0))


def _unit_ns(type_: pa.DataType) -> int:
    if pa.types.is_date32(type_):
        return _DAY_NS
    if pa.types.is_date64(type_):
        return 10**6
    return _UNITS_NS[type_.unit] if pa.types.is_temporal(type_) and hasattr(type_, "unit") else 0
