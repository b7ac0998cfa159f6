"""What is left of the results under a budget, by each rule that could divide it.

Every rule is asked what the running join would ask it, and its answer goes through the same model:

- *probes*: the allocation, fitted to a batch as `allocation.guard` does, then the flow, in which
  intermediates hold what they are fed;
- *rows admitted* (`shed="input"`): the shares of `sharing.let_in`, then a plan with these rates;
- *rows stored* (`state_rows`, `state_bytes`): the windows of `window_split.split`. Where intermediates do
  not fit beside them, the join shortens what is stored by one factor, batch after batch: windows come to be
  in proportion to the rates, whatever the rule.

Budgets are looked at one by one. Batches are taken to be short beside windows: rows of one batch also find
each other, whatever was cut after the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from braided.engine.outlook.foreseen import Foreseen
from braided.policies.allocation.guard import guard
from braided.policies.allocation.question import Question
from braided.policies.allocation.registry import ALLOCATIONS
from braided.policies.flow import Flow, predict
from braided.policies.freshness import FreshnessPlan, plan_freshness
from braided.policies.sharing import let_in
from braided.policies.window_split import Made, Storing, cost, output, split
from braided.query.explain.expected_state import INDEX_BYTES
from braided.query.overload import InputAllocation, WindowSplit
from braided.query.plan_tree import label, leaves

_HALVINGS = 20
_EQUAL = 0.999  # of the most results: no difference
_NEAR = 1.01  # of a rate that must come in, as `adaptation` judges it


@dataclass(frozen=True)
class Yield:
    """What a rule yields in a batch: results, what it uses of the budget, and the states that starve."""

    rule: str
    results: float
    used: float
    starved: tuple[str, ...] = ()


def most(yields: Sequence[Yield], chosen: str) -> Yield:
    """Return the best of them; of equals the chosen one."""
    highest = max(y.results for y in yields) * _EQUAL
    return max(yields, key=lambda y: (y.results >= highest, y.rule == chosen, y.results))


def by_probes(foreseen: Foreseen, budget: float) -> list[Yield]:
    """What each allocation of probes yields."""
    question = _question(foreseen, budget)
    plan = freshness(foreseen, budget)
    found = []
    for rule, allocate in ALLOCATIONS.items():
        allowances = guard(question.model, allocate(question), budget)
        flow = predict(question.model, allowances, settle=True)
        found.append(Yield(rule, flow.output, flow.spent, _starved(plan, flow)))
    return found


def freshness(foreseen: Foreseen, budget: float) -> FreshnessPlan | None:
    """What bounds on age take; None where they cost nothing."""
    question = _question(foreseen, budget)
    return plan_freshness(question.model, question.freshness, budget) if question.freshness else None


def by_input(foreseen: Foreseen, budget: float) -> list[Yield]:
    """What each way to admit rows yields."""
    query, rates = foreseen.query, foreseen.rates
    windows = [float(query.bounds.retention_us(i)) for i in range(len(query.names))]
    found = []
    for rule in get_args(InputAllocation):
        rows = [*rates.values()]
        let = let_in(rule, budget, rows, windows) if math.fsum(rows) > budget else rows
        parts = {name: n / rates[name] if rates[name] else 1.0 for name, n in zip(rates, let, strict=True)}
        admitted = Foreseen(foreseen.with_known_keys(), parts)
        found.append(Yield(rule, predict(admitted.exact).output, math.fsum(let)))
    return found


def by_windows(foreseen: Foreseen, room: float, row_bytes: Sequence[float] = ()) -> list[Yield]:
    """What each way to cut windows yields; in bytes if it is known how long rows are."""
    storing = _storing(foreseen, room, row_bytes)
    all_results = predict(foreseen.exact).output
    inside = np.array([e.joinable for e in foreseen.state.streams])
    whole = float(output(storing, inside[None, :])[0])
    found = []
    for rule in get_args(WindowSplit):
        windows = _fitted(storing, split(rule, storing))
        left = float(output(storing, np.minimum(windows, inside)[None, :])[0])
        found.append(Yield(rule, all_results * left / whole if whole else 0.0, cost(storing, windows)))
    return found


def by_intermediates(foreseen: Foreseen) -> float:
    """The results that are left where intermediates hold only some rows, and all may probe."""
    return predict(foreseen.model, settle=True).output


def _question(foreseen: Foreseen, budget: float) -> Question:
    """What `rationing` asks when a batch begins."""
    overload, model = foreseen.query.overload, foreseen.model
    weights = dict(overload.weights or ()) if overload else {}
    return Question(model, budget, foreseen.freshening().bounds() if model.caps else {}, True, weights)


def _starved(plan: FreshnessPlan | None, flow: Flow) -> tuple[str, ...]:
    """The states into which fewer rows come than bounds on age need."""
    rates = plan.refresh if plan is not None else {}
    return tuple(label(node) for node, rate in rates.items() if flow.arrivals[node] * _NEAR < rate)


def _storing(foreseen: Foreseen, room: float, row_bytes: Sequence[float]) -> Storing:
    model, names = foreseen.exact, foreseen.query.names
    live = [foreseen.stored[name] for name in names]
    made = []
    for node in model.intermediates:
        streams = tuple(names.index(name) for name in leaves(node))
        size = sum(row_bytes[i] + 8 for i in streams) + INDEX_BYTES if row_bytes else 1.0
        made.append(Made(streams, model.sizes[node], size))
    sizes = [size + INDEX_BYTES for size in row_bytes]
    return Storing(room, [foreseen.rates[name] for name in names], live, sizes, live, made)


def _fitted(storing: Storing, windows: Sequence[float]) -> Sequence[float]:
    """Return the windows, or in proportion to the rates the longest that leave room for what is made."""

    def fits(factor: float) -> bool:
        return cost(storing, [factor * cap for cap in storing.caps]) <= storing.budget

    if cost(storing, windows) <= storing.budget * (1 + 1e-6):
        return windows
    factor = _largest(fits)
    return [factor * cap for cap in storing.caps]


def _largest(fits: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
