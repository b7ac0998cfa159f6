"""What one finished batch did, in plain values, and the file that keeps a line for each.

A `Record` computes a batch's own rows and results from the totals after the batch before it. Where that
is not known (a restart without a journal, or a batch whose report was lost) they are None, never wrong.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braided.query.errors import BraidedError, InvalidValue

if TYPE_CHECKING:
    from braided.policies.statistics import StreamStatistics
    from braided.spark.measures import JoinMetrics

JOURNAL = "journal.jsonl"
INTERMEDIATES = "intermediates"


def usual_journal(checkpoint: Path) -> Path:
    """Return where a job writes its journal by default."""
    return checkpoint / "braided" / JOURNAL


class ViewFailed(BraidedError, OSError):
    """A file or a port that a view needs cannot be used."""


@dataclass(frozen=True)
class StreamRecord:
    """One stream: `rows` of this batch; `total_rows` and `late_rows` since the start; what is held now.

    `newest_us` is its newest time, `lag_us` how far that lies behind the newest of all streams.
    """

    rows: int | None = None
    total_rows: int = 0
    late_rows: int = 0
    newest_us: int | None = None
    lag_us: int | None = None
    live_rows: int = 0
    live_bytes: int = 0
    spilled_rows: int = 0
    index: str = "hash"


@dataclass(frozen=True)
class Record:
    """A finished batch of a query.

    `when` is its end, in seconds since 1970; `seconds` how long it took. `latency` is how long a row waited
    at most for its results where batches follow each other at once: the batch before it had just begun.
    `rows` and `results` are of this batch. `allowances` are rationed probes, by "probing->probed".
    `budget_bytes` is the `Memory` budget; `adaptations` lists the new decisions in words.
    """

    query: str
    batch: int
    when: float
    seconds: float
    latency: float
    rows: int
    results: int | None
    total_results: int
    batches: int
    watermark_us: int | None = None
    streams: Mapping[str, StreamRecord] = field(default_factory=dict)
    intermediate_rows: int = 0
    intermediate_bytes: int = 0
    spilled_bytes: int = 0
    budget_bytes: int | None = None
    driver_streams: tuple[str, ...] = ()
    allowances: Mapping[str, int] = field(default_factory=dict)
    probe_budget: int | None = None
    freshness_share: float | None = None
    adaptations: tuple[str, ...] = ()

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

    @property
    def state_bytes(self) -> int:
        """What can be found without reading from disk, with intermediates."""
        return sum(s.live_bytes for s in self.streams.values()) + self.intermediate_bytes

    @property
    def state_rows(self) -> int:
        """The same in rows."""
        return sum(s.live_rows for s in self.streams.values()) + self.intermediate_rows

    @property
    def spilled_rows(self) -> int:
        """Rows of all streams on disk."""
        return sum(s.spilled_rows for s in self.streams.values())

    @property
    def late_rows(self) -> int:
        """Late rows of all streams since the start."""
        return sum(s.late_rows for s in self.streams.values())

    def to_dict(self) -> dict[str, Any]:
        """Only plain values."""
        values = dataclasses.asdict(self)
        return {**values, "driver_streams": list(self.driver_streams), "adaptations": list(self.adaptations)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Record:
        """Build a record from what `to_dict` returns; fields of later versions are left out."""
        own = {f.name: values[f.name] for f in dataclasses.fields(cls) if f.name in values}
        of_stream = {f.name for f in dataclasses.fields(StreamRecord)}
        own["streams"] = {
            name: StreamRecord(**{n: v for n, v in s.items() if n in of_stream})
            for name, s in own.get("streams", {}).items()
        }
        own |= {name: tuple(own.get(name, ())) for name in ("driver_streams", "adaptations")}
        return cls(**own)


_NOTHING = Record("", -1, 0.0, 0.0, 0.0, 0, 0, 0, 0)


def record_of(progress: Mapping[str, Any], metrics: JoinMetrics, before: Record | None = None) -> Record:
    """Build a batch's record from Spark's progress and the metrics after it; `before` is the one before."""
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
    streams = {n: _stream(s, metrics.lag_us.get(n), _rows(n, base)) for n, s in metrics.streams.items()}
    if base is not None:  # Spark counts a source that is read for several stages more than once
        spark["rows"] = sum(s.rows or 0 for s in streams.values())
    rationing, between = metrics.rationing, metrics.intermediates.values()
    return Record(
        **spark,
        query=metrics.query_id,
        results=None if base is None else metrics.results - base.total_results,
        total_results=metrics.results,
        batches=metrics.batches,
        watermark_us=metrics.watermark_us,
        streams=streams,
        intermediate_rows=sum(i.live_rows for i in between),
        intermediate_bytes=sum(i.live_bytes for i in between),
        spilled_bytes=metrics.spilled_bytes,
        budget_bytes=metrics.memory_limit,
        driver_streams=metrics.driver_streams,
        allowances={
            f"{a}->{b}": h.allowance for (a, b), h in metrics.half_joins.items() if h.allowance is not None
        },
        probe_budget=rationing.budget if rationing else None,
        freshness_share=rationing.freshness_share if rationing else None,
        adaptations=tuple(_adaptations(metrics, before)),
    )


def _unreported(spark: Mapping[str, Any], query: str, before: Record | None) -> Record:
    """A batch before any bucket has reported: after a restart there may be one without rows."""
    if before is None:
        return Record(**spark, query=query, results=0, total_results=0, batches=0)
    streams = {name: dataclasses.replace(s, rows=0) for name, s in before.streams.items()}
    return dataclasses.replace(before, **spark, results=0, streams=streams, adaptations=())


def _base(batch: int, before: Record | None) -> Record | None:
    """The batch before, if its totals are known; there are none before the first."""
    if before is not None and (before.batches or not before.batch):
        return before
    return None if batch else _NOTHING


def _rows(stream: str, base: Record | None) -> int | None:
    """A stream's rows before this batch."""
    return None if base is None else base.streams.get(stream, StreamRecord()).total_rows


def _stream(s: StreamStatistics, lag_us: int | None, base: int | None) -> StreamRecord:
    return StreamRecord(
        rows=None if base is None else s.rows_in - base,
        total_rows=s.rows_in,
        late_rows=s.late_rows,
        newest_us=s.newest_us,
        lag_us=lag_us,
        live_rows=s.live_rows,
        live_bytes=s.live_bytes,
        spilled_rows=s.spilled_rows,
        index=s.index,
    )


def _adaptations(metrics: JoinMetrics, before: Record | None) -> Iterator[str]:
    """Return the decisions made since the batch before."""
    if before is not None:
        yield from _changes(metrics, before)
    done = before.batches if before else metrics.batches - 1
    for a in metrics.rationing.adaptations if metrics.rationing else ():
        if a.batch >= done:  # counted from 0
            yield f"{'a new allocation' if a.taken else 'the allocation stays'}: {a.reason}"


def _changes(metrics: JoinMetrics, before: Record) -> Iterator[str]:
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
        """Write one more batch."""
        self._write({"record": record.to_dict()})

    def describe(self, text: str) -> None:
        """Write what the query joins, in words; once, however often it starts."""
        if self.about() != text:
            self._write({"about": text})

    def read(self) -> list[Record]:
        """Read all batches, oldest first; none if there is no file."""
        return [line for line in self._lines() if isinstance(line, Record)]

    def about(self) -> str:
        """Return the latest text given to `describe`."""
        told = [line for line in self._lines() if isinstance(line, str)]
        return told[-1] if told else ""

    def _write(self, values: Mapping[str, Any]) -> None:
        line = json.dumps(values, separators=(",", ":")).encode() + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                if not self._whole:
                    os.truncate(self.path, self._bytes().rfind(b"\n") + 1)
                self._whole = False
                file.write(line)
            self._whole = True
        except OSError as wrong:
            raise ViewFailed(f"{self.path}: the journal cannot be written ({wrong.strerror})") from None

    def _bytes(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as wrong:
            raise ViewFailed(f"{self.path}: the journal cannot be read ({wrong.strerror})") from None

    def _lines(self) -> Iterator[Record | str]:
        *whole, _ = self._bytes().split(b"\n")
        for number, line in enumerate(whole, start=1):
            try:
                yield _parsed(line)
            except (ValueError, LookupError, TypeError, AttributeError):
                raise InvalidValue(
                    f"{self.path}: line {number} is no record of a batch; is this a journal? "
                    "if so, take that line out"
                ) from None


def _parsed(line: bytes) -> Record | str:
    values = json.loads(line)
    return str(values["about"]) if "about" in values else Record.from_dict(values["record"])
