"""Flat against tree under the same budget, and two baselines from outside: shedding, and parts of windows.

The paper argues for trees: a flat operator computes intermediates anew for each result (section 6). Here both
have the same results. Four streams are linked in a chain of predicates, a-b, b-c, c-d; windows are in time,
and an intermediate row goes when the first of its components goes. So a tree's states shrink when operators
below them are starved (`settle`); a flat plan has no such states. Budgets are parts of the *linear tree's*
saturation.

*Random shedding.* Rows of every stream are dropped with probability 1 - z before they are stored: rates and
states of streams are z times what they were, and z is chosen so that the budget is used up.

*Parts of windows*: see `jaqpot_harvest`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.policies.allocation import greedy_path, jaqpot
from braided.policies.flow import predict
from braided.policies.plan_model import PlanModel, plan_model
from braided.query.plan_tree import HalfJoin, Plan, flat, operators
from braided_lab.jaqpot_harvest import harvest
from braided_lab.jaqpot_settings import PLANS, Lab, Setting, bearable, log_uniform

Floats = NDArray[np.float64]
STREAMS = ("a", "b", "c", "d")
_STEPS = 40


@dataclass(frozen=True)
class Chain:
    """Four streams and the predicates between neighbours."""

    rates: Mapping[str, float]
    windows: Mapping[str, float]
    links: tuple[float, float, float]

    def tree(self, plan: Plan, kept: float = 1.0) -> PlanModel:
        """A tree over the chain; an operator's predicate links the neighbours where its inputs meet."""
        rates = {stream: kept * rate for stream, rate in self.rates.items()}
        by_shape = {PLANS["linear"]: (0, 1, 2), PLANS["bushy"]: (0, 2, 1)}
        links = [self.links[i] for i in by_shape[plan]]
        selectivity: dict[Plan | HalfJoin, float] = dict(zip(operators(plan), links, strict=True))
        return plan_model(plan, rates, windows=self.windows, selectivity=selectivity)

    def flat(self) -> PlanModel:
        """One operator; rows probe along the chain, of two neighbours the less productive first."""
        orders: dict[Plan, tuple[Plan, ...]] = {stream: self.order(stream) for stream in STREAMS}
        selectivity: dict[Plan | HalfJoin, float] = {
            HalfJoin(s, p): self.links[_link(s, p)] for s in STREAMS for p in self.order(s)
        }
        return plan_model(
            flat(STREAMS), self.rates, windows=self.windows, selectivity=selectivity, orders=orders
        )

    def order(self, driver: str) -> tuple[str, ...]:
        """Whom rows of a stream probe, one by one."""
        joined, order = {driver}, []
        while len(joined) < len(STREAMS):
            near = [s for s in STREAMS if s not in joined and any(_adjacent(s, j) for j in joined)]
            order.append(
                min(near, key=lambda s: self.links[_link(driver, s)] * self.rates[s] * self.windows[s])
            )
            joined.add(order[-1])
        return tuple(order)


def _adjacent(one: str, other: str) -> bool:
    return abs(STREAMS.index(one) - STREAMS.index(other)) == 1


def _link(driver: str, probed: str) -> int:
    """The predicate by which a stream is reached from another: the last on the way there."""
    start, end = STREAMS.index(driver), STREAMS.index(probed)
    return end - 1 if start < end else end


def chains(lab: Lab) -> Iterator[Chain]:
    """Productivities of probing a stream are those of the engine's range."""
    within = lab.given["ranges"]["engine"]
    for number in range(lab.size["settings"]):
        rng = lab.rng("chain", number)
        rates = {stream: float(rng.uniform(*within["rates"])) for stream in STREAMS}
        sizes = [log_uniform(rng, *within["sizes"]) for _ in STREAMS]
        pairs = [sizes[i : i + 2] for i in range(3)]
        a, b, c = (log_uniform(rng, *bearable(within["productivities"], pair)) for pair in pairs)
        windows = {s: size / rates[s] for s, size in zip(STREAMS, sizes, strict=True)}
        yield Chain(rates, windows, (a, b, c))


def shed(chain: Chain, plan: Plan, budget: float) -> float:
    """Results if rows are dropped at random before they are stored, as many as the budget asks for."""
    low, high = 0.0, 1.0
    if predict(chain.tree(plan)).spent <= budget:
        return predict(chain.tree(plan)).output
    for _ in range(_STEPS):
        middle = (low + high) / 2
        spent = predict(chain.tree(plan, middle)).spent
        low, high = (middle, high) if spent <= budget else (low, middle)
    return predict(chain.tree(plan, low)).output if low else 0.0


def flat_rows(lab: Lab) -> list[dict[str, Any]]:
    """For the report: results as shares of those at saturation, setting by setting, and their means."""
    budgets = lab.given["flat"]["budgets"]
    by_setting = [_of_chain(lab, chain, budgets) for chain in chains(lab)]
    shares = {name: [[found[name][i] for found in by_setting] for i in range(len(budgets))]
              for name in by_setting[0]}  # fmt: skip
    return [
        {"experiment": "flat", "plan": name, "budget": budget,
         "share": round(float(np.mean(some)), 6), "shares": [round(s, 6) for s in some]}
        for name, by_budget in shares.items()
        for budget, some in zip(budgets, by_budget, strict=True)
    ]  # fmt: skip


def cost_rows(lab: Lab) -> list[dict[str, Any]]:
    """For the report: what all results cost a flat and a bushy plan, as a multiple of the linear tree."""
    found = []
    for chain in chains(lab):
        tree, bushy = (predict(chain.tree(PLANS[shape])).spent for shape in ("linear", "bushy"))
        all_ = predict(chain.flat()).spent
        found.append(
            {"experiment": "flat-cost", "flat / linear": all_ / tree, "bushy / linear": bushy / tree}
        )
    return found


def _of_chain(lab: Lab, chain: Chain, parts: Sequence[float]) -> dict[str, list[float]]:
    """Results of each kind of plan at each budget."""
    given = lab.given["flat"]
    line, bush, wide = Setting(chain.tree(PLANS["linear"])), Setting(chain.tree(PLANS["bushy"])), chain.flat()
    budgets = [part * line.saturation for part in parts]
    found = {
        "linear tree": [_settled(line, budget) for budget in budgets],
        "bushy tree": [_settled(bush, budget) for budget in budgets],
        "flat": [
            greedy_path.allocate(Setting(wide).question(b / Setting(wide).saturation)).output for b in budgets
        ],
        "linear tree, random shedding": [shed(chain, PLANS["linear"], budget) for budget in budgets],
    }
    for name, correlation in given["correlations"].items():
        named = f"flat, parts of windows, correlation {name}"
        found[named] = harvest(wide, budgets, basic_windows=given["basic_windows"], correlation=correlation)
    return {name: [n / line.full.output for n in numbers] for name, numbers in found.items()}


def _settled(setting: Setting, budget: float) -> float:
    return jaqpot.allocate(setting.question(budget / setting.saturation, settle=True)).output
