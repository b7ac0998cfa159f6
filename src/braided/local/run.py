"""A whole join in one call: finite tables, cut into batches, joined like streams whose rows arrive in order.

Batches are made by number of rows, or by a fixed period of event time: rows arrive in buffers while the join
is idle, and when the period ends it processes what the buffers hold. A buffer may be bounded; then a source
that finds it full waits, and its rows come in the next period. Nothing is dropped. `queues` makes them in a
third way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from braided.engine.engine import Engine
from braided.engine.intake import as_batch
from braided.engine.sides import times
from braided.engine.sides.storable import no_results
from braided.engine.site import Site
from braided.local.local_join import check_inputs, check_rows
from braided.local.queues import check_scheduling, scheduled
from braided.query.durations import Duration, to_us
from braided.query.errors import InvalidType, InvalidValue
from braided.query.join_query import JoinQuery
from braided.query.scheduling import Scheduling

DEFAULT_BATCH_ROWS = 50_000
_log = logging.getLogger("braided")

Whole: TypeAlias = Mapping[str, pa.RecordBatch]
Batches: TypeAlias = Iterator[tuple[Whole, Mapping[str, int]]]  # each with the rows that were held back


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


def run_local(
    query: JoinQuery,
    tables: Mapping[str, Any],
    *,
    batch_rows: int | None = None,
    batch_period: Duration | None = None,
    buffer_rows: int | None = None,
    scheduling: Scheduling | None = None,
    on_batch: Callable[[BatchReport], object] | None = None,
) -> pa.Table:
    """Join tables as streams whose rows arrive in table order; return all results as one table.

    A batch is `batch_rows` rows of each stream (50,000 if neither is given), or the rows of one
    `batch_period` of event time; then `buffer_rows` bounds how many rows of a stream may wait for the end of
    the period, and rows that find the buffer full come in the next one. With `scheduling` all rows wait in
    queues, and a batch is some rows of one of them. `on_batch` gets a report of every batch.
    Rows that come later than their stream's `lateness` allows are set aside; how many is logged as a warning.
    """
    if on_batch is not None and not callable(on_batch):
        raise InvalidType(f"run_local: on_batch must be a function; got {on_batch!r}")
    check_inputs("run_local", "table", query, tables)
    if query.overload is not None and query.overload.clock == "wall":
        remedy = "use clock='event', or a LocalJoin and push(..., now=...)"
        old = "what is joined has long been recorded, so clock='wall' says nothing"
        raise InvalidValue(f"run_local: {old}; {remedy}")
    whole = {stream.name: as_batch(stream, tables[stream.name], None) for stream in query.streams}
    engine = Engine(query, Site(repeatable=True))
    engine.core.learn({name: batch.schema for name, batch in whole.items()})
    period_us = None if batch_period is None else to_us(batch_period, owner="batch_period")
    if scheduling is None:
        batches = _batches(query, whole, batch_rows, period_us, buffer_rows)
    elif (batch_rows, batch_period, buffer_rows) == (None, None, None):
        check_scheduling("run_local", scheduling, query)
        batches = ((batch, {}) for batch, _ in scheduled(engine, whole, scheduling))
    else:
        raise InvalidValue("run_local: scheduling makes the batches; leave other options of theirs out")
    period = None if period_us is None else period_us / 1e6
    results: list[pa.Table] = []
    spent = passed = 0.0
    for number, (batch, held_back) in enumerate(batches):
        began = time.process_time()
        new = [table for step in engine.before() for table in step]
        new += engine.step(engine.accept(batch, borrow=True), eager=False)
        seconds = time.process_time() - began
        results += new
        spent, passed = spent + seconds, passed + (period or 0.0)
        if on_batch is not None:
            rows = {name: batch[name].num_rows if name in batch else 0 for name in query.names}
            held = {**dict.fromkeys(query.names, 0), **held_back}
            made = sum(table.num_rows for table in new)
            on_batch(BatchReport(number, rows, held, made, seconds, period))
    results += (table for step in engine.finish() for table in step)
    if passed:
        _log.info("the CPU was idle for %.1f %% of the time between activations", 100 * (1 - spent / passed))
    _warn_of_late_rows(engine)
    return pa.concat_tables(results) if results else no_results(engine.core.schema)


def _batches(
    query: JoinQuery, whole: Whole, batch_rows: int | None, period_us: int | None, buffer_rows: int | None
) -> Batches:
    if period_us is None:
        if buffer_rows is not None:
            raise InvalidValue("run_local: buffer_rows bounds the buffers of a batch_period; give one")
        rows = DEFAULT_BATCH_ROWS if batch_rows is None else batch_rows
        check_rows("run_local", "batch_rows", rows)
        for start in range(0, max(batch.num_rows for batch in whole.values()), rows):
            yield {n: b.slice(start, rows) for n, b in whole.items() if start < b.num_rows}, {}
        return
    if batch_rows is not None:
        raise InvalidValue("run_local: give batch_rows or batch_period, not both")
    if buffer_rows is not None:
        check_rows("run_local", "buffer_rows", buffer_rows)
    if period_us <= 0:
        raise InvalidValue.must("batch_period", "at least 1 us", period_us, owner="run_local")
    yield from _by_period(query, whole, period_us, buffer_rows)


def _by_period(query: JoinQuery, whole: Whole, period_us: int, buffer_rows: int | None) -> Batches:
    """One batch per period in which rows arrive or wait; a row arrives at its stream's newest time so far."""
    arrived = {}
    for stream in query.streams:
        if stream.time is None:
            wrong = "run_local: batch_period needs a time column; give it time=..., or use batch_rows"
            raise InvalidValue.of(stream.name, "time", wrong)
        event_us = times.event_times(stream, whole[stream.name].column(stream.time)).us
        arrived[stream.name] = np.maximum.accumulate(event_us) if len(event_us) else event_us
    start = min((int(a[0]) for a in arrived.values() if len(a)), default=0)
    periods = {name: (a - start) // period_us for name, a in arrived.items()}
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
        yield batch, held_back
        period += 1


def _warn_of_late_rows(engine: Engine) -> None:
    for stream, counters in zip(engine.query.streams, engine.core.counters, strict=True):
        if counters.late_rows:
            late = f"{counters.late_rows} of {counters.rows_in} rows came too late and joined nothing"
            remedy = f"sort the table by {stream.time!r}, give the stream a larger lateness"
            _log.warning("stream %r: %s; %s, or use LocalJoin and late()", stream.name, late, remedy)
