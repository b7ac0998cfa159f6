"""What an engine shows of itself: numbers as an immutable `Statistics`, and the latest decisions in words."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from braided.engine.features import Feature, Numbers
from braided.engine.operators.operator import Operator
from braided.engine.sides.side import Reason, SideState
from braided.policies.statistics import (
    HalfJoinStatistics,
    IntermediateStatistics,
    Statistics,
    StreamStatistics,
)

if TYPE_CHECKING:
    from braided.engine.engine import Engine
    from braided.query.plan_tree import Plan


def statistics(engine: Engine) -> Statistics:
    """An immutable picture of now."""
    counted = _counted(engine)
    return Statistics(
        **counted.join,
        streams={n: StreamStatistics(**s) for n, s in zip(engine.query.names, counted.streams, strict=True)},
        intermediates={n: IntermediateStatistics(**s) for n, s in counted.intermediates.items()},
        half_joins={
            (a, b): _half_join(operator, i, j)
            for operator in engine.tree.operators
            for (i, a), (j, b) in itertools.permutations(enumerate(operator.names), 2)
        },
    )


def reasons(engine: Engine) -> Iterator[str]:
    """The latest batch's decisions: driver streams in their order, how they probed, and what features did."""
    for operator in engine.tree.operators:
        names, policies = operator.names, operator.join.policies
        for decided in operator.join.learned.turns:
            driver, turn, order = decided.plan.driver, decided.turn, decided.plan.order
            yield f"{names[driver]} ({policies.driver.reason(turn, driver)})"
            fan_outs = zip(order, policies.probe_order.fan_outs(driver, turn, order), strict=True)
            steps = [
                names[p] if f is None else f"{names[p]} (about {f:.3g} matches a row)" for p, f in fan_outs
            ]
            yield f"  probes {', then '.join(steps)}"
    yield from _counted(engine).reasons


def _counted(engine: Engine) -> Numbers:
    """Collect what the engine counts itself, and what its features add."""
    counted = Numbers(
        _of_join(engine),
        [_of_stream(engine, i, name) for i, name in enumerate(engine.query.names)],
        {
            source.name: _of_intermediate(engine, source.node, side)
            for source, side in engine.tree.intermediates
        },
    )
    for describe in engine.core.features.of(Feature.describe):
        describe(counted)
    return counted


def _of_join(engine: Engine) -> dict[str, Any]:
    core, operators = engine.core, engine.tree.operators
    learned = [operator.join.learned for operator in operators]
    plans = [(o.names, decided.plan) for o in operators for decided in o.join.learned.turns]
    return {
        "results": core.results,
        "batches": core.batches,
        "watermark_us": core.watermark.event_us,
        "driver_streams": tuple(names[p.driver] for names, p in plans),
        "probe_orders": {names[p.driver]: tuple(names[s] for s in p.order) for names, p in plans},
        "driver_switches": sum(known.switches for known in learned),
        "profile_probes": sum(known.profile_probes for known in learned),
        "driven_rows": sum(known.driven_rows for known in learned),
    }


def _of_stream(engine: Engine, i: int, name: str) -> dict[str, Any]:
    core, side = engine.core, engine.tree.sides.get(name)
    newest_us = core.watermark.newest_us[i]
    if not core.joins(i):
        return {"newest_us": newest_us}
    operator = engine.tree.above(name)
    learned, place = operator.join.learned, operator.node.index(name)
    oldest_us = core.builder.oldest_us.get(name) if core.builder else None  # only with overload
    return {
        **vars(core.counters[i]),
        "live_rows": side.live_rows if side else 0,
        "live_bytes": side.nbytes if side else 0,
        "newest_us": newest_us,
        "idle": engine.core.watermark.idle[i],
        "staleness_us": None if oldest_us is None else core.watermark.clock_us - oldest_us,
        "staleness_wall_us": None if oldest_us is None else core.read_us - oldest_us,
        "index": "scan" if learned.choices[place].scanned else "hash",
        "index_changes": int(learned.index_changes[place]),
    }


def _of_intermediate(engine: Engine, node: Plan, side: SideState) -> dict[str, Any]:
    expired_rows = side.forgotten[Reason.EXPIRE] + side.forgotten[Reason.SHED]
    return {
        "live_rows": side.live_rows,
        "live_bytes": side.nbytes,
        "expired_rows": expired_rows,
        "entered_rows": engine.tree.entered.get(node, 0),
    }


def _half_join(operator: Operator, i: int, j: int) -> HalfJoinStatistics:
    learned = operator.join.learned
    plan = next((decided.plan for decided in learned.turns if decided.plan.driver == i), None)
    allowed = plan.allowed[plan.order.index(j)] if plan and plan.allowed else None
    probes, same_key, matches, *_ = learned.tallies[:, i, j].tolist()
    return HalfJoinStatistics(probes, matches, None if allowed is None else round(allowed), same_key)
