"""The fluid sweeps of the jaqpot lab: budgets (Figure 7) and changing selectivities (Figure 6).

Everything is computed with the paper's model (`policies.flow`): nothing is run, nothing is random but the
settings. The four heuristics come twice: as the paper has them, where budget that a half-join or operator
cannot use is lost, and "redistributed", where it goes to the others.

*Random shedding*, from outside: each stream's rows are dropped with probability 1 - z before they are stored.
With count windows, as here, states keep their sizes (their rows are older, by 1 / z), so probes and results
are both z times those of the full flow, and z is the part of the saturation that there is budget for. With
time windows states shrink as well: see `jaqpot_flat`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.policies.allocation import dp_knapsack, greedy_path, heuristics, jaqpot
from braided.policies.allocation.question import Allocate, Question
from braided.policies.flow import predict
from braided.policies.freshness import plan_freshness
from braided.policies.plan_model import PlanModel, frozen, plan_model
from braided.policies.sharing import fill
from braided.query.plan_tree import HalfJoin, Plan, operators
from braided_lab.jaqpot_settings import PLANS, Lab, Setting

Floats = NDArray[np.float64]
HEURISTICS: dict[str, Callable[..., Any]] = {
    "equal-halfjoin": heuristics.equal_halfjoin,
    "global-productivity": heuristics.global_productivity,
    "equal-best": heuristics.equal_best,
    "selectivity-best": heuristics.selectivity_best,
}
REDISTRIBUTED: dict[str, Allocate] = {
    f"{name}, redistributed": partial(allocate, share=fill) for name, allocate in HEURISTICS.items()
}
POLICIES: dict[str, Allocate] = {
    "jaqpot": jaqpot.allocate,
    "greedy-path": greedy_path.allocate,
    "dp-knapsack": dp_knapsack.allocate,
    **HEURISTICS,
    **REDISTRIBUTED,
}
SHEDDING = "random shedding"


@dataclass(frozen=True)
class Sweep:
    """Results as shares of those at saturation, by policy: settings down, budgets across.

    `kept` is 1 where jaqpot can keep its bounds on age; where it cannot, it is best paths first.
    """

    range: str
    plan: str
    budgets: tuple[float, ...]
    shares: Mapping[str, Floats]
    kept: Floats

    def between(self, low: float, high: float) -> Sweep:
        """Only some budgets."""
        kept = [i for i, b in enumerate(self.budgets) if low - 1e-9 <= b <= high + 1e-9]
        shares = {policy: share[:, kept] for policy, share in self.shares.items()}
        budgets = tuple(self.budgets[i] for i in kept)
        return replace(self, budgets=budgets, shares=shares, kept=self.kept[:, kept])

    def best(self, policies: Sequence[str]) -> Floats:
        """The best of some policies, for each setting and budget."""
        found: Floats = np.max([self.shares[policy] for policy in policies], axis=0)
        return found

    def times_best(self, policies: Sequence[str]) -> Floats:
        """How many times the best of some policies jaqpot yields, for each setting and budget."""
        ratio: Floats = self.shares["jaqpot"] / self.best(policies)
        return ratio

    def leading(self, policies: Sequence[str]) -> str:
        """Of some policies the one that yields most on average."""
        return max(policies, key=lambda policy: float(self.shares[policy].mean()))


def sweep(lab: Lab, range_: str, plan: str) -> Sweep:
    """All policies at all budgets; jaqpot keeps its bounds on age, the others know none."""
    settings = list(lab.settings(range_, plan))
    budgets = tuple(lab.given["budgets"])
    factor = lab.given["sweep_freshness"]
    by_policy = {
        policy: np.array([[share(setting, part, policy, factor) for part in budgets] for setting in settings])
        for policy in (*POLICIES, SHEDDING)
    }
    kept = np.array([[float(keeps(setting, part, factor)) for part in budgets] for setting in settings])
    return Sweep(range_, plan, budgets, by_policy, kept)


def keeps(setting: Setting, part: float, factor: float) -> bool:
    """Whether bounds of so many windows can be kept with a part of the saturation."""
    return plan_freshness(setting.model, setting.bounds(factor), part * setting.saturation).feasible


def sweeps(lab: Lab, say: Callable[[str], object]) -> list[Sweep]:
    """All ranges and plans."""
    found = []
    for range_ in lab.given["ranges"]:
        for plan in PLANS:
            say(f"budgets: {plan} plan, range {range_}")
            found.append(sweep(lab, range_, plan))
    return found


def share(setting: Setting, part: float, policy: str, factor: float) -> float:
    """Results as a share of those at saturation."""
    if policy == SHEDDING:
        return predict(shed(setting.model, part)).output / setting.full.output
    asked = setting.question(part, factor if policy == "jaqpot" else None)
    return POLICIES[policy](asked).output / setting.full.output


def shed(model: PlanModel, kept: float) -> PlanModel:
    """The model with only so many rows of each stream, states as they were (count windows)."""
    return replace(model, rates=frozen({stream: kept * rate for stream, rate in model.rates.items()}))


def sweep_rows(found: Sweep) -> list[dict[str, Any]]:
    """For the report: means over settings."""
    return [
        {
            "experiment": "budget", "range": found.range, "plan": found.plan, "policy": policy,
            "budget": budget, "share": round(float(shares[:, i].mean()), 6),
            "p10": round(float(np.quantile(shares[:, i], 0.1)), 6),
            "p90": round(float(np.quantile(shares[:, i], 0.9)), 6),
        }
        for policy, shares in found.shares.items()
        for i, budget in enumerate(found.budgets)
    ]  # fmt: skip


@dataclass(frozen=True)
class Course:
    """Results per second in each phase by policy (settings down, phases across), and all of them over time.

    `budget` says whether probes stay what they were in the first phase ("fixed") or move with saturation.
    """

    plan: str
    budget: str
    seconds: tuple[float, ...]
    rates: Mapping[str, Floats]

    @property
    def totals(self) -> dict[str, Floats]:
        """Results of the whole run, for each setting."""
        return {policy: rates @ np.array(self.seconds) for policy, rates in self.rates.items()}


FROZEN = "jaqpot, never adapted"


def courses(lab: Lab) -> list[Course]:
    """Both plans, budgets fixed and moving."""
    return [course(lab, plan, b) for plan in lab.given["changes"]["plans"] for b in ("fixed", "moving")]


def course(lab: Lab, plan: str, budget: str) -> Course:
    """Selectivities change twice; every policy divides its budget anew at once."""
    given = lab.given["changes"]
    ends = [*given["at"], given["minutes"]]
    seconds = tuple(60.0 * (end - start) for start, end in zip([0, *given["at"]], ends, strict=True))
    by_setting = [_phases(lab, s, budget) for s in lab.settings("table-3", plan)]
    names = (*POLICIES, FROZEN)
    return Course(
        plan, budget, seconds, {name: np.array([found[name] for found in by_setting]) for name in names}
    )


def _phases(lab: Lab, setting: Setting, budget: str) -> dict[str, list[float]]:
    """Results per second of each policy in each phase."""
    given = lab.given["changes"]
    phases = [Setting(_with(setting.model, s)) for s in given["selectivities"].values()]
    first = phases[0].saturation
    asked = [
        replace(p.question(given["budget"], given["freshness"]),
                budget=given["budget"] * (first if budget == "fixed" else p.saturation))
        for p in phases
    ]  # fmt: skip
    found = {name: [_adapted(name, question) for question in asked] for name in POLICIES}
    frozen_ = jaqpot.allocate(asked[0]).allowances
    found[FROZEN] = [predict(question.model, frozen_).output for question in asked]
    return found


def _adapted(policy: str, question: Question) -> float:
    asked = question if policy == "jaqpot" else replace(question, freshness={})
    return POLICIES[policy](asked).output


def _with(model: PlanModel, selectivities: Sequence[float]) -> PlanModel:
    """The same rates and sizes, other selectivities, in the order of the operators."""
    by_operator: dict[Plan | HalfJoin, float] = dict(zip(operators(model.plan), selectivities, strict=True))
    return plan_model(model.plan, model.rates, sizes=model.sizes, selectivity=by_operator)


def course_rows(found: Course) -> list[dict[str, Any]]:
    """For the report: means over settings."""
    return [
        {
            "experiment": "changes", "plan": found.plan, "budget": found.budget, "policy": policy,
            "results_per_second": [round(float(r), 3) for r in rates.mean(axis=0)],
            "total": round(float(found.totals[policy].mean()), 1),
        }
        for policy, rates in found.rates.items()
    ]  # fmt: skip
