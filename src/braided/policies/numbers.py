"""A number for the user is declared once, as a field of a statistics class.

`number` says what the field is, how the numbers of several buckets become the join's, its unit, and where it
is shown. What buckets send to the driver, `stats()`, `metrics()`, the journal, terminal, page, report and
Prometheus, and the table in docs/howto/watching.md follow from the declarations. So a new number is a field
made by `number`, and the place that counts it.

Totals are kept in a bucket's state, so a retried task counts once and a restart goes on. Every rule ignores
None ("not known here"), so the stages of a query add up as its buckets do.

>>> Number("rows", "sum").merged([1, None, 2]), Number("times", "max").merged([None, None])
(3, None)
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, TypeAlias

Adds: TypeAlias = Literal["sum", "max", "mean", "all", "same", "words", "list", ""]
Unit: TypeAlias = Literal["rows", "bytes", "seconds", "us", "share"]

_MERGES: Mapping[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "max": max,
    "mean": lambda values: sum(values) / len(values),
    "all": max,
    "same": lambda values: values[0] if len(set(values)) == 1 else "mixed",
    "words": lambda values: next(filter(None, values), ""),
    "list": lambda values: list(itertools.chain.from_iterable(values)),
}


@dataclass(frozen=True)
class Plot:
    """A chart over time; numbers that name the same one are its lines (or areas on top of each other).

    Where there are more batches than points, neighbours become the largest of them (`peaks`) or their mean.
    """

    title: str
    nothing: str = ""  # shown if no line has anything to show
    stacked: bool = False
    peaks: bool = True


@dataclass(frozen=True)
class Number:
    """The declaration of a number.

    `adds` is how the values of several buckets become one: their "sum", "max" or "mean"; "all" is the
    largest, but None if one is None; "same" is the value all have, or "mixed"; "words" the first that are not
    empty; "list" all values of all lists. A number that is not added is worked out from others. A
    `prometheus` name that ends in `_total` is a counter's. `column` is a title in the table of streams
    (terminal and page), `plot` and `line` are a chart and the name in its legend (streams and
    half-joins go by their own names), and `limit_of` is the chart in which the number is a limit.
    """

    about: str
    adds: Adds = "sum"
    unit: Unit = "rows"
    prometheus: str = ""
    column: str = ""
    plot: Plot | None = None
    line: str = ""
    limit_of: Plot | None = None
    default: Any = None

    @property
    def shown(self) -> bool:
        """Return whether records of batches must hold it, even of half-joins and intermediates."""
        return bool(self.prometheus or self.column or self.plot)

    def merged(self, values: Sequence[Any]) -> Any:
        """One value out of those of several buckets."""
        known = [value for value in values if value is not None]
        if self.adds == "all" and len(known) < len(values):
            return None
        return _MERGES[self.adds](known) if known else self.default

    def in_units(self, value: Any) -> Any:
        """The value for charts and Prometheus, which have times in seconds."""
        return value / 1e6 if self.unit == "us" and value is not None else value


def number(about: str, adds: Adds = "sum", unit: Unit = "rows", *, default: Any = 0, **options: Any) -> Any:
    """A field that is a number; its default (MISSING: it must be given) holds where no bucket knows one."""
    fallback = None if default is MISSING else default
    declaration = Number(about, adds, unit, default=fallback, **options)
    return field(default=default, metadata={"number": declaration})


def declared(kind: type) -> Mapping[str, Number]:
    """The numbers of a class, by name."""
    return _declared(kind)


@functools.cache
def _declared(kind: type) -> dict[str, Number]:
    return {f.name: f.metadata["number"] for f in fields(kind) if "number" in f.metadata}
