"""What flows through a plan when only some rows may probe: a fluid model in one pass.

Every row is stored; a row that may not probe is stored all the same, but yields nothing itself. So what an
operator produces limits what can probe downstream, and an allowance no row can use is wasted:

    probes of a half-join = min(its allowance, rows that reach it);  rows behind it = probes x productivity

Between the half-joins of one operator nothing is stored: rows that may not go on there are lost.

*Sizes.* By default states have the model's sizes, as in the paper. With `settle=True` an intermediate whose
size was derived holds (what it is fed) x (how long its rows live) instead, at most its cap, so rationing
upstream makes probes of it less productive. That needs no iteration: an operator probes only states below
it, so one pass from the leaves to the root is the fixed point. How long rows stay is taken from the full
flow; which input drives changes it a little, and that is neglected.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

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
    names, reached = model.half_joins, []

    def allowed(rows: float, at: int) -> float:
        reached.append(rows)
        return rows if allowances is None else min(rows, allowances.get(names[at], 0.0))

    steps = Steps(model, settle=settle)
    probes, arrivals, sizes = steps.run(allowed)
    return Flow(
        frozen(dict(zip(names, probes, strict=True))),
        frozen({h: rows - n for h, rows, n in zip(names, reached, probes, strict=True)}),
        frozen({node: arrivals[i] for node, i in steps.number.items()}),
        frozen({node: sizes[steps.number[node]] for node in model.sizes}),
        arrivals[steps.number[model.plan]],
    )


class Steps:
    """The pass over flat lists, its look-ups done once; rows are numbers, or arrays of candidates.

    Nodes are numbered as in `PlanModel.orders`, the root last, and half-joins as in `PlanModel.half_joins`.
    """

    def __init__(self, model: PlanModel, *, settle: bool = False) -> None:
        self.number = number = {node: i for i, node in enumerate((*model.orders, model.plan))}
        self._rates = {number[stream]: rate for stream, rate in model.rates.items()}
        self._sizes = [model.sizes.get(node, 0.0) for node in number]
        self._operators = []
        for operator in model.operators:
            hops = {c: [(p, model.selectivities[HalfJoin(c, p)]) for p in model.orders[c]] for c in operator}
            inputs = [(number[c], [(number[p], share) for p, share in hops[c]]) for c in operator]
            lifetime = model.lifetimes[operator] if settle and operator in model.settles else math.inf
            self._operators.append((number[operator], inputs, lifetime, model.caps.get(operator)))

    def run(self, gate: Callable[[Any, int], Any]) -> tuple[list[Any], dict[int, Any], list[Any]]:
        """Return the rows that probe each half-join, and for each node what comes into it and its size.

        `gate` says how many of the rows that reach a half-join may probe it.
        """
        probes: list[Any] = []
        flows, sizes = dict(self._rates), [*self._sizes]
        for operator, inputs, lifetime, cap in self._operators:
            produced = 0.0
            for child, hops in inputs:
                rows = flows[child]
                for probed, selectivity in hops:
                    probes.append(gate(rows, len(probes)))
                    rows = probes[-1] * (selectivity * sizes[probed])
                produced = produced + rows
            flows[operator] = produced
            if math.isfinite(lifetime):
                held = produced * lifetime
                sizes[operator] = held if cap is None else _at_most(held, cap)
        return probes, flows, sizes


def _at_most(rows: Any, cap: float) -> Any:
    return np.minimum(rows, cap) if isinstance(rows, np.ndarray) else min(rows, cap)
