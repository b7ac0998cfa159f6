"""What one finished batch did, in plain values, and the file that keeps a line for each.

A `Record` tells a batch's own rows and results by what the totals were after the batch before it. Where that
is not known (a restart without a journal, or a batch whose report was lost) they are None, never wrong.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from braided.policies.numbers import Number, Plot, declared, number
from braided.policies.statistics import (
    HalfJoinStatistics,
    IntermediateStatistics,
    JoinMetrics,
    RationingStatistics,
    StreamStatistics,
)
from braided.query.errors import BraidedError, InvalidValue, os_reason

JOURNAL = "journal.jsonl"
_BATCH = Plot("Seconds a batch")
_WAITED = "a row waited at most"
_given = functools.partial(number, adds="", default=MISSING)
_seconds = functools.partial(_given, unit="seconds")


def usual_journal(checkpoint: Path) -> Path:
    """Where a job notes its batches unless said otherwise."""
    return checkpoint / "braided" / JOURNAL


class ViewFailed(BraidedError, OSError):
    """A file or a port that a view needs cannot be used."""


@contextmanager
def os_errors(error: Callable[[str], BraidedError]) -> Iterator[None]:
    """Where the operating system refuses something, raise what `error` makes of its reason."""
    try:
        yield
    except OSError as wrong:
        raise error(os_reason(wrong)) from None


@dataclass(frozen=True)
class StreamRecord(StreamStatistics):
    """One stream: its statistics after the batch, its rows of this batch, and how far it lies behind."""

    rows: int | None = number("rows of the latest batch", default=None)
    lag_us: int | None = number(
        "how far behind the newest stream",
        unit="us",
        default=None,
        prometheus="braided_lag_seconds",
        column="behind",
        plot=Plot("Behind the newest stream"),
    )

    @property
    def total_rows(self) -> int:
        """Rows since the start."""
        return self.rows_in


def _of_join(name: str, unknown: Any = None) -> Any:
    """A number of the join, as an attribute of a record."""
    return property(lambda record: record.numbers.get(name, unknown))


def _sum(name: str, *parts: str) -> Any:
    """A number of all streams or intermediates."""

    def total(record: Record) -> int:
        return sum(values[name] for part in parts for values in record.parts(part).values())

    return property(total)


class Shown(NamedTuple):
    """A number that is shown somewhere: what it is of, its name and its declaration."""

    of: str
    name: str
    number: Number


@dataclass(frozen=True)
class Record:
    """A finished batch of a query.

    `when` is its end, in seconds since 1970. `latency` is how long a row waited at most for its results where
    batches follow each other at once: the batch before it had just begun. `rows` and `results` are of this
    batch. `numbers` are those of the join after it (see `JoinMetrics`, and `RationingStatistics` where probes
    are rationed), without those that are None; `half_joins` (by "probing->probed") and `intermediates` have
    the numbers that are shown. `hot_keys` are keys that are much for one bucket ("stream.key") and their
    shares, `epochs` the numbers of those that live; `adaptations` says in words what was decided.
    `state_rows` and `state_bytes` are what can be found without reading from disk, with intermediates.
    """

    query: str
    batch: int = _given("number of the latest batch", prometheus="braided_batch_id")
    when: float = _seconds("when it ended", prometheus="braided_batch_end_timestamp_seconds")
    seconds: float = _seconds(
        "how long the latest batch took", prometheus="braided_batch_seconds", plot=_BATCH, line="it took"
    )
    latency: float = _seconds(
        f"how long {_WAITED}", prometheus="braided_latency_seconds", plot=_BATCH, line=_WAITED
    )
    rows: int = _given("rows of the latest batch")
    results: int | None = _given("results of the latest batch")
    numbers: Mapping[str, Any] = field(default_factory=dict)
    streams: Mapping[str, StreamRecord] = field(default_factory=dict)
    half_joins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    intermediates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    driver_streams: tuple[str, ...] = ()
    adaptations: tuple[str, ...] = ()
    hot_keys: Mapping[str, float] = field(default_factory=dict)
    epochs: tuple[int, ...] = ()

    total_results = _of_join("results", 0)
    batches = _of_join("batches", 0)
    watermark_us = _of_join("watermark_us")
    spilled_bytes = _of_join("spilled_bytes", 0)
    budget_bytes = _of_join("memory_limit")
    probe_budget = _of_join("budget")
    freshness_share = _of_join("freshness_share")
    late_rows = _sum("late_rows", "streams")
    spilled_rows = _sum("spilled_rows", "streams")
    intermediate_rows = _sum("live_rows", "intermediates")
    intermediate_bytes = _sum("live_bytes", "intermediates")
    state_rows = _sum("live_rows", "streams", "intermediates")
    state_bytes = _sum("live_bytes", "streams", "intermediates")

    @property
    def allowances(self) -> dict[str, int]:
        """Rationed probes, by half-join."""
        return {name: h["allowance"] for name, h in self.half_joins.items() if "allowance" in h}

    @property
    def rows_per_second(self) -> float:
        """Rows in, while the batch ran."""
        return self.rows / self.seconds if self.seconds else 0.0

    @property
    def results_per_second(self) -> float | None:
        """Results out, while the batch ran."""
        if self.results is None:
            return None
        return self.results / self.seconds if self.seconds else 0.0

    def values(self, shown: Shown) -> dict[str, Any]:
        """A number's values by the name of what it is of; the batch and the join have none."""
        if shown.of == "batch":
            return {"": getattr(self, shown.name)}
        if shown.of == "join":
            return {"": self.numbers.get(shown.name)}
        return {name: part.get(shown.name) for name, part in self.parts(f"{shown.of}s").items()}

    def parts(self, name: str) -> dict[str, Mapping[str, Any]]:
        """The numbers of all streams, half-joins or intermediates."""
        parts = getattr(self, name).items()
        return {key: vars(part) if isinstance(part, StreamRecord) else part for key, part in parts}

    def to_dict(self) -> dict[str, Any]:
        """Only plain values."""
        values = {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}
        return {**values, "streams": {name: dict(values) for name, values in self.parts("streams").items()}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Record:
        """A record out of what `to_dict` gives; fields of later versions are left out."""
        own = {**_fields(cls, values), "numbers": values["numbers"]}
        own["streams"] = {
            name: StreamRecord(**_fields(StreamRecord, s)) for name, s in values["streams"].items()
        }
        own |= {name: tuple(own.get(name, ())) for name in ("driver_streams", "adaptations", "epochs")}
        return cls(**own)


def _fields(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f.name: values[f.name] for f in dataclasses.fields(kind) if f.name in values}


_DERIVED = {
    "rows_per_second": Number("rows a second", "", plot=Plot("Rows in, a second", peaks=False), line="rows"),
    "results_per_second": Number(
        "results a second", "", plot=Plot("Results, a second", peaks=False), line="results"
    ),
    "state_bytes": Number("all that is held in memory", "", "bytes", prometheus="braided_state_bytes"),
}
_DECLARED: tuple[tuple[str, Mapping[str, Number]], ...] = (
    ("batch", _DERIVED),
    ("batch", declared(Record)),
    ("stream", declared(StreamRecord)),
    ("intermediate", declared(IntermediateStatistics)),
    ("join", declared(JoinMetrics)),
    ("join", declared(RationingStatistics)),
    ("half_join", declared(HalfJoinStatistics)),
)
SHOWN = tuple(Shown(of, name, n) for of, numbers in _DECLARED for name, n in numbers.items() if n.shown)
_NOTHING = Record("", -1, 0.0, 0.0, 0.0, 0, 0)


def record_of(progress: Mapping[str, Any], metrics: JoinMetrics, before: Record | None = None) -> Record:
    """A batch out of Spark's progress report and the metrics after it; `before` is the latest one before."""
    if before is not None and before.batch != progress["batchId"] - 1:
        before = None
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1e3
    spark = {
        "batch": progress["batchId"],
        "when": datetime.fromisoformat(progress["timestamp"]).timestamp() + seconds,
        "seconds": seconds,
        "latency": seconds + (before.seconds if before else 0.0),
        "rows": progress.get("numInputRows") or 0,
    }
    if not metrics.batches:
        return _unreported(spark, metrics.query_id, before)
    base = _base(spark["batch"], before)
    streams = {name: _stream(name, s, metrics, base) for name, s in metrics.streams.items()}
    if base is not None:  # Spark counts a source that is read for several stages more than once
        spark["rows"] = sum(s.rows or 0 for s in streams.values())
    half_joins = {f"{a}->{b}": _shown(h) for (a, b), h in metrics.half_joins.items()}
    return Record(
        **spark,
        query=metrics.query_id,
        results=None if base is None else metrics.results - base.total_results,
        numbers=_numbers(metrics) | (_numbers(metrics.rationing) if metrics.rationing else {}),
        streams=streams,
        half_joins={name: numbers for name, numbers in half_joins.items() if numbers},
        intermediates={name: _shown(i) for name, i in metrics.intermediates.items()},
        driver_streams=metrics.driver_streams,
        adaptations=tuple(_adaptations(metrics, before)),
        hot_keys={f"{stream}.{key}": share for (stream, key), share in metrics.too_hot.items()},
        epochs=tuple(epoch.number for epoch in metrics.epochs),
    )


def _numbers(part: object) -> dict[str, Any]:
    """What is known and is no object of its own."""
    values = {name: getattr(part, name) for name in declared(type(part))}
    return {name: v for name, v in values.items() if v is not None and not isinstance(v, tuple)}


def _shown(part: object) -> dict[str, Any]:
    return {name: v for name, v in _numbers(part).items() if declared(type(part))[name].shown}


def _unreported(spark: Mapping[str, Any], query: str, before: Record | None) -> Record:
    """A batch before any in which buckets said something: after a restart there may be one without rows."""
    if before is None:
        return Record(**spark, query=query, results=0)
    streams = {name: dataclasses.replace(s, rows=0) for name, s in before.streams.items()}
    return dataclasses.replace(before, **spark, results=0, streams=streams, adaptations=())


def _base(batch: int, before: Record | None) -> Record | None:
    """The batch before, if its totals are known; there are none before the first."""
    if before is not None and (before.batches or not before.batch):
        return before
    return None if batch else _NOTHING


def _stream(name: str, s: StreamStatistics, metrics: JoinMetrics, base: Record | None) -> StreamRecord:
    rows = None if base is None else s.rows_in - base.streams.get(name, StreamRecord()).rows_in
    return StreamRecord(**vars(s), rows=rows, lag_us=metrics.lag_us.get(name))


def _adaptations(metrics: JoinMetrics, before: Record | None) -> Iterator[str]:
    """Yield what was decided since the batch before."""
    for (stream, key), share in metrics.too_hot.items():
        if before is None or f"{stream}.{key}" not in before.hot_keys:
            yield f"key {key} is hot: about {100 * share:.0f} % of the rows of {stream}"
    if before is not None:
        yield from _changes(metrics, before)
    done = before.batches if before else metrics.batches - 1
    now = [a for a in metrics.rationing.adaptations if a.batch >= done] if metrics.rationing else []
    for taken, what in ((True, "a new allocation"), (False, "the allocation stays")):
        if decided := [a for a in now if a.taken is taken]:  # batches are counted from 0
            where = f" in {len(decided)} buckets" if len(decided) > 1 else ""
            yield f"{what}{where}: {decided[0].reason}"


def _changes(metrics: JoinMetrics, before: Record) -> Iterator[str]:
    for epoch in metrics.epochs:
        if before.epochs and epoch.number not in before.epochs:
            yield f"the query has changed: epoch {epoch.number} began"
    both = {*before.driver_streams} & {*metrics.driver_streams}  # those without rows have no turn
    orders = (before.driver_streams, metrics.driver_streams)
    old_order, order = (" > ".join(name for name in names if name in both) for names in orders)
    if old_order != order:
        yield f"driver streams {old_order} became {order}"
    for name, s in metrics.streams.items():
        old = before.streams.get(name)
        if old is not None and old.index != s.index:
            yield f"index of {name}: {old.index} became {s.index}"


class Journal:
    """A file of records, a line of JSON each; other lines say what the query is.

    A line counts when its line end is written. A last line without one was torn by a crash: readers leave it
    out, and the next writer cuts it off.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._whole = False

    def append(self, record: Record) -> None:
        """One more batch."""
        self._write({"record": record.to_dict()})

    def describe(self, text: str) -> None:
        """What is joined, in words; once, however often a query is started."""
        if self.about() != text:
            self._write({"about": text})

    def read(self) -> list[Record]:
        """All batches, oldest first; none if there is no file."""
        return [line for line in self._lines() if isinstance(line, Record)]

    def about(self) -> str:
        """What `describe` was told last."""
        texts = [line for line in self._lines() if isinstance(line, str)]
        return texts[-1] if texts else ""

    def _write(self, values: Mapping[str, Any]) -> None:
        line = json.dumps(values, separators=(",", ":")).encode() + b"\n"
        with os_errors(lambda why: ViewFailed(f"{self.path}: the journal cannot be written ({why})")):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                if not self._whole:
                    os.truncate(self.path, self.path.read_bytes().rfind(b"\n") + 1)
                self._whole = False
                file.write(line)
            self._whole = True

    def _lines(self) -> Iterator[Record | str]:
        with os_errors(lambda why: ViewFailed(f"{self.path}: the journal cannot be read ({why})")):
            *whole, _ = (self.path.read_bytes() if self.path.exists() else b"").split(b"\n")
        for at, line in enumerate(whole, start=1):
            try:
                values = json.loads(line)
                yield str(values["about"]) if "about" in values else Record.from_dict(values["record"])
            except (ValueError, LookupError, TypeError, AttributeError):
                raise InvalidValue(
                    f"{self.path}: line {at} is no record of a batch; is this a journal? "
                    "if so, take that line out"
                ) from None
