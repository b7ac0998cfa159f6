"""What a plan's half-joins cost per unit of time: probe, insert and purge (jaqpot, Appendix A, Eq. 13-15).

    Cost(a probes S_B) = lambda_a x (probe(S_B) + insert(S_A) + purge(S_A))

The paper charges the upkeep of a state to the half-join of the rows that *enter* it (`upkeep="own"`);
window-join, from which it takes the model, charges it to the half-join that *probes* it (`upkeep="probed"`,
its Eq. 1). Single half-joins differ, an operator's total does not. In a wide operator upkeep is charged
once: to the first half-join of the rows that enter, or to the first one that probes the state.

>>> from braided.policies.plan_model import plan_model
>>> model = plan_model(("a", "b"), {"a": 500, "b": 700}, sizes={"a": 5000, "b": 500},
...     selectivity={("a", "b"): 0.001})
>>> work = {"a": Work(probe=5.0), "b": Work(probe=2.0)}
>>> {str(h): c for h, c in half_join_costs(model, work).items()}
{'a>b': 2000.0, 'b>a': 4900.0}
>>> {str(h): c for h, c in half_join_costs(model, work, upkeep="probed").items()}
{'a>b': 2400.0, 'b>a': 4500.0}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from braided.policies.flow import Flow, predict
from braided.policies.plan_model import PlanModel
from braided.query.plan_tree import HalfJoin, Plan

Upkeep = Literal["own", "probed"]


@dataclass(frozen=True)
class Work:
    """What one row costs at a state: to look up its matches, to be stored, to be removed."""

    probe: float
    insert: float = 1.0
    purge: float = 1.0


def half_join_costs(
    model: PlanModel, work: Mapping[Plan, Work], *, flow: Flow | None = None, upkeep: Upkeep = "own"
) -> dict[HalfJoin, float]:
    """The cost of each half-join, at the full flow unless another is given (Eq. 14, 15)."""
    flow = flow or predict(model)
    costs = {h: flow.probes[h] * work[h.probed].probe for h in model.half_joins}
    for state in model.orders:
        payer = _payer(model, state, upkeep)
        costs[payer] += flow.arrivals[state] * (work[state].insert + work[state].purge)
    return costs


def operator_cost(costs: Mapping[HalfJoin, float], operator: tuple[Plan, ...]) -> float:
    """The sum over an operator's half-joins (Eq. 13)."""
    return math.fsum(cost for half_join, cost in costs.items() if half_join.driver in operator)


def _payer(model: PlanModel, state: Plan, upkeep: Upkeep) -> HalfJoin:
    if upkeep == "own":
        return HalfJoin(state, model.orders[state][0])
    return next(h for h in model.half_joins if h.probed == state)
