"""An engine's state, saved and loaded between two batches. Going on anywhere changes no result.

Saved are rows, counters, newest times, and what operators and features have learned. Hashes and indexes are
computed again. The query's meaning must be the same on return; its tuning and budgets may differ, and so may
the plan: intermediate rows, which are saved too, are then made again from the streams' rows.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from braided.engine.engine import Engine
from braided.engine.features import outlasting
from braided.engine.intake import Counters
from braided.engine.sides.side import BOTTOMLESS_US, Reason, Rows, SideState, concat_rows
from braided.engine.sides.storable import conform
from braided.engine.state import EngineState, Held, Part, Table, rows_of
from braided.query.errors import InvalidValue
from braided.query.values import plain


def save(engine: Engine, arrivals: Sequence[Any] = ()) -> EngineState:
    """The engine's state; `arrivals` are those of the latest batch, for writers that add what is new."""
    core, tree, state = engine.core, engine.tree, EngineState(_numbers(engine))
    for i, stream in enumerate(core.streams):
        if stream is not None:
            name, schema = stream.layout.stream.name, stream.layout.schema
            arrival = arrivals[i] if arrivals else None
            state.parts[rows_of(name)] = Held(
                tree.sides[name],
                entered=[arrival.rows] if arrival is not None else [],
                mark=tree.marks.get(name),
                oldest_us=core.oldest_us(i),
            )
            state.parts[f"stream/{name}/schema"] = Table(schema, [])
            if core.late[i]:
                state.parts[f"stream/{name}/late"] = Table(schema, core.late[i])
    retained = core.retained()
    for source, side in tree.intermediates:
        mark = None if source.node in tree.rebuilt else tree.marks.get(source.node)
        oldest_us = BOTTOMLESS_US if source.node in retained else core.settled_us
        state.parts[rows_of(source.node)] = Held(side, mark=mark, oldest_us=oldest_us)
    for feature in core.features:
        feature.save(state)
    return state


def remembered(engine: Engine) -> EngineState:
    """The engine's state as it is now, to go back to from later batches; stored rows are not copied."""
    state = save(engine)
    parts = {name: Table(p.schema, list(p.batches), p.gone) for name, p in state.parts.items()}
    return EngineState(copy.deepcopy(state.numbers), {**parts})


def load(engine: Engine, state: EngineState, *, rows: bool = True) -> None:
    """Bring a new engine of the same query to a saved state; without `rows` its sides hold them already."""
    try:
        _load(engine, state, rows=rows)
    except InvalidValue:
        raise
    except (LookupError, TypeError, AttributeError, AssertionError, ValueError) as wrong:
        raise InvalidValue(f"this saved state is damaged: {type(wrong).__name__}: {wrong}") from wrong


def _load(engine: Engine, state: EngineState, *, rows: bool) -> None:
    core, numbers, names = engine.core, state.numbers, engine.query.names
    _check_numbers(numbers, len(names))
    core.features = outlasting(core, core.features, state)
    core.learn({n: state.parts[p].schema for n in names if (p := f"stream/{n}/schema") in state.parts})
    for i, name in enumerate(names):
        core.counters[i] = Counters(**numbers["streams"][name]["counters"])
        if (late := state.parts.get(f"stream/{name}/late")) is not None:
            core.late[i] = list(late.batches)
    core.floors_us = list(numbers["floors_us"])
    core.results, core.batches = numbers["results"], numbers["batches"]
    newest_us = tuple(numbers["streams"][name]["newest_us"] for name in names)
    core.watermark = core.watermark.load(newest_us, numbers["watermark"])
    same = bool(numbers["plan"] == plain(engine.query.tree))
    if rows:
        _put_rows(engine, state, same=same)
    if same:
        for operator, learned in zip(engine.tree.operators, numbers["learned"], strict=True):
            operator.join.load(learned)
    for feature in core.features:
        feature.load(state, same_plan=same)


def _numbers(engine: Engine) -> dict[str, Any]:
    core = engine.core
    streams = zip(engine.query.names, core.counters, core.watermark.newest_us, strict=True)
    return {
        "streams": {
            name: {"counters": {n: c for n, c in vars(counters).items() if c}, "newest_us": newest_us}
            for name, counters, newest_us in streams
        },
        "floors_us": core.floors_us,
        "plan": plain(engine.query.tree),
        "learned": [operator.join.learned.save() for operator in engine.tree.operators],
        "results": core.results,
        "batches": core.batches,
        "watermark": core.watermark.save(),
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
    engine.tree.remade += 1
    for stream in engine.core.streams:
        if stream is None:
            continue
        name = stream.layout.stream.name
        part, side = state.part(rows_of(name)), engine.tree.sides[name]
        pieces = stream.stored(part.batches)
        _put(engine, _not_gone(pieces, part, side), part, side)
    if not same:
        engine.tree.rebuild(engine.core.floors_us)
        return
    for source, side in engine.tree.intermediates:
        part, above = state.part(rows_of(source.node)), engine.tree.above(source.node)
        pieces = [above.entering(source, conform(batch, source.schema)) for batch in part.batches]
        _put(engine, _not_gone(pieces, part, side), part, side)


def _not_gone(pieces: Sequence[Rows], part: Part, side: SideState) -> Sequence[Rows]:
    """A side that knows no rows that are gone gets only the others."""
    if part.gone is None or side.purges:
        return pieces
    ends = np.cumsum([len(rows) for rows in pieces])[:-1]
    return [r.pick(~gone) for r, gone in zip(pieces, np.split(part.gone, ends), strict=True)]


def _put(engine: Engine, pieces: Sequence[Rows], part: Part, side: SideState) -> None:
    """Store rows; those that went to disk must not be found here, too, and purged ones cannot match.

    Where rows are counted, rows with the same time must come together.
    """
    for rows in [concat_rows(pieces)] if pieces and side.window is not None else pieces:
        side.append(rows)
    if part.gone is not None and side.purges:
        reason = Reason.PURGE if engine.query.memory is None else Reason.FLUSH
        side.forget(np.flatnonzero(part.gone) + side.first, reason)
        side.forgotten[reason] = 0  # it has only been loaded
    side.renumbered = 0
