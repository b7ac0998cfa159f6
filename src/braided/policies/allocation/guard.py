"""This batch's allowances: an allocation was made for averages, but this batch's rows are known.

Allowances are moved along one line, from nothing to everything, until the predicted probes meet the budget:

1. rows of streams that everything was allowed to, by a common share (only if even they cost too much);
2. half-joins that were rationed, all their allowances by one factor;
3. half-joins that were closed, by a common share of their rows (only if budget is left).

What keeps results fresh (`Allocation.cover`) is allowed all along that line, if the budget pays for it.
Where the allocation held no row back there is no limit: what comes from limited rows is let through,
so that no probe is lost half-way. If the budget pays for all, nothing is limited at all.

The cost rises along the line, so the place is found by halving a bracket, with a few passes over flat lists
(about 10 us each for five streams).

>>> from braided.policies.allocation.greedy_path import allocate
>>> from braided.policies.allocation.question import Question
>>> from braided.policies.plan_model import plan_model
>>> def model(rate):
...     return plan_model((("a", "b"), "c"), {"a": 500, "b": rate, "c": 300},
...         sizes={"a": 5000, "b": 500, "c": 1000, ("a", "b"): 200},
...         selectivity={("a", "b"): 0.001, (("a", "b"), "c"): 0.005})
>>> answer = allocate(Question(model(700), 300))  # 50 rows of b, and the 250 they become
>>> {str(h): round(n, 1) for h, n in guard(model(40), answer, 300).items()}  # 40 of b: 60 are left
{'a>b': 27.1, 'b>a': inf, '(a b)>c': inf, 'c>(a b)': 16.3}
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from braided.policies.allocation.question import Allocation
from braided.policies.flow import Steps
from braided.policies.plan_model import PlanModel
from braided.query.plan_tree import HalfJoin

Limits: TypeAlias = list[float]
_PASSES = 40
_FURTHER = 4.0
_SHORT = 0.98  # of the budget: near enough, from below
_ROUNDING = 1e-9


def guard(model: PlanModel, allocation: Allocation, budget: float) -> dict[HalfJoin, float]:
    """How many rows may probe each half-join in a batch of these rates; infinite: all."""
    names, steps = model.half_joins, Steps(model)

    def probes(limits: Limits) -> Limits:
        return steps.run(lambda rows, at: min(rows, limits[at]))[0]

    rows = probes([math.inf] * len(names))
    if math.fsum(rows) <= budget:
        return dict.fromkeys(names, math.inf)
    first, rationed, closed = _ways(model, allocation, rows)
    too_far = (way for way in (first, rationed) if sum(probes(_at(way, math.inf))) > budget * (1 + _ROUNDING))
    cover = [allocation.cover.get(h, 0.0) for h in names]
    if sum(probes(cover)) > budget:
        cover = [0.0] * len(names)
    limits = _along(next(too_far, closed), cover, lambda limits: sum(probes(limits)), budget)
    return dict(zip(names, limits, strict=True))


def _ways(model: PlanModel, allocation: Allocation, rows: Limits) -> tuple[Limits, Limits, Limits]:
    """Return three ways, each by its limits at 1 (see `_at`): one begins where the one before ends.

    First a share of the rows of streams that are free, with nothing for what was rationed or closed; then
    the rationed allowances times a factor; then a share of the rows at closed half-joins, all others free.
    """
    allowances = [_allowed(allocation, h) for h in model.half_joins]
    enters = [isinstance(h.driver, str) and model.orders[h.driver][0] == h.probed for h in model.half_joins]
    free = [n if enter else math.inf for n, enter in zip(rows, enters, strict=True)]
    first = [n if math.isinf(allowed) else 0.0 for n, allowed in zip(free, allowances, strict=True)]
    closed = [math.inf if allowed else n for n, allowed in zip(rows, allowances, strict=True)]
    return first, allowances, closed


def _at(way: Limits, place: float, cover: Limits | None = None) -> Limits:
    """Return the limits at a place of a way, at least the cover; what is closed or free stays so."""
    limits = [limit * place if 0 < limit < math.inf else limit for limit in way]
    return limits if cover is None else [*map(max, limits, cover)]


def _allowed(allocation: Allocation, half_join: HalfJoin) -> float:
    """What the allocation allowed; infinite where it held no row back."""
    allowed = allocation.allowances.get(half_join, 0.0)
    skipped = allocation.expected.skipped.get(half_join, 0.0)
    return math.inf if skipped <= _ROUNDING * (allowed + skipped) else allowed


def _along(way: Limits, cover: Limits, cost_of: Callable[[Limits], float], budget: float) -> Limits:
    """Return the limits at the last place of a way that the budget pays for, to 2 % of it."""
    low, cost_low, limits = 0.0, 0.0, _at(way, 0.0, cover)
    high, cost_high = 1.0, math.inf
    for number in range(_PASSES):
        at = high if math.isinf(cost_high) else _between(low, high, budget, cost_low, cost_high, number)
        there = _at(way, at, cover)
        cost = cost_of(there)
        if cost > budget * (1 + _ROUNDING):
            high, cost_high = at, cost
            continue
        low, cost_low, limits = at, cost, there
        if cost >= _SHORT * budget:
            break
        high = at * _FURTHER if math.isinf(cost_high) else high
    return limits


def _between(low: float, high: float, budget: float, cost_low: float, cost_high: float, number: int) -> float:
    """Where a straight line meets 99 % of the budget; now and then the middle, in case it bends too much."""
    if number % 3 == 2:
        return (low + high) / 2
    part = (0.99 * budget - cost_low) / (cost_high - cost_low)
    return low + (high - low) * min(max(part, 0.001), 0.999)
