"""A push that is read in turns: several steps of the engine that are one batch for its user.

All rows are judged at the watermark of the push's start, which moves with its last turn. So what is late, and
what windows let in, is as if the push were one batch; only promises take effect from turn to turn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from braided.engine.engine import Engine
from braided.engine.features import Arrivals
from braided.engine.intake import Arrival
from braided.engine.watermark import Clock
from braided.local.queues import check_scheduling, scheduled
from braided.query.errors import InvalidValue
from braided.query.join_query import JoinQuery
from braided.query.scheduling import Scheduling


def check_turns(query: JoinQuery, scheduling: object) -> None:
    """Raise unless pushes of a query can be read in turns, and be undone as a whole."""
    check_scheduling("LocalJoin", scheduling, query)
    for option in ("memory", "overload"):
        if getattr(query, option) is not None:
            wrong = f"scheduling reads a push in turns, and {option}= counts each of them as a batch"
            raise InvalidValue(f"LocalJoin: {wrong}; leave one of both out, or push smaller batches")


def in_turns(
    engine: Engine,
    batch: Mapping[str, pa.RecordBatch],
    scheduling: Scheduling,
    clock: Clock | None,
    **how: Any,
) -> Iterator[pa.Table]:
    """The results of a push, turn by turn; `how` is for the engine's steps."""
    if not any(rows.num_rows for rows in batch.values()):
        yield from engine.step(engine.accept(batch, clock=clock), **how)
        return
    engine.core.learn({name: rows.schema for name, rows in batch.items()})
    held: list[Arrival | None] = [None] * len(engine.core.streams)
    for rows, last in scheduled(engine, batch, scheduling):
        arrivals = engine.accept(rows, clock=clock if last else None)
        held = [_both(*pair) for pair in zip(held, arrivals, strict=True)]
        yield from engine.step(_at_end(engine, held, arrivals) if last else _timeless(arrivals), **how)


def _both(held: Arrival | None, now: Arrival | None) -> Arrival | None:
    """The newest time of two parts of a stream's rows."""
    if held is None or now is None:
        return held or now
    times = [us for us in (held.newest_us, now.newest_us) if us is not None]
    return dataclasses.replace(now, newest_us=max(times, default=None), came=held.came or now.came)


def _timeless(arrivals: Arrivals) -> Arrivals:
    return [a and dataclasses.replace(a, newest_us=None, came=False) for a in arrivals]


def _at_end(engine: Engine, held: Arrivals, arrivals: Arrivals) -> Arrivals:
    """The last turn, with what all turns say of times."""
    streams = zip(held, arrivals, engine.core.streams, strict=True)
    return [
        dataclasses.replace(a or intake.empty(), newest_us=seen.newest_us, came=seen.came)
        if seen is not None and intake is not None
        else a
        for seen, a, intake in streams
    ]
