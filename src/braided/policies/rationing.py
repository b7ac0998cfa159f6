"""Rationed probes in the flat plan: which part of each stream's rows may probe each partner, this batch.

The unit of time is a batch. A stream's rate is the rows that wait, a state's size what its rows may see (what
is stored, and half of what the batch brings), a half-join's selectivity what was seen lately; where nothing
is known one match a row is assumed. One of the allocations (`allocation.registry`) divides the budget of
probes among the half-joins; here its answer becomes shares, because rows are drawn by lot.

All rows are stored, whatever they may probe, so a later batch with budget to spare finds every combination
that one of its own rows completes: the join is exact again at once.

>>> policy = Rationed(("a", "b"), "greedy-path", budget=300)
>>> known = ((None, 0.005), (0.001, None))
>>> policy.ration(Turn((500, 700), (5000, 500), selectivity=known), {0: (1,), 1: (0,)}, 300).shares
{0: (0.0,), 1: (0.42857142857142855,)}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from braided.policies.allocation.question import Allocation, Question
from braided.policies.allocation.registry import ALLOCATIONS
from braided.policies.decisions import Rations, Turn
from braided.policies.plan_model import PlanModel, plan_model
from braided.policies.plan_tree import HalfJoin, Plan

_ALL = 1 - 1e-9


@dataclass(frozen=True)
class Rationed:
    """A budget of probes a batch, divided by one of the allocations."""

    streams: tuple[str, ...]
    allocation: str
    budget: int

    def ration(self, turn: Turn, orders: Mapping[int, tuple[int, ...]], budget: float) -> Rations:
        """Shares for every driver stream, along its probe order, out of what is left of the budget."""
        model = self._model(turn, orders)
        answer = ALLOCATIONS[self.allocation](Question(model, max(0.0, budget)))
        shares, allowed = {}, {}
        for driver, order in orders.items():
            shares[driver], allowed[driver] = self._along(driver, order, turn, model, answer)
        return Rations(dict(orders), shares, allowed, answer.reason)

    def _model(self, turn: Turn, orders: Mapping[int, tuple[int, ...]]) -> PlanModel:
        names = self.streams
        sizes: dict[Plan, float] = {
            n: max(1.0, float(s)) for n, s in zip(names, turn.stored_rows, strict=True)
        }
        selectivity: dict[Plan | HalfJoin, float] = {}
        for i, a in enumerate(names):
            for j, b in enumerate(names):
                if i != j:
                    known = turn.selectivity[i][j] if turn.selectivity else None
                    selectivity[HalfJoin(a, b)] = min(1.0, 1 / sizes[b] if known is None else known)
        rates = {n: float(r) for n, r in zip(names, turn.waiting_rows, strict=True)}
        told: dict[Plan, tuple[Plan, ...]] = {
            names[d]: tuple(names[p] for p in order) for d, order in orders.items()
        }
        return plan_model(names, rates, sizes=sizes, selectivity=selectivity, orders=told)

    def _along(
        self, driver: int, order: tuple[int, ...], turn: Turn, model: PlanModel, answer: Allocation
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """One share per partner: of the rows that get there, how many may go on."""
        rows = float(turn.waiting_rows[driver])
        shares, allowed = [], []
        for partner in order:
            half_join = HalfJoin(self.streams[driver], self.streams[partner])
            may = min(rows, answer.allowances.get(half_join, 0.0))
            share = may / rows if rows else 0.0
            shares.append(1.0 if share >= _ALL else share)
            allowed.append(may)
            rows = may * model.productivity(half_join)
        return tuple(shares), tuple(allowed)
