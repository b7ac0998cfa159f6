"""What an engine shows of itself: numbers as an immutable `Statistics`, and the latest decisions in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from braided.engine.features import Feature, Numbers
from braided.engine.operators.operator import Operator
from braided.engine.operators.results import Results
from braided.policies.statistics import (
    HalfJoinStatistics,
    IntermediateStatistics,
    Statistics,
    StreamStatistics,
)

if TYPE_CHECKING:
    from braided.engine.engine import Engine


def statistics(engine: Engine) -> Statistics:
    """An immutable picture of now."""
    counted = Numbers(
        _of_join(engine),
        [_of_stream(engine, i) for i in range(len(engine.query.streams))],
        {name: dataclasses.asdict(s) for name, s in engine.tree.statistics().items()},
    )
    for describe in engine.core.features.of(Feature.describe):
        describe(counted)
    return Statistics(
        **counted.join,
        streams={n: StreamStatistics(**s) for n, s in zip(engine.query.names, counted.streams, strict=True)},
        intermediates={n: IntermediateStatistics(**s) for n, s in counted.intermediates.items()},
        half_joins={
            (a, b): _half_join(operator, i, j)
            for operator in engine.tree.operators
            for i, a in enumerate(operator.names)
            for j, b in enumerate(operator.names)
            if i != j
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
    for of_feature in engine.core.features.of(Feature.reasons):
        yield from of_feature()


def _of_join(engine: Engine) -> dict[str, Any]:
    operators = engine.tree.operators
    learned = [operator.join.learned for operator in operators]
    plans = [(o.names, decided.plan) for o in operators for decided in o.join.learned.turns]
    return {
        "results": engine.core.results,
        "batches": engine.core.batches,
        "watermark_us": engine.core.watermark.event_us,
        "driver_streams": tuple(names[p.driver] for names, p in plans),
        "probe_orders": {names[p.driver]: tuple(names[s] for s in p.order) for names, p in plans},
        "driver_switches": sum(known.switches for known in learned),
        "profile_probes": sum(known.profile_probes for known in learned),
        "driven_rows": sum(known.driven_rows for known in learned),
    }


def _of_stream(engine: Engine, i: int) -> dict[str, Any]:
    name, side = engine.query.names[i], engine.core.side(i)
    newest_us = engine.core.watermark.newest_us[i]
    if not engine.core.joins(i):
        return {"newest_us": newest_us}
    operator = engine.tree.above(name)
    learned, place = operator.join.learned, operator.node.index(name)
    return {
        **dataclasses.asdict(engine.core.counters[i]),
        "live_rows": side.live_rows if side else 0,
        "live_bytes": side.nbytes if side else 0,
        "newest_us": newest_us,
        "staleness_us": _staleness_us(engine, name),
        "index": "scan" if learned.choices[place].scanned else "hash",
        "index_changes": int(learned.index_changes[place]),
    }


def _staleness_us(engine: Engine, stream: str) -> int | None:
    """How old the latest batch's results were, by its clock; None if there were none, or no overload."""
    builder = engine.core.builder
    oldest = builder.oldest_us.get(stream) if isinstance(builder, Results) else None
    return None if oldest is None else engine.core.watermark.clock_us - oldest


def _half_join(operator: Operator, i: int, j: int) -> HalfJoinStatistics:
    allowance = None
    learned = operator.join.learned
    for decided in learned.turns:
        plan = decided.plan
        if plan.driver == i:
            allowance = None if plan.allowed is None else round(plan.allowed[plan.order.index(j)])
    probes, same_key, matches, *_ = learned.tallies[:, i, j].tolist()
    return HalfJoinStatistics(probes, matches, allowance, same_key)
