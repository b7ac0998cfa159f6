"""From what operators know to a plan in numbers, and from allowances to shares of rows.

The unit of time is a batch. A stream's rate is the rows that wait, a leaf's size what its rows may see (what
is stored, and half of what the batch brings), a half-join's selectivity what it was recently: its own, else
that of the other direction; where nothing is known one match a row is assumed. An intermediate's size follows
from what feeds it (see `plan_model`), unless its state has a window of its own.

One of the allocations (`allocation.registry`) divides the budget of probes among the half-joins; its answer
becomes shares, because rows are drawn by lot. All rows are stored, whatever they may probe, so in a flat plan
a later batch with budget to spare finds every combination that one of its own rows completes.

>>> known = {("a", "b"): Known(Turn((500, 700), (5000, 500), selectivity=((None, 0.005), (0.001, None))),
...                            {0: (1,), 1: (0,)})}
>>> model = model_of(("a", "b"), known)
>>> from braided.policies.allocation.greedy_path import allocate
>>> from braided.policies.allocation.question import Question
>>> allowances = allocate(Question(model, 300)).allowances
>>> [plan.shares for plan in rations_of(("a", "b"), known["a", "b"], allowances).values()]
[(0.0,), (0.42857142857142855,)]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from braided.policies.decisions import ProbePlan, Rations, Turn
from braided.policies.plan_model import PlanModel, frozen, plan_model
from braided.query.plan_tree import HalfJoin, Plan

_ALL = 1 - 1e-9


@dataclass(frozen=True)
class Known:
    """What one operator knows when a batch begins, and in which order each input's rows would probe."""

    turn: Turn
    orders: Mapping[int, tuple[int, ...]]


def model_of(
    plan: Plan,
    known: Mapping[tuple[Plan, ...], Known],
    caps: Mapping[Plan, float] | None = None,
    limits: Mapping[str, float] | None = None,
) -> PlanModel:
    """The plan in numbers; `caps` are the most rows that intermediates hold, if they have windows.

    `limits` are the ages, in batches, up to which rows of streams may be found.
    """
    rates: dict[str, float] = {}
    sizes: dict[Plan, float] = {}
    selectivity: dict[Plan | HalfJoin, float] = {}
    orders: dict[Plan, tuple[Plan, ...]] = {}
    assumed: set[HalfJoin] = set()
    for operator, now in known.items():
        for i, child in enumerate(operator):
            orders[child] = tuple(operator[p] for p in now.orders[i])
            if isinstance(child, str):
                rates[child] = float(now.turn.waiting_rows[i])
                sizes[child] = max(1.0, float(now.turn.stored_rows[i]))
            for j, other in enumerate(operator):
                if i != j:
                    selectivity[HalfJoin(child, other)] = _selectivity(now.turn, i, j)
                    if _seen(now.turn, i, j) is None:
                        assumed.add(HalfJoin(child, other))
    model = plan_model(
        plan, rates, sizes=sizes, selectivity=selectivity, orders=orders, caps=caps, limits=limits
    )
    return dataclasses.replace(model, assumed=frozenset(assumed))


def at_present(model: PlanModel, known: Mapping[tuple[Plan, ...], Known]) -> PlanModel:
    """The same, with intermediates that have windows as full as they are, or can be after this batch."""
    sizes = dict(model.sizes)
    for operator, now in known.items():
        for child, stored in zip(operator, now.turn.stored_rows, strict=True):
            if not isinstance(child, str) and child in model.caps and child in known:
                grown = stored + max(stored, sum(known[child].turn.waiting_rows))
                sizes[child] = min(sizes[child], max(1.0, float(grown)))
    return dataclasses.replace(model, sizes=frozen(sizes))


def rations_of(operator: tuple[Plan, ...], now: Known, allowances: Mapping[HalfJoin, float]) -> Rations:
    """Shares for every input of an operator, along its probe order."""
    plans = {}
    for i, child in enumerate(operator):
        rows = float(now.turn.waiting_rows[i])
        shares, allowed = [], []
        for partner in now.orders[i]:
            may = min(rows, allowances.get(HalfJoin(child, operator[partner]), 0.0))
            share = may / rows if rows else 1.0
            shares.append(1.0 if share >= _ALL else share)
            allowed.append(may)
            rows = may * _selectivity(now.turn, i, partner) * max(1.0, float(now.turn.stored_rows[partner]))
        plans[i] = ProbePlan(i, now.orders[i], tuple(shares), tuple(allowed))
    return plans


def _selectivity(turn: Turn, i: int, j: int) -> float:
    """The share of pairs that match; one match a row if nothing is known."""
    share = _seen(turn, i, j)
    return min(1.0, 1 / max(1.0, float(turn.stored_rows[j])) if share is None else share)


def _seen(turn: Turn, i: int, j: int) -> float | None:
    """What is known of it: from this direction, else from the other."""
    seen = turn.selectivity
    return (seen[i][j] if seen[i][j] is not None else seen[j][i]) if seen else None
