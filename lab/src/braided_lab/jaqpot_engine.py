"""The engine under a budget, in virtual time: filled states, one run for each policy, and what came of it.

A workload's states are filled once, with all rows probing; every run goes on from there with the same rows.
So runs differ in nothing but who may probe.

The four heuristics come twice, as in the fluid model. *In the paper* a half-join that cannot use its part
leaves it unused (`Unfitted`). *Fitted* is what Braided does with every allocation: it is fitted to each
batch's rows (`allocation.guard`), which uses up the budget.
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
from braided.engine.overload.adaptation import Adaptation, Thresholds
from braided.engine.site import Site
from braided.policies.allocation.guard import guard
from braided.policies.allocation.question import Allocation, Question
from braided.policies.allocation.registry import ALLOCATIONS
from braided.policies.flow import Flow, predict
from braided.policies.plan_model import PlanModel
from braided.query.plan_tree import HalfJoin, Plan
from braided_lab.jaqpot_model import FROZEN, HEURISTICS
from braided_lab.jaqpot_settings import PLANS, Lab, draw_model
from braided_lab.jaqpot_workload import NO_LIMIT, SECOND_US, Batch, States, Workload, draw_exact, workload

Floats: TypeAlias = NDArray[np.float64]
FITTED = {name: f"{name}, fitted" for name in HEURISTICS}
POLICIES = ("jaqpot", *HEURISTICS, *FITTED.values())
EXACT = ("jaqpot", "greedy-path", *FITTED.values())
EXACT_PLANS = ("linear", "bushy")
NEVER = FROZEN
_FILLING = 24


class Unfitted(Adaptation):
    """Allowances as the policy gave them, whatever a batch brings."""

    def allowances(self, model: PlanModel, budget: float) -> dict[HalfJoin, float]:
        """Those of the allocation that holds."""
        return {} if self.allocation is None else dict(self.allocation.allowances)


@dataclass(frozen=True)
class Run:
    """What came of each batch: results, probes, rows into intermediates, and the oldest rows in results.

    `ages` are those of all results, in seconds by the batch's clock, the largest time seen.
    """

    results: Floats
    probes: Floats
    entered: Mapping[Plan, Floats]
    ages: Sequence[Mapping[str, Floats]]
    engine: Engine

    def stale(self, bounds: Mapping[str, float], since: int = 0) -> int:
        """Results, from a batch on, with a row older than its stream's bound in seconds."""
        return sum(
            int(np.any([ages[s] > bound + 1e-6 for s, bound in bounds.items()], axis=0).sum())
            for ages in self.ages[since:]
            if ages
        )


class Bench:
    """One workload: its filled states, and the rows that come then."""

    def __init__(
        self, workload: Workload, rng: np.random.Generator, batches: int, factor: float | None = None
    ) -> None:
        self.workload, self.factor = workload, factor
        engine = self._new(None)
        for batch in workload.filling(rng, _FILLING):
            for _ in engine.step(engine.accept(batch)):
                pass
        self._filled = snapshot.save(engine)
        self.batches = [workload.batch(rng, float(at)) for at in range(batches)]

    def engine(self, policy: str, probes: float) -> Engine:
        """An engine with filled states that goes on under a budget."""
        plain = policy.removesuffix(", fitted").removesuffix(", never adapted")
        engine = self._new(bd.Overload(max(1, round(probes)), allocation=plain))  # type: ignore[arg-type]
        if policy in HEURISTICS:
            engine.core.features.get("overload").adaptation = Unfitted(plain)
        if policy == NEVER:
            engine.core.features.get("overload").adaptation = Adaptation(
                plain, Thresholds(epsilon=float("inf"))
            )
        snapshot.load(engine, self._filled)
        return engine

    def run(self, policy: str, probes: float, *, ages: bool = False) -> Run:
        """All batches under a policy and a budget."""
        return run(self.engine(policy, probes), self.batches, ages=ages)

    def unlimited(self) -> Run:
        """All batches, all rows probing."""
        engine = self._new(None)
        snapshot.load(engine, self._filled)
        return run(engine, self.batches)

    def _new(self, overload: bd.Overload | None) -> Engine:
        limit = overload or (None if self.factor is None else NO_LIMIT)
        query = self.workload.query(limit, self.factor)
        return Engine(query, Site(repeatable=True, state_windows=self.workload.state_windows))


def run(engine: Engine, batches: Sequence[Batch], *, ages: bool = False) -> Run:
    """Give an engine batches and write down what happens."""
    results, probes, old = [], [], []
    entered: dict[Plan, list[int]] = {}
    for batch in batches:
        tables = list(engine.step(engine.accept(batch)))
        results.append(sum(t.num_rows for t in tables))
        probes.append(engine.probes)
        for source, _ in engine.tree.intermediates:
            entered.setdefault(source.node, []).append(engine.tree.entered.get(source.node, 0))
        if ages:
            old.append(ages_of(tables, engine.core.watermark.clock_us))
    into = {node: np.array(rows, float) for node, rows in entered.items()}
    return Run(np.array(results, float), np.array(probes, float), into, old, engine)


def ages_of(tables: Sequence[pa.Table], clock_us: int) -> dict[str, Floats]:
    """How old each stream's row is in each result, in seconds; results hold times only."""
    if not tables:
        return {}
    whole = pa.concat_tables(tables)
    return {n: (clock_us - whole[n].to_numpy().astype(np.int64)) / SECOND_US for n in whole.column_names}


def allocated(workload: Workload, policy: str, probes: float) -> Allocation:
    """What a policy decides if it knows the truth."""
    question = Question(workload.model, probes, settle=workload.states == "time")
    return ALLOCATIONS[policy.removesuffix(", fitted")](question)


def predicted(workload: Workload, policy: str, probes: float) -> Flow:
    """What the model expects of a policy that knows the truth."""
    found = allocated(workload, policy, probes)
    if policy in HEURISTICS:
        return found.expected
    allowances = guard(workload.model, found, probes)
    return predict(workload.model, allowances, settle=workload.states == "time")


@dataclass(frozen=True)
class Point:
    """One policy at one budget in one setting: results a batch, as shares of those with all rows probing.

    `predicted` is the model's, `spent` the part of the budget that was used, `expected` how many results the
    model expects in all batches that count: with few, chance decides.
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

    @property
    def off(self) -> float:
        """How far the engine is from the model, as a part of the model's."""
        return self.share / self.predicted - 1 if self.predicted else 0.0


def points(lab: Lab, states: States, plan: str) -> Iterator[Point]:
    """All settings, budgets and policies of a plan."""
    given = lab.given["rows"]
    range_, budgets = given["range"], given["quick_budgets" if lab.quick else "budgets"]
    if states == "time":
        range_ = given["exact"]["range"]
        budgets = budgets if lab.quick else given["exact"]["budgets"]
    for number in range(lab.size["rows_settings"]):
        rng = lab.rng("rows", states, plan, number)
        draw = draw_model if states == "count" else draw_exact
        work = workload(draw(rng, PLANS[plan], range_), states)
        since = 0 if states == "count" else round(max(work.setting.bounds(1.1).values()))
        bench = Bench(work, rng, since + given["batches"])
        full = float(bench.unlimited().results[since:].mean())
        for budget, policy in itertools.product(budgets, POLICIES if states == "count" else EXACT):
            probes = budget * work.setting.saturation
            done, expected = bench.run(policy, probes), predicted(work, policy, probes).output
            yield Point(
                states, plan, number, budget, policy, float(done.results[since:].mean()) / full,
                expected / work.setting.full.output, float(done.probes[since:].mean()) / probes,
                expected * given["batches"],
            )  # fmt: skip


def point_rows(found: Sequence[Point]) -> list[dict[str, Any]]:
    """For the report: means over settings."""
    groups: dict[tuple[str, str, float, str], list[Point]] = {}
    for p in found:
        groups.setdefault((p.states, p.plan, p.budget, p.policy), []).append(p)
    return [
        {
            "experiment": "rows-budget", "states": states, "plan": plan, "budget": budget, "policy": policy,
            **{name: round(float(np.mean([getattr(p, name) for p in group])), 4)
               for name in ("share", "predicted", "spent")},
        }
        for (states, plan, budget, policy), group in groups.items()
    ]  # fmt: skip
