"""What flows through a plan when only some rows may probe: a fluid model in one pass.

Every row is stored; a row that may not probe is stored all the same, but yields nothing itself. So what an
operator produces limits what can probe downstream, and an allowance no row can use is wasted:

    probes of a half-join = min(its allowance, rows that reach it);  rows behind it = probes x productivity

Between the half-joins of one operator nothing is stored: rows that may not go on there are lost.

*Sizes.* By default states have the model's sizes, as in the paper. With `settle=True` an intermediate whose
size was derived holds (what it is fed) x (how long its rows stay) instead, so rationing upstream makes
probes of it less productive. That needs no iteration: an operator probes only states below it, so one pass
from the leaves to the root is the fixed point. How long rows stay is taken from the full flow; which input
drives changes it a little, and that is neglected.

>>> from braided.policies.plan_model import plan_model
>>> model = plan_model((("a", "b"), "c"), {"a": 500, "b": 700, "c": 300},
...     sizes={"a": 5000, "b": 500, "c": 1000, ("a", "b"): 200},
...     selectivity={("a", "b"): 0.001, (("a", "b"), "c"): 0.005})
>>> flow = predict(model, dict.fromkeys(model.half_joins, 75.0))  # EqualHJ of Table 4
>>> flow.arrivals["a", "b"], flow.output
(412.5, 450.0)
>>> flow.skipped[model.half_joins[2]]  # the mismatch of producer and consumer
337.5
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from braided.policies.plan_model import PlanModel, frozen
from braided.query.plan_tree import HalfJoin, Plan


@dataclass(frozen=True)
class Flow:
    """Rows per unit of time, and rows in states.

    `arrivals[node]` are rows that come into a stream's or an intermediate's state (its refill rate); the
    root's are the results. `skipped` are rows without allowance.
    """

    probes: Mapping[HalfJoin, float]
    skipped: Mapping[HalfJoin, float]
    arrivals: Mapping[Plan, float]
    sizes: Mapping[Plan, float]
    output: float

    @property
    def spent(self) -> float:
        """Probes in all."""
        return math.fsum(self.probes.values())


def predict(
    model: PlanModel, allowances: Mapping[HalfJoin, float] | None = None, *, settle: bool = False
) -> Flow:
    """The flow under these allowances per unit of time; None means that every row may probe.

    A half-join that is not named may not be probed at all.
    """
    arrivals: dict[Plan, float] = dict(model.rates.items())
    sizes = dict(model.sizes)
    probes: dict[HalfJoin, float] = {}
    skipped: dict[HalfJoin, float] = {}

    def produced(direction: tuple[HalfJoin, ...]) -> float:
        rows = arrivals[direction[0].driver]
        for half_join in direction:
            probes[half_join] = rows if allowances is None else min(rows, allowances.get(half_join, 0.0))
            skipped[half_join] = rows - probes[half_join]
            rows = probes[half_join] * model.selectivities[half_join] * sizes[half_join.probed]
        return rows

    for operator in model.operators:
        arrivals[operator] = math.fsum(map(produced, model.directions(operator)))
        if settle and operator in model.settles and math.isfinite(model.lifetimes[operator]):
            sizes[operator] = arrivals[operator] * model.lifetimes[operator]
    return Flow(frozen(probes), frozen(skipped), frozen(arrivals), frozen(sizes), arrivals[model.plan])
