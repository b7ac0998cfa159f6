"""A whole join in one call: finite tables, cut into batches, joined as a stream would be."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from braided.local.local_join import check_rows
from braided.query.durations import Duration, to_us
from braided.query.errors import InvalidType, InvalidValue, UnknownName
from braided.query.join_query import JoinQuery
from braided.runtime.engine import Engine
from braided.runtime.intake import as_batch
from braided.state import times
from braided.state.storable import no_results

_log = logging.getLogger("braided")
DEFAULT_BATCH_ROWS = 50_000


def run_local(
    query: JoinQuery,
    tables: Mapping[str, Any],
    *,
    batch_rows: int | None = None,
    batch_period: Duration | None = None,
) -> pa.Table:
    """Join tables as streams whose rows arrive in table order; all results as one table.

    A batch is `batch_rows` rows of each stream (50,000 if neither is given), or the rows of one
    `batch_period` of event time. Rows that come later than their stream's `lateness` allows are set
    aside; how many is logged as a warning.
    """
    whole = _whole(query, tables)
    engine = Engine(query)
    engine.learn({name: batch.schema for name, batch in whole.items()})
    found: list[pa.Table] = []
    for batch in _batches(query, whole, batch_rows, batch_period):
        found += engine.step(engine.accept(batch, borrow=True), eager=False)
    found += engine.finish()
    _warn_of_late_rows(engine)
    return pa.concat_tables(found) if found else no_results(engine.schema)


def _whole(query: JoinQuery, tables: Mapping[str, Any]) -> dict[str, pa.RecordBatch]:
    if not isinstance(query, JoinQuery):
        raise InvalidType(f"run_local needs a bd.JoinQuery; got {query!r}")
    if not isinstance(tables, Mapping):
        raise InvalidType(f"run_local needs a mapping of stream names to tables; got {tables!r}")
    for stream in query.streams:
        if stream.name not in tables:
            raise UnknownName(f"run_local: no table for stream {stream.name!r}; give one per stream")
    by_name = {s.name: s for s in query.streams}
    unknown = [name for name in tables if name not in by_name]
    if unknown:
        raise UnknownName(
            f"run_local: the query has no stream {unknown[0]!r}; it has {', '.join(query.names)}"
        )
    return {name: as_batch(by_name[name], tables[name], None) for name in query.names}


def _batches(
    query: JoinQuery,
    whole: Mapping[str, pa.RecordBatch],
    batch_rows: int | None,
    batch_period: Duration | None,
) -> Iterator[dict[str, pa.RecordBatch]]:
    if batch_period is not None:
        if batch_rows is not None:
            raise InvalidValue("run_local: give batch_rows or batch_period, not both")
        return _by_period(query, whole, to_us(batch_period, owner="batch_period"))
    rows = DEFAULT_BATCH_ROWS if batch_rows is None else batch_rows
    check_rows("batch_rows", rows)
    return _by_rows(whole, rows)


def _by_rows(whole: Mapping[str, pa.RecordBatch], rows: int) -> Iterator[dict[str, pa.RecordBatch]]:
    longest = max(batch.num_rows for batch in whole.values())
    for start in range(0, longest, rows):
        yield {n: b.slice(start, rows) for n, b in whole.items() if start < b.num_rows}


def _by_period(
    query: JoinQuery, whole: Mapping[str, pa.RecordBatch], period_us: int
) -> Iterator[dict[str, pa.RecordBatch]]:
    """A row arrives when its stream's newest time so far comes; a batch is a period of arrivals."""
    if period_us <= 0:
        raise InvalidValue("run_local: batch_period must be longer than zero")
    arrived = {}
    for stream in query.streams:
        if stream.time is None:
            raise InvalidValue(f"run_local: batch_period needs a time column in stream {stream.name!r}")
        event_us = times.event_times(stream, whole[stream.name].column(stream.time)).us
        arrived[stream.name] = np.maximum.accumulate(event_us) if len(event_us) else event_us
    started = [a[0] for a in arrived.values() if len(a)]
    if not started:
        return
    ends = {n: (a - min(started)) // period_us for n, a in arrived.items()}
    for period in np.unique(np.concatenate(list(ends.values()))):
        batch = {}
        for name, periods in ends.items():
            low, high = np.searchsorted(periods, [period, period + 1])
            if high > low:
                batch[name] = whole[name].slice(low, high - low)
        yield batch


def _warn_of_late_rows(engine: Engine) -> None:
    for stream, counters in zip(engine.query.streams, engine.counters, strict=True):
        if counters.late_rows:
            _log.warning(
                "stream %r: %d of %d rows came too late and joined nothing; sort the table by %r, "
                "give the stream a larger lateness, or use LocalJoin and late() to get them back",
                stream.name, counters.late_rows, counters.rows_in, stream.time,
            )  # fmt: skip
