"""When a join is activated: how finite tables, as streams whose rows arrive in table order, become batches.

By number of rows, or by a fixed period of event time: rows arrive in buffers while the join is idle, and when
the period ends it processes what the buffers hold. A buffer may be bounded; then a source that finds it full
waits, and its rows come in the next period. Nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from braided.engine.sides import times
from braided.local.local_join import check_rows
from braided.policies.arrays import Int64s
from braided.query.durations import Duration, to_us
from braided.query.errors import InvalidValue
from braided.query.join_query import JoinQuery

DEFAULT_BATCH_ROWS = 50_000


@dataclass(frozen=True)
class BatchReport:
    """One activation: rows taken of each stream, rows held back by full buffers, results, CPU time.

    `period_seconds` is None if batches are made by rows. Results that wait for the end of all streams (with
    count windows) belong to no batch.
    """

    number: int
    rows: Mapping[str, int]
    held_back: Mapping[str, int]
    results: int
    seconds: float
    period_seconds: float | None

    @property
    def idle_share(self) -> float | None:
        """The share of the period in which the CPU was idle, if rows came in real time."""
        if self.period_seconds is None:
            return None
        return max(0.0, 1.0 - self.seconds / self.period_seconds)


@dataclass(frozen=True)
class Activation:
    """A batch to process now."""

    batch: dict[str, pa.RecordBatch]
    held_back: dict[str, int] = field(default_factory=dict)
    period_seconds: float | None = None


def activations(
    query: JoinQuery,
    whole: Mapping[str, pa.RecordBatch],
    batch_rows: int | None,
    batch_period: Duration | None,
    buffer_rows: int | None,
) -> Iterator[Activation]:
    """The batches of a run."""
    if batch_period is None:
        if buffer_rows is not None:
            raise InvalidValue("run_local: buffer_rows bounds the buffers of a batch_period; give one")
        rows = DEFAULT_BATCH_ROWS if batch_rows is None else batch_rows
        check_rows("run_local", "batch_rows", rows)
        for start in range(0, max(batch.num_rows for batch in whole.values()), rows):
            yield Activation({n: b.slice(start, rows) for n, b in whole.items() if start < b.num_rows})
        return
    if batch_rows is not None:
        raise InvalidValue("run_local: give batch_rows or batch_period, not both")
    if buffer_rows is not None:
        check_rows("run_local", "buffer_rows", buffer_rows)
    period_us = to_us(batch_period, owner="batch_period")
    if period_us <= 0:
        raise InvalidValue(f"run_local: batch_period must be at least 1 us; got {batch_period!r}")
    yield from _by_period(whole, _periods(query, whole, period_us), period_us, buffer_rows)


def _periods(query: JoinQuery, whole: Mapping[str, pa.RecordBatch], period_us: int) -> dict[str, Int64s]:
    """Return the period in which each row arrives: that of its stream's newest time so far."""
    arrived = {}
    for stream in query.streams:
        if stream.time is None:
            wrong = "run_local: batch_period needs a time column; give it time=..., or use batch_rows"
            raise InvalidValue.of(stream.name, "time", wrong)
        event_us = times.event_times(stream, whole[stream.name].column(stream.time)).us
        arrived[stream.name] = np.maximum.accumulate(event_us) if len(event_us) else event_us
    start = min((int(a[0]) for a in arrived.values() if len(a)), default=0)
    return {name: (a - start) // period_us for name, a in arrived.items()}


def _by_period(
    whole: Mapping[str, pa.RecordBatch],
    periods: Mapping[str, Int64s],
    period_us: int,
    buffer_rows: int | None,
) -> Iterator[Activation]:
    """One activation per period in which rows arrive or wait."""
    taken = dict.fromkeys(whole, 0)
    period = 0
    while waiting := [n for n in whole if taken[n] < whole[n].num_rows]:
        period = max(period, min(int(periods[n][taken[n]]) for n in waiting))
        batch, held_back = {}, {}
        for name in waiting:
            there = int(np.searchsorted(periods[name], period, side="right")) - taken[name]
            rows = there if buffer_rows is None else min(there, buffer_rows)
            held_back[name] = there - rows
            if rows:
                batch[name] = whole[name].slice(taken[name], rows)
                taken[name] += rows
        yield Activation(batch, held_back, period_us / 1e6)
        period += 1
