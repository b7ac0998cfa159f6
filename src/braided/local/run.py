"""A whole join in one call: finite tables, cut into batches, joined like streams."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from braided.engine.engine import Engine
from braided.engine.intake import as_batch
from braided.engine.sides.storable import no_results
from braided.engine.site import Site
from braided.local.activation import BatchReport, activations
from braided.local.local_join import check_inputs
from braided.local.queues import scheduled
from braided.query.durations import Duration
from braided.query.errors import InvalidType, InvalidValue
from braided.query.join_query import JoinQuery
from braided.query.scheduling import Scheduling

_log = logging.getLogger("braided")


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
    whole = {stream.name: as_batch(stream, tables[stream.name], None) for stream in query.streams}
    engine = Engine(query, Site(repeatable=True))
    engine.core.learn({name: batch.schema for name, batch in whole.items()})
    if scheduling is None:
        batches = activations(query, whole, batch_rows, batch_period, buffer_rows)
    elif (batch_rows, batch_period, buffer_rows) == (None, None, None):
        batches = scheduled(query, whole, scheduling)
    else:
        raise InvalidValue("run_local: scheduling makes the batches; leave other options of theirs out")
    results: list[pa.Table] = []
    spent = passed = 0.0
    for number, now in enumerate(batches):
        began = time.process_time()
        new = [table for step in engine.before() for table in step]
        new += engine.step(engine.accept(now.batch, borrow=True), eager=False)
        seconds = time.process_time() - began
        results += new
        spent, passed = spent + seconds, passed + (now.period_seconds or 0.0)
        if on_batch is not None:
            rows = {name: now.batch[name].num_rows if name in now.batch else 0 for name in query.names}
            held_back = {**dict.fromkeys(query.names, 0), **now.held_back}
            found = sum(table.num_rows for table in new)
            on_batch(BatchReport(number, rows, held_back, found, seconds, now.period_seconds))
    results += (table for step in engine.finish() for table in step)
    if passed:
        _log.info("the CPU was idle for %.1f %% of the time between activations", 100 * (1 - spent / passed))
    _warn_of_late_rows(engine)
    return pa.concat_tables(results) if results else no_results(engine.core.schema)


def _warn_of_late_rows(engine: Engine) -> None:
    for stream, counters in zip(engine.query.streams, engine.core.counters, strict=True):
        if counters.late_rows:
            _log.warning(
                "stream %r: %d of %d rows came too late and joined nothing; sort the table by %r, "
                "give the stream a larger lateness, or use LocalJoin and late() to get them back",
                stream.name, counters.late_rows, counters.rows_in, stream.time,
            )  # fmt: skip
