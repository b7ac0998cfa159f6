"""Bounds on the age of rows in results, and which rows must probe so that they hold (jaqpot, section 4.2).

An intermediate state that is fed slowly keeps its rows for long, and results made from it are stale. A
bound f_I says how old a row of stream I may be in a result. By Lemma 1 it holds if the times a row spends
in its stream's own states, from leaf to root, add up to at most that:

    f_I >= sum over own states S of abs(S) / (rows that come into S per unit of time)

A leaf's state is always fed by all arrivals. The *staleness-susceptible* states are the others: the
intermediates, k - 2 of them in any binary tree over k streams (Lemma 2), none in the flat plan.

| paper | here |
| --- | --- |
| f^I (Definition 2) | `bounds[stream]`; a stream without one may be of any age |
| R_S (Definition 5) | `refresh_rates` |
| minimal coverage paths, delta mu (Eq. 11, 12) | `FreshnessPlan.rows`, `FreshnessPlan.cost` |

*From bounds to refresh rates* the paper gives no rule; ours: what the leaf leaves of a bound, slack_I =
f_I - abs(S_I) / lambda_I, is split over the susceptible own states of path I, each gets a share, and R_S is
the largest abs(S) / share over all streams whose rows S holds. Shares are in proportion to abs(S) / (what
feeds S if all rows may probe), the time S needs at best. All states of a path are then refreshed at the same
part of their full flow, and that part is at most 1 exactly if Lemma 1 holds at full flow: this rule meets
every bound that can be met at all. (Equal shares, or shares by size, do not.)

*From refresh rates to paths*: as in the paper rows that refresh a state go on to probe up to the root, so
they also bring results; each row of path I puts phi rows into each own state (`Path.entry`) and costs
`Path.cost`. `set_cover` finds cheap rows. If there is no cover the plan says which bounds, or which
budget, would do; `part_of` is then the cover of a part of the refresh rates, the same of all or by weights.

>>> from braided.policies.plan_model import plan_model
>>> model = plan_model((("a", "b"), "c"), {"a": 500, "b": 700, "c": 300},
...     sizes={"a": 5000, "b": 700, "c": 1000, ("a", "b"): 200},
...     selectivity={("a", "b"): 0.001, (("a", "b"), "c"): 0.005})
>>> refresh_rates(model, {"a": 14.0, "b": 11.0})  # a: 200 rows in 14 - 10; b: 200 rows in 11 - 1
{('a', 'b'): 50.0}
>>> plan = plan_freshness(model, {"a": 14.0, "b": 11.0}, budget=300)
>>> plan.rows["b"], plan.cost  # 10 rows of b, and the 50 they become
(10.0, 60.0)
>>> print(plan_freshness(model, {"a": 14.0}, budget=30).problem)
freshness needs 60 probes per unit of time, the budget is 30; bounds that would do: a 18
>>> print(plan_freshness(model, {"a": 9.0}, budget=300).problem)
no budget keeps rows of a fresher than 10.05; asked for 9
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from braided.policies.flow import Flow, predict
from braided.policies.plan_model import PlanModel, frozen
from braided.policies.set_cover import CoverProblem, greedy
from braided.query.plan_tree import Plan

_ROUNDING = 1e-9


@dataclass(frozen=True)
class FreshnessPlan:
    """Which rows must probe so that bounds hold, or why none can.

    `cost` is what that takes, a budget that would do (infinite if none would); `rows`, which cost `spent`,
    are none if it is more than the budget. `bounds_that_do` are the given bounds, loosened where they must
    be. `part` of the rates is what the rows are for: 1, or less where `part_of` made it.
    """

    refresh: Mapping[Plan, float]
    rows: Mapping[str, float]
    cost: float
    bounds_that_do: Mapping[str, float]
    problem: str = ""
    budget: float = math.inf
    spent: float = 0.0
    part: float = 1.0

    @property
    def feasible(self) -> bool:
        """Return whether the budget can meet the bounds."""
        return not self.problem


def staleness(model: PlanModel, flow: Flow) -> dict[str, float]:
    """How long rows of each stream stay in the plan under a flow (the sum of Lemma 1)."""
    times = {node: _residence(flow.sizes[node], flow.arrivals[node]) for node in flow.sizes}
    return {path.stream: math.fsum(times[node] for node in path.entry) for path in model.paths}


def tightest_bounds(model: PlanModel) -> dict[str, float]:
    """Return the smallest bound of each stream that can be kept, with all rows probing."""
    return staleness(model, predict(model))


def refresh_rates(
    model: PlanModel, bounds: Mapping[str, float], parts: Mapping[str, float] | None = None
) -> dict[Plan, float]:
    """Return the rows that must come into each susceptible state per unit of time (Definition 5).

    With `parts` of what streams' bounds ask for, and never more than comes in if all rows probe.
    """
    full = predict(model)
    needs = dict.fromkeys(model.intermediates, 0.0)
    for path in model.paths:
        if path.stream in bounds:
            slack = max(0.0, bounds[path.stream] - _residence(model.sizes[path.stream], path.rate))
            own = [state for state in path.entry if state != path.stream and model.sizes[state] > 0]
            times = [_residence(model.sizes[state], full.arrivals[state]) for state in own]
            for state, time in zip(own, times, strict=True):
                share = time / math.fsum(times)  # nan if nothing feeds it: there is no bound it could meet
                need = _residence(model.sizes[state], slack * share)
                if parts is not None:
                    need = min(need, full.arrivals[state]) * parts[path.stream]
                needs[state] = max(needs[state], need)
    return needs


def part_of(
    model: PlanModel,
    plan: FreshnessPlan,
    bounds: Mapping[str, float],
    part: float,
    weights: Mapping[str, float],
) -> FreshnessPlan:
    """Cover this part of the refresh rates that the budget covers; less for streams with less weight."""
    most = max(weights.get(s, 1.0) for s in bounds)
    cover = greedy(
        cover_problem(model, refresh_rates(model, bounds, {s: weights.get(s, 1.0) / most for s in bounds}))
    )
    part *= min(1.0, plan.budget / cover.cost) if cover.cost else 1.0
    rows = frozen({s: part * n for s, n in zip(model.streams, cover.rows, strict=True)})
    return dataclasses.replace(plan, rows=rows, spent=part * cover.cost, part=part)


def covered(model: PlanModel, needs: Mapping[Plan, float], flow: Flow, weights: Mapping[str, float]) -> float:
    """Return which part of the refresh rates comes in under a flow, of all streams by their weights."""
    parts: dict[str, float] = {}
    for path in model.paths:
        own = [node for node in path.entry if 0 < needs.get(node, 0.0) < math.inf]
        if own:
            parts[path.stream] = min(1.0, *(flow.arrivals[node] / needs[node] for node in own))
    total = math.fsum(weights.get(stream, 1.0) for stream in parts)
    return (
        math.fsum(weights.get(stream, 1.0) * part for stream, part in parts.items()) / total if parts else 1.0
    )


def plan_freshness(model: PlanModel, bounds: Mapping[str, float], budget: float) -> FreshnessPlan:
    """Cheap rows that keep these bounds, if the budget suffices."""
    rates = frozen(refresh_rates(model, bounds))
    tight = tightest_bounds(model)
    out_of_reach = {s: tight[s] for s, f in bounds.items() if s in tight and f < tight[s] * (1 - _ROUNDING)}
    if out_of_reach:
        problem = "; ".join(_out_of_reach(s, f, bounds[s]) for s, f in out_of_reach.items())
        return FreshnessPlan(rates, {}, math.inf, frozen({**bounds, **out_of_reach}), problem, budget)
    cover = greedy(cover_problem(model, rates))
    if cover.cost > budget * (1 + _ROUNDING):  # a part of the rows covers that part of all needs
        looser = _loosened(model, bounds, max(0.0, budget / cover.cost))
        problem = _too_expensive(cover.cost, budget, looser)
        return FreshnessPlan(rates, {}, cover.cost, frozen(looser), problem, budget)
    rows = frozen(dict(zip(model.streams, cover.rows, strict=True)))
    return FreshnessPlan(rates, rows, cover.cost, frozen(bounds), "", budget, cover.cost)


def cover_problem(model: PlanModel, rates: Mapping[Plan, float]) -> CoverProblem:
    """The states to refresh as a problem of covering them by paths."""
    gains = [[path.entry.get(state, 0.0) for path in model.paths] for state in rates]
    costs, caps = np.array([(path.cost, path.rate) for path in model.paths]).T
    return CoverProblem(costs, np.reshape(gains, (len(rates), len(costs))), np.array([*rates.values()]), caps)


def _residence(rows: float, rate: float) -> float:
    """How long rows stay in a state that is fed at a rate; an empty one needs nothing."""
    if rows <= 0:
        return 0.0
    return rows / rate if rate > 0 else math.inf


def _loosened(model: PlanModel, bounds: Mapping[str, float], part: float) -> dict[str, float]:
    """Bounds that need only this part of the refresh rates: slacks grow by its inverse."""
    looser = dict(bounds)
    for path in model.paths:
        leaf = _residence(model.sizes[path.stream], path.rate)
        if path.stream in bounds and len(path.entry) > 1:
            looser[path.stream] = leaf + _residence(bounds[path.stream] - leaf, part)
    return looser


def _out_of_reach(stream: str, tightest: float, asked: float) -> str:
    if math.isinf(tightest):
        return f"no bound on rows of {stream} can be kept: a state that holds them is fed by nothing"
    return f"no budget keeps rows of {stream} fresher than {tightest:.4g}; asked for {asked:g}"


def _too_expensive(cost: float, budget: float, looser: Mapping[str, float]) -> str:
    would_do = ", ".join(f"{stream} {bound:.4g}" for stream, bound in looser.items())
    return (
        f"freshness needs {cost:.4g} probes per unit of time, the budget is {budget:.4g}; "
        f"bounds that would do: {would_do}"
    )
