"""What is drawn over time: the same charts for the page and for the report."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from braided.view import words
from braided.view.records import INTERMEDIATES, Record

Unit: TypeAlias = Literal["rows", "bytes", "seconds", "share"]
Values: TypeAlias = tuple[float | None, ...]
_Joined: TypeAlias = Callable[[Sequence[float]], float]

MOST_POINTS = 400
_MOST_LINES = 8


@dataclass(frozen=True)
class Chart:
    """Lines over time (or stacked areas), and a limit; `nothing` is shown if there is no line."""

    title: str
    unit: Unit
    times: tuple[float, ...]
    series: Mapping[str, Values]
    stacked: bool = False
    limit: float | None = None
    nothing: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Only plain values."""
        return {**asdict(self), "times": list(self.times)}


def charts_of(records: Sequence[Record]) -> list[Chart]:
    """All charts of these batches; those with nothing to draw come last."""
    return sorted(_all(records), key=lambda chart: not chart.series)


def _all(records: Sequence[Record]) -> list[Chart]:
    return [
        _chart("Rows in, a second", "rows", records, {"rows": [r.rows_per_second for r in records]}),
        _chart("Results, a second", "rows", records, {"results": [r.results_per_second for r in records]}),
        _chart("Seconds a batch", "seconds", records, _batch(records), joined=max),
        _chart("State", "bytes", records, _state(records), joined=max, stacked=True, limit=_budget(records)),
        _chart("Behind the newest stream", "seconds", records, _lag(records), joined=max),
        _chart("Spilled", "bytes", records, _spilled(records), joined=max, nothing="Nothing went to disk."),
        _chart(
            "Budget spent on freshness",
            "share",
            records,
            _freshness(records),
            nothing="Probes are not rationed: every result is as fresh as its rows.",
        ),
        _chart(
            "Probes allowed a batch",
            "rows",
            records,
            _allowances(records),
            nothing="Probes are not rationed.",
        ),
        _chart(
            "Adaptations so far",
            "rows",
            records,
            _adaptations(records),
            joined=max,
            nothing="Nothing was decided anew.",
        ),
    ]


def _batch(records: Sequence[Record]) -> dict[str, list[float | None]]:
    return {"it took": [r.seconds for r in records], "a row waited at most": [r.latency for r in records]}


def _state(records: Sequence[Record]) -> dict[str, list[float | None]]:
    lines: dict[str, list[float | None]] = {
        name: [r.streams[name].live_bytes if name in r.streams else None for r in records]
        for name in stream_names(records)
    }
    if any(r.intermediate_bytes for r in records):
        lines[INTERMEDIATES] = [r.intermediate_bytes for r in records]
    return lines


def _budget(records: Sequence[Record]) -> float | None:
    return records[-1].budget_bytes if records else None


def _lag(records: Sequence[Record]) -> dict[str, list[float | None]]:
    return {name: [_seconds(r, name) for r in records] for name in stream_names(records)}


def _seconds(record: Record, name: str) -> float | None:
    lag_us = record.streams[name].lag_us if name in record.streams else None
    return None if lag_us is None else lag_us / 1e6


def _spilled(records: Sequence[Record]) -> dict[str, list[float | None]]:
    return {"on disk": [r.spilled_bytes for r in records]} if any(r.spilled_bytes for r in records) else {}


def _freshness(records: Sequence[Record]) -> dict[str, list[float | None]]:
    shares = [r.freshness_share for r in records]
    return {"freshness": shares} if any(s is not None for s in shares) else {}


def _allowances(records: Sequence[Record]) -> dict[str, list[float | None]]:
    """The half-joins that may probe most."""
    peaks: dict[str, int] = {}
    for record in records:
        for name, allowed in record.allowances.items():
            peaks[name] = max(allowed, peaks.get(name, 0))
    most = sorted(peaks, key=lambda name: -peaks[name])[:_MOST_LINES]
    return {name: [r.allowances.get(name) for r in records] for name in most}


def _adaptations(records: Sequence[Record]) -> dict[str, list[float | None]]:
    counts: list[float | None] = []
    total = 0
    for record in records:
        total += len(record.adaptations)
        counts.append(total)
    return {"adaptations": counts} if total else {}


def stream_names(records: Iterable[Record]) -> list[str]:
    """All streams, in the query's order."""
    return list(dict.fromkeys(name for r in records for name in r.streams))


def _chart(
    title: str,
    unit: Unit,
    records: Sequence[Record],
    series: Mapping[str, Sequence[float | None]],
    *,
    joined: _Joined = statistics.fmean,
    **options: Any,
) -> Chart:
    """A chart of at most `MOST_POINTS` points: neighbours become their mean, or the largest of them."""
    step = -(-len(records) // MOST_POINTS) or 1
    starts = range(0, len(records), step)
    times = tuple(records[min(i + step, len(records)) - 1].when for i in starts)
    thin = {name: tuple(_one(v[i : i + step], joined) for i in starts) for name, v in series.items()}
    return Chart(title, unit, times, thin, **options)


def _one(values: Sequence[float | None], joined: _Joined) -> float | None:
    known = [v for v in values if v is not None]
    return joined(known) if known else None


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
    at = -(-len(ordered) * share // 1)
    return ordered[max(0, int(at) - 1)]
