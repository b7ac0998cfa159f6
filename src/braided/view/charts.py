"""What is shown of some batches: the same charts, table and numbers in terminal, page and report."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from braided.policies.numbers import Plot, Unit
from braided.view import words
from braided.view.records import SHOWN, Record, Shown

Series: TypeAlias = dict[str, Sequence[float | None]]

MOST_POINTS = 400
_MOST_LINES = 8
_ADAPTATIONS = Plot("Adaptations so far", "No decision was changed.")


@dataclass(frozen=True)
class Chart:
    """Lines over time (or areas on top of each other), and a limit; `nothing` is said if there is no line.

    Lines `by_name` are of streams, half-joins or intermediates; the others are the join's own.
    """

    title: str
    unit: Unit
    times: tuple[float, ...]
    series: Series
    stacked: bool = False
    limit: float | None = None
    nothing: str = ""
    by_name: bool = False


def charts_of(records: Sequence[Record]) -> list[Chart]:
    """All charts of these batches; those with nothing to draw come last."""
    return sorted([*plotted(records), _adaptations(records)], key=lambda chart: not chart.series)


def plotted(records: Sequence[Record]) -> list[Chart]:
    """The charts of declared numbers."""
    plots = dict.fromkeys(shown.number.plot for shown in SHOWN)
    return [_chart(plot, records) for plot in plots if plot is not None]


def _chart(plot: Plot, records: Sequence[Record]) -> Chart:
    drawn = [shown for shown in SHOWN if shown.number.plot == plot]
    limits = [shown for shown in SHOWN if shown.number.limit_of == plot]
    series = {name: line for shown in drawn for name, line in _lines(shown, records).items()}
    limit = next((records[-1].values(shown)[""] for shown in limits if records), None)
    unit: Unit = "seconds" if drawn[0].number.unit == "us" else drawn[0].number.unit
    by_name = drawn[0].of not in ("batch", "join")
    return _thinned(plot, unit, records, series, limit=limit, by_name=by_name)


def _lines(shown: Shown, records: Sequence[Record]) -> Series:
    """A number's lines, the largest if there are many; none of nothing where the chart says so in words."""
    number = shown.number
    values = [record.values(shown) for record in records]
    lines = {
        key: [number.in_units(v.get(key)) for v in values]
        for key in dict.fromkeys(k for v in values for k in v)
    }
    nothing = (None, number.default) if number.plot and number.plot.nothing else (None,)
    lines = {key: line for key, line in lines.items() if any(v not in nothing for v in line)}
    most = sorted(lines, key=lambda key: -max(v or 0 for v in lines[key]))[:_MOST_LINES]
    return {key or number.line: line for key, line in lines.items() if key in most}


def _adaptations(records: Sequence[Record]) -> Chart:
    counts = list(itertools.accumulate(len(record.adaptations) for record in records))
    series: Series = {"adaptations": counts} if any(counts) else {}
    return _thinned(_ADAPTATIONS, "rows", records, series)


def _thinned(plot: Plot, unit: Unit, records: Sequence[Record], series: Series, **options: Any) -> Chart:
    """A chart of at most `MOST_POINTS` points."""
    step = -(-len(records) // MOST_POINTS) or 1
    starts = range(0, len(records), step)
    times = tuple(records[min(i + step, len(records)) - 1].when for i in starts)
    thin: Series = {n: tuple(_one(v[i : i + step], plot) for i in starts) for n, v in series.items()}
    return Chart(plot.title, unit, times, thin, plot.stacked, nothing=plot.nothing, **options)


def _one(values: Sequence[float | None], plot: Plot) -> float | None:
    known = [v for v in values if v is not None]
    summed = max if plot.peaks else statistics.fmean
    return summed(known) if known else None


def table(last: Record) -> list[list[str]]:
    """The streams after a batch: titles first, then a row for each."""
    columns = [shown for shown in SHOWN if shown.number.column]
    rows = [["stream", "rows/s", *(shown.number.column for shown in columns)]]
    for name, s in last.streams.items():
        rate = "" if s.rows is None or not last.seconds else words.count(s.rows / last.seconds)
        cells = [(getattr(s, shown.name), shown.number.unit) for shown in columns]
        rows.append([name, rate, *("" if v is None else words.formatted(v, unit) for v, unit in cells)])
    return rows


def latest_adaptations(records: Sequence[Record], most: int) -> list[tuple[int, str]]:
    """What was decided, by batch, newest first."""
    return [(r.batch, text) for r in records for text in r.adaptations][: -most - 1 : -1]


def summary(records: Sequence[Record]) -> list[tuple[str, str]]:
    """The numbers at the top."""
    if not records:
        return []
    last, took = records[-1], sorted(r.seconds for r in records)
    return [
        ("results", words.count(last.total_results)),
        ("batches", words.count(last.batches or len(records))),
        ("batch, median", words.span(quantile(took, 0.5))),
        ("batch, 99 of 100", words.span(quantile(took, 0.99))),
        ("state, peak", words.size(max(r.state_bytes for r in records))),
        ("late rows", words.count(last.late_rows)),
    ]


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that this share of the values does not exceed.

    >>> quantile([1, 2, 3, 4], 0.5), quantile([1, 2, 3, 4], 0.99)
    (2, 4)
    """
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]
