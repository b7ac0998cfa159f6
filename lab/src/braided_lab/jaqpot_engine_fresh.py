"""Freshness in the join: results that are stale without bounds, and what bounds cost where they are set.

Of the settings drawn the first few that have a cover for a bound are run, and as many without; the share that
has none is reported. With bounds set the join drops what is too old under every policy; best paths first
(`greedy-path`) is then the paper's GrePP with purging. Where bounds cannot be kept jaqpot covers a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from braided.policies.freshness import FreshnessPlan, plan_freshness
from braided.query.plan_tree import label
from braided_lab.jaqpot_engine import FITTED, Bench, Run
from braided_lab.jaqpot_settings import PLANS, Lab, draw_model
from braided_lab.jaqpot_workload import Workload, workload

BOUNDED = ("jaqpot", "greedy-path", *FITTED.values())


@dataclass(frozen=True)
class Fresh:
    """One setting under one bound: results a batch by policy, of them stale, and what jaqpot did for it.

    `reached` is the smallest, over intermediates, of rows that came in against the rate that was wanted; not
    a number where bounds cannot be kept. `sees` says whether the join's own statistics have a cover.
    """

    plan: str
    factor: float
    feasible: bool
    results: Mapping[str, float]
    stale: Mapping[str, int]
    share: float
    reached: float
    problem: str

    @property
    def sees(self) -> bool:
        """Whether the join thinks that bounds can be kept."""
        return not self.problem

    def over(self, policies: tuple[str, ...]) -> float:
        """How many times the best of some policies jaqpot yields; infinite where they yield nothing."""
        best = max(self.results[p] for p in policies)
        ours = self.results["jaqpot"]
        return ours / best if best else (float("inf") if ours else 1.0)


@dataclass(frozen=True)
class Unbound:
    """One setting without bounds: which share of a policy's results is stale at a factor; nan if none are."""

    plan: str
    factor: float
    stale: Mapping[str, float]


@dataclass(frozen=True)
class Found:
    """All of it; `drawn[plan, factor]` says of each setting drawn whether it had a cover."""

    bound: list[Fresh]
    unbound: list[Unbound]
    drawn: dict[tuple[str, float], list[bool]]


def freshness(lab: Lab, say: Callable[[str], object]) -> Found:
    """All plans and bounds."""
    found = Found([], [], {})
    for plan in list(PLANS)[:2] if lab.quick else PLANS:
        say(f"join, freshness: {plan} plan")
        for factor in _factors(lab):
            picked, found.drawn[plan, factor] = _picked(lab, plan, factor)
            found.bound.extend(_bound(lab, plan, factor, w, n) for n, w in enumerate(picked))
        found.unbound.extend(_unbound(lab, plan))
    return found


def _picked(lab: Lab, plan: str, factor: float) -> tuple[list[Workload], list[bool]]:
    """The first workloads with a cover, and as many without; and which of all drawn had one."""
    given = lab.given["rows"]["fresh"]
    covered: list[Workload] = []
    without: list[Workload] = []
    drawn = []
    for number in range(given["drawn"]):
        rng = lab.rng("rows-fresh", plan, number)
        work = workload(draw_model(rng, PLANS[plan], given["range"]), "count")
        drawn.append(_feasible(work, factor, given["budget"]))
        (covered if drawn[-1] else without).append(work)
    many = lab.size["rows_fresh"]
    return [*covered[:many], *without[:many]], drawn


def _factors(lab: Lab) -> list[float]:
    found: list[float] = (
        lab.given["rows"]["fresh"]["quick_factors"] if lab.quick else lab.given["freshness"]["factors"]
    )
    return found


def _feasible(work: Workload, factor: float, budget: float) -> bool:
    setting = work.setting
    return plan_freshness(work.model, setting.bounds(factor), budget * setting.saturation).feasible


def _bound(lab: Lab, plan: str, factor: float, work: Workload, number: int) -> Fresh:
    given, setting = lab.given["rows"]["fresh"], work.setting
    since, probes = given["batches"] - given["counted"], given["budget"] * setting.saturation
    bench = Bench(work, lab.rng("rows-bound", plan, str(factor), number), given["batches"], factor)
    runs = {policy: bench.run(policy, probes, ages=True) for policy in BOUNDED}
    cover = plan_freshness(work.model, setting.bounds(factor), probes)
    ours = runs["jaqpot"]
    return Fresh(
        plan, factor, cover.feasible,
        {policy: float(run.results[since:].mean()) for policy, run in runs.items()},
        {policy: run.stale(setting.bounds(factor)) for policy, run in runs.items()},
        ours.fresh_share, _reached(ours, cover, since), ours.problem,
    )  # fmt: skip


def _reached(run: Run, cover: FreshnessPlan, since: int) -> float:
    """Rows into intermediates against the rates that the bounds ask for."""
    if not cover.feasible:
        return float("nan")
    wanted = {label(node): rate for node, rate in cover.refresh.items() if rate > 0}
    return min(float(run.entered[name][since:].mean()) / rate for name, rate in wanted.items())


def _unbound(lab: Lab, plan: str) -> Iterator[Unbound]:
    given = lab.given["rows"]["fresh"]
    since = given["batches"] - given["counted"]
    for number in range(lab.size["rows_fresh"]):
        rng = lab.rng("rows-unbound", plan, number)
        work = workload(draw_model(rng, PLANS[plan], given["range"]), "count")
        bench = Bench(work, rng, given["batches"])
        policies = ("greedy-path", *FITTED.values())
        runs = {p: bench.run(p, given["budget"] * work.setting.saturation, ages=True) for p in policies}
        for factor in lab.given["freshness"]["factors"]:
            bounds = work.setting.bounds(factor)
            shares = {p: _part(r.stale(bounds, since), r.results[since:].sum()) for p, r in runs.items()}
            yield Unbound(plan, factor, shares)


def _part(some: float, of_all: float) -> float:
    return float(some / of_all) if of_all else float("nan")


def fresh_rows(found: Found) -> list[dict[str, Any]]:
    """For the report."""
    rows: list[dict[str, Any]] = [
        {
            "experiment": "rows-fresh", "plan": f.plan, "factor": f.factor, "feasible": f.feasible,
            "results": {p: round(n, 3) for p, n in f.results.items()}, "stale": dict(f.stale),
            "freshness_share": round(f.share, 4), "problem": f.problem,
            "reached": None if np.isnan(f.reached) else round(f.reached, 4),
        }
        for f in found.bound
    ]  # fmt: skip
    rows += [
        {"experiment": "rows-stale", "plan": u.plan, "factor": u.factor,
         "stale": {p: round(s, 4) for p, s in u.stale.items()}}
        for u in found.unbound
    ]  # fmt: skip
    return rows + [
        {"experiment": "rows-feasible", "plan": p, "factor": f, "feasible": sum(each), "drawn": len(each)}
        for (p, f), each in found.drawn.items()
    ]
