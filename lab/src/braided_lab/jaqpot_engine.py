"""Joins under a budget, in virtual time: filled states, one run for each policy, and what came of it.

A workload's states are filled once, with all rows probing; every run goes on from there with the same rows.
So runs differ in nothing but who may probe.

All is done through `bd.LocalJoin`, but for two things that the product does not offer. The paper's states of
streams hold so many rows whatever is made of them (`Paper`): the product's count windows end intermediates
with their rows, and so nothing in them is older than a window. And the four heuristics come twice, as in the
fluid model. *In the paper* a half-join that cannot use its part leaves it unused (`Unfitted`). *Fitted* is
what Braided does with every allocation: it is fitted to each batch's rows (`allocation.guard`), which uses up
the budget.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import braided as bd
from braided.engine import snapshot
from braided.engine.engine import Engine
from braided.engine.overload.adaptation import Adaptation
from braided.engine.site import Site
from braided.policies.allocation.guard import guard
from braided.policies.allocation.question import Allocation, Question
from braided.policies.allocation.registry import ALLOCATIONS
from braided.policies.flow import Flow, predict
from braided.policies.plan_model import PlanModel
from braided.policies.statistics import Statistics
from braided.query.plan_tree import HalfJoin, Plan
from braided_lab.jaqpot_model import FROZEN, HEURISTICS
from braided_lab.jaqpot_settings import PLANS, Lab, draw_model
from braided_lab.jaqpot_workload import SECOND_US, Batch, States, Workload, draw_exact, workload

Floats: TypeAlias = NDArray[np.float64]
FITTED = {name: f"{name}, fitted" for name in HEURISTICS}
POLICIES = ("jaqpot", *HEURISTICS, *FITTED.values())
EXACT = ("jaqpot", "greedy-path", *FITTED.values())
EXACT_PLANS = ("linear", "bushy")
NEVER = FROZEN
_FILLING = 24
_NEVER = 1e12  # an epsilon that no statistic moves by


class Unfitted(Adaptation):
    """Allowances as the policy gave them, whatever a batch brings."""

    def allowances(self, model: PlanModel, budget: float) -> dict[HalfJoin, float]:
        """Those of the allocation that holds."""
        return {} if self.allocation is None else dict(self.allocation.allowances)


class Paper(bd.LocalJoin):
    """A join whose streams hold so many of their newest rows, as the paper's do."""

    def __init__(self, query: bd.JoinQuery, rows: Mapping[Plan, int]) -> None:
        super().__init__(query)
        self._engine = Engine(query, Site(state_windows=rows))

    def restore(self, data: bytes) -> Paper:
        """Go on from a saved state."""
        snapshot.load(self._engine, data)
        return self


def new_join(query: bd.JoinQuery, rows: Mapping[Plan, int]) -> bd.LocalJoin:
    """The paper's join, or the product's if no stream holds a number of rows."""
    return Paper(query, rows) if rows else bd.LocalJoin(query)


def under(policy: str, probes: float) -> bd.Overload:
    """The option that a policy and a budget are asked for with."""
    name: Any = policy.partition(",")[0]
    most = max(1, round(probes))
    return bd.Overload(most, allocation=name, epsilon=_NEVER) if policy == NEVER else bd.Overload(
        most, allocation=name
    )  # fmt: skip


def as_the_paper_has_it(live: bd.LocalJoin, policy: str) -> None:
    """Leave unused what a heuristic of the paper cannot use."""
    if policy in HEURISTICS:
        live._engine.core.features.get("overload").adaptation = Unfitted(policy)


@dataclass(frozen=True)
class Run:
    """What came of each batch: results, probes, rows into intermediates, and the oldest rows in results.

    `ages` are those of all results, in seconds by the batch's clock, the largest time seen. `seen` are the
    statistics at the end.
    """

    results: Floats
    probes: Floats
    entered: Mapping[str, Floats]
    ages: Sequence[Mapping[str, Floats]]
    seen: Statistics

    def stale(self, bounds: Mapping[str, float], since: int = 0) -> int:
        """Results, from a batch on, with a row older than its stream's bound in seconds."""
        return sum(
            int(np.any([ages[s] > bound + 1e-6 for s, bound in bounds.items()], axis=0).sum())
            for ages in self.ages[since:]
            if ages
        )

    @property
    def fresh_share(self) -> float:
        """Which part of the probes allowed keeps results fresh, by the allocation that holds at the end."""
        return self.seen.rationing.freshness_share if self.seen.rationing is not None else 0.0

    @property
    def problem(self) -> str:
        """Why bounds cannot be kept, as the join says."""
        return self.seen.rationing.problem if self.seen.rationing is not None else ""


class Bench:
    """One workload: its filled states, and the rows that come then."""

    def __init__(
        self, workload: Workload, rng: np.random.Generator, batches: int, factor: float | None = None
    ) -> None:
        self.workload, self.factor = workload, factor
        live = self._new(None)
        for batch in workload.filling(rng, _FILLING):
            live.push(batch)
        self._filled = live.snapshot()
        self.batches = [workload.batch(rng, float(at)) for at in range(batches)]

    def run(self, policy: str, probes: float, *, ages: bool = False) -> Run:
        """All batches under a policy and a budget."""
        live = self._new(under(policy, probes))
        as_the_paper_has_it(live, policy)
        return run(live.restore(self._filled), self.batches, ages=ages)

    def unlimited(self) -> Run:
        """All batches, all rows probing."""
        return run(self._new(None).restore(self._filled), self.batches)

    def _new(self, overload: bd.Overload | None) -> bd.LocalJoin:
        return new_join(self.workload.query(overload, self.factor), self.workload.state_windows)


def run(live: bd.LocalJoin, batches: Sequence[Batch], *, ages: bool = False) -> Run:
    """Give a join batches and write down what happens."""
    results, probes, old = [], [_probes(live.stats())], []
    entered: dict[str, list[int]] = {}
    clock_us = 0
    for batch in batches:
        found = live.push(batch)
        seen = live.stats()
        results.append(found.num_rows)
        probes.append(_probes(seen))
        for name, state in seen.intermediates.items():
            entered.setdefault(name, []).append(state.entered_rows)
        clock_us = max([clock_us, *(int(_us(t["t"]).max()) for t in batch.values() if t.num_rows)])
        if ages:
            old.append(ages_of(found, clock_us))
    into = {name: np.array(rows, float) for name, rows in entered.items()}
    return Run(np.array(results, float), np.diff(np.array(probes, float)), into, old, live.stats())


def ages_of(found: pa.Table, clock_us: int) -> dict[str, Floats]:
    """How old each stream's row is in each result, in seconds; results hold times only."""
    if not found.num_rows:
        return {}
    return {n: (clock_us - _us(found[n])) / SECOND_US for n in found.column_names}


def _us(times: pa.ChunkedArray) -> NDArray[np.int64]:
    us: NDArray[np.int64] = times.to_numpy().astype(np.int64)
    return us


def _probes(seen: Statistics) -> int:
    return sum(h.probes for h in seen.half_joins.values())


def allocated(workload: Workload, policy: str, probes: float, factor: float | None = None) -> Allocation:
    """What a policy decides if it knows the truth."""
    bounds = {} if factor is None else workload.setting.bounds(factor)
    question = Question(workload.model, probes, bounds, settle=workload.states != "count")
    return ALLOCATIONS[policy.partition(",")[0]](question)


def predicted(workload: Workload, policy: str, probes: float, factor: float | None = None) -> Flow:
    """What the model expects of a policy that knows the truth."""
    found = allocated(workload, policy, probes, factor)
    if policy in HEURISTICS:
        return found.expected
    allowances = guard(workload.model, found, probes)
    return predict(workload.model, allowances, settle=workload.states != "count")


@dataclass(frozen=True)
class Point:
    """One policy at one budget in one setting: results a batch, as shares of those with all rows probing.

    `predicted` is the model's, `spent` the part of the budget that was used, `expected` how many results the
    model expects in all batches that count: with few, chance decides. `fresh` is the part of the probes that
    keeps results fresh, `problem` why bounds on age cannot be kept.
    """

    states: str
    plan: str
    number: int
    budget: float
    policy: str
    share: float
    predicted: float
    spent: float
    expected: float
    fresh: float = 0.0
    problem: str = ""

    @property
    def off(self) -> float:
        """How far the join is from the model, as a part of the model's."""
        return self.share / self.predicted - 1 if self.predicted else 0.0


def points(lab: Lab, states: States, plan: str) -> Iterator[Point]:
    """All settings, budgets and policies of a plan; with bounds on age where intermediates have windows."""
    given = lab.given["rows"]
    range_, budgets = given["range"], given["quick_budgets" if lab.quick else "budgets"]
    if states != "count":
        range_ = given["exact"]["range"]
        budgets = budgets if lab.quick else given["exact"]["budgets"]
    factor = lab.given["sweep_freshness"] if states == "newest" else None
    for number in range(lab.size["rows_settings"]):
        rng = lab.rng("rows", states, plan, number)
        draw = draw_model if states == "count" else draw_exact
        work = workload(draw(rng, PLANS[plan], range_), states)
        since = 0 if states == "count" else round(max(work.setting.bounds(1.1).values()))
        bench = Bench(work, rng, since + given["batches"], factor)
        full = float(bench.unlimited().results[since:].mean())
        for budget, policy in itertools.product(budgets, POLICIES if states == "count" else EXACT):
            probes = budget * work.setting.saturation
            done, expected = bench.run(policy, probes), predicted(work, policy, probes, factor).output
            yield Point(
                states, plan, number, budget, policy, float(done.results[since:].mean()) / full,
                expected / work.setting.full.output, float(done.probes[since:].mean()) / probes,
                expected * given["batches"], done.fresh_share, done.problem,
            )  # fmt: skip


def point_rows(found: Sequence[Point]) -> list[dict[str, Any]]:
    """For the report: setting by setting, and means."""
    groups: dict[tuple[str, str, float, str], list[Point]] = {}
    for p in found:
        groups.setdefault((p.states, p.plan, p.budget, p.policy), []).append(p)
    return [
        {
            "experiment": "rows-budget", "states": states, "plan": plan, "budget": budget, "policy": policy,
            **{name: round(float(np.mean([getattr(p, name) for p in group])), 4)
               for name in ("share", "predicted", "spent", "fresh")},
            "shares": [round(p.share, 4) for p in group],
            "bounds_kept": [not p.problem for p in group],
        }
        for (states, plan, budget, policy), group in groups.items()
    ]  # fmt: skip
