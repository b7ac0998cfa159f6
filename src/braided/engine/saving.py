"""An engine's state, saved and loaded between two batches. Going on anywhere changes no result.

Saved are rows, counters, newest times, and what operators and features have learned. Hashes and indexes are
computed again. The query's meaning must be the same on return; its tuning and budgets may differ, and so may
the plan: intermediate rows, which are saved too, are then made again from the streams' rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from braided.engine.engine import Engine
from braided.engine.operators.rebuilding import rebuild
from braided.engine.sides.side import BOTTOMLESS_US, Reason, Rows, SideState
from braided.engine.sides.storable import conform
from braided.engine.state import (
    EngineState,
    Held,
    Part,
    Table,
    linked_rows,
    rows_of_intermediate,
    rows_of_stream,
)
from braided.engine.streams import Counters
from braided.query.errors import BraidedError, InvalidValue
from braided.query.values import plain


def save(engine: Engine, arrivals: Sequence[Any] = ()) -> EngineState:
    """The engine's state; `arrivals` are those of the latest batch, for writers that add what is new."""
    state = EngineState(_numbers(engine))
    for i, stream in enumerate(engine.core.streams):
        if stream is not None:
            name = stream.layout.stream.name
            arrival = arrivals[i] if arrivals else None
            state.parts[rows_of_stream(name)] = Held(
                stream.side,
                entered=[arrival.rows] if arrival is not None else [],
                mark=engine.tree.marks.get(name),
                oldest_us=engine.core.oldest_us(i),
            )
            state.parts[f"stream/{name}/schema"] = Table(stream.layout.schema, [])
            if engine.core.late[i]:
                state.parts[f"stream/{name}/late"] = Table(stream.layout.schema, engine.core.late[i])
    retained = engine.core.retained()
    for source, side in engine.tree.intermediates:
        mark = None if source.node in engine.tree.rebuilt else engine.tree.marks.get(source.node)
        state.parts[rows_of_intermediate(source.name)] = Held(
            side,
            mark=mark,
            oldest_us=BOTTOMLESS_US if source.node in retained else engine.core.watermark.us,
        )
    for feature in engine.core.features:
        feature.save(state)
    return state


def load(engine: Engine, state: EngineState, *, rows: bool = True) -> None:
    """Bring a new engine of the same query to a saved state; without `rows` its sides hold them already."""
    try:
        _load(engine, state, rows=rows)
    except (KeyError, IndexError, TypeError, AttributeError, AssertionError) as wrong:
        raise InvalidValue(f"this saved state is damaged: {type(wrong).__name__}: {wrong}") from wrong
    except ValueError as wrong:
        if isinstance(wrong, BraidedError):
            raise
        raise InvalidValue(f"this saved state is damaged: {wrong}") from wrong


def same_plan(engine: Engine, state: EngineState) -> bool:
    """Whether the state was saved with the plan that is run now."""
    return bool(state.numbers["plan"] == plain(engine.query.tree))


def _load(engine: Engine, state: EngineState, *, rows: bool) -> None:
    numbers, names = state.numbers, engine.query.names
    _check_numbers(numbers, len(names))
    engine.core.keep_features(state)
    schemas = {
        n: state.part(f"stream/{n}/schema").schema for n in names if f"stream/{n}/schema" in state.parts
    }
    engine.core.learn(schemas)
    for i, name in enumerate(names):
        engine.core.counters[i] = Counters(**numbers["streams"][name]["counters"])
        if (late := state.parts.get(f"stream/{name}/late")) is not None:
            engine.core.late[i] = list(late.batches)
    engine.core.floors_us = list(numbers["floors_us"])
    engine.core.results, engine.core.batches = numbers["results"], numbers["batches"]
    newest_us = tuple(numbers["streams"][name]["newest_us"] for name in names)
    engine.core.watermark = engine.core.watermark.load(newest_us, numbers["watermark"])
    same = same_plan(engine, state)
    if rows:
        _put_rows(engine, state, same=same)
    if same:
        engine.tree.load(numbers["learned"])
    for feature in engine.core.features:
        feature.load(state, same_plan=same)


def _numbers(engine: Engine) -> dict[str, Any]:
    return {
        "streams": {
            name: {
                "counters": {n: c for n, c in dataclasses.asdict(engine.core.counters[i]).items() if c},
                "newest_us": engine.core.watermark.newest_us[i],
            }
            for i, name in enumerate(engine.query.names)
        },
        "floors_us": engine.core.floors_us,
        "plan": plain(engine.query.tree),
        "learned": engine.tree.save(),
        "results": engine.core.results,
        "batches": engine.core.batches,
        "watermark": engine.core.watermark.save(),
    }


def _check_numbers(numbers: dict[str, Any], streams: int) -> None:
    """Raise for numbers that are of another type: what they break would come to light much later."""
    by_stream = numbers["streams"].values()
    times = [*numbers["floors_us"], *(s["newest_us"] for s in by_stream)]
    counts = [numbers["results"], numbers["batches"], *(n for s in by_stream for n in s["counters"].values())]
    whole = all(type(n) is int for n in [*counts, *(t for t in times if t is not None)])
    ended = numbers["watermark"]["ended"]
    if not (whole and isinstance(ended, bool) and len(numbers["floors_us"]) == streams):
        raise InvalidValue("this saved state is damaged: some of its numbers are of another type")


def _put_rows(engine: Engine, state: EngineState, *, same: bool) -> None:
    for i, stream in enumerate(engine.core.streams):
        if stream is None:
            continue
        part, stored = state.part(rows_of_stream(stream.layout.stream.name)), stream.layout.stored_schema
        batches = [linked_rows(batch) for batch in part.batches]
        pieces = [stream.intake.stored(conform(batch, stored), linked) for batch, linked in batches]
        engine.core.put(i, _not_gone(pieces, part, stream.side))
        _mark_gone(engine, stream.side, part)
    if not same:
        rebuild(engine.tree, engine.core.floors_us)
        return
    for source, side in engine.tree.intermediates:
        part = state.part(rows_of_intermediate(source.name))
        pieces = [engine.tree.entering(source, conform(batch, source.schema)) for batch in part.batches]
        for rows in _not_gone(pieces, part, side):
            side.append(rows)
        _mark_gone(engine, side, part)


def _not_gone(pieces: Sequence[Rows], part: Part, side: SideState) -> Sequence[Rows]:
    """A side that knows no rows that are gone gets only the others."""
    if part.gone is None or side.purges:
        return pieces
    ends = np.cumsum([len(rows) for rows in pieces])[:-1]
    return [r.pick(~gone) for r, gone in zip(pieces, np.split(part.gone, ends), strict=True)]


def _mark_gone(engine: Engine, side: SideState, part: Part) -> None:
    """Rows that went to disk must not be found here, too; those that were purged cannot match."""
    if part.gone is not None and side.purges:
        reason = Reason.PURGE if engine.query.memory is None else Reason.FLUSH
        side.forget(np.flatnonzero(part.gone) + side.first, reason)
        side.forgotten[reason] = 0  # it has only been loaded
    side.renumbered = 0
