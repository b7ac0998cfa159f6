"""Freshness in the fluid model: what it costs, when it cannot be had, and how stale results are without it.

*Infeasible* plans and the *share of the budget* that keeps bounds come from `policies.freshness`.

*Staleness* (Figure 9) is counted: results are drawn at random from the steady flow, with the age of each of
their rows. A row that drives a probe is new. A row found in a state has been there for a time between 0 and
abs(S) / (rows that come in per second), all equally likely, for a count window forgets the oldest first; if
it is an intermediate, its parts had ages of their own when it was made, and so on down to the leaves.
The oldest that can be drawn is the sum of Lemma 1, so nothing stale is drawn where the lemma holds. A state
that nothing feeds is infinitely old; windows here last some seconds, so ten minutes come to the same.

*Purging* drops what is too old before it is joined: of a policy without cover its fresh results remain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from braided.policies.allocation.question import Allocation
from braided.policies.flow import Flow
from braided.policies.plan_model import PlanModel
from braided.query.plan_tree import Plan
from braided_lab.jaqpot_model import HEURISTICS, POLICIES
from braided_lab.jaqpot_settings import PLANS, Lab, Setting

Floats = NDArray[np.float64]
Ages = dict[str, Floats]
COMPARED = ("jaqpot", "greedy-path", *HEURISTICS)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Case:
    """One setting under one budget and one bound: is there a cover, what does it cost, what is stale?

    `stale` are shares of each policy's results, not a number where it has none; `results` are per second, as
    a share of those at saturation.
    """

    range: str
    plan: str
    number: int
    budget: str
    factor: float
    feasible: bool
    reached: bool
    cost: float
    results: Mapping[str, float]
    stale: Mapping[str, float]

    def fresh(self, policy: str) -> float:
        """Results that are not stale, as a share of those at saturation."""
        return self.results[policy] * (1 - self.stale[policy]) if self.results[policy] else 0.0


def cases(lab: Lab, say: Callable[[str], object]) -> list[Case]:
    """All ranges, plans, settings, budgets and bounds."""
    found: list[Case] = []
    for range_ in lab.given["ranges"]:
        for plan in PLANS:
            say(f"freshness: {plan} plan, range {range_}")
            for number, setting in enumerate(lab.settings(range_, plan)):
                rng = lab.rng("ages", range_, plan, number)
                found += _of_setting(lab, (range_, plan, number), setting, rng)
    return found


def _of_setting(
    lab: Lab, which: tuple[str, str, int], setting: Setting, rng: np.random.Generator
) -> Iterator[Case]:
    for budget, part in _budgets(lab, setting).items():
        drawn: dict[str, Ages] = {}
        for factor in lab.given["freshness"]["factors"]:
            answers = {p: POLICIES[p](setting.question(part, _bound(p, factor))) for p in COMPARED}
            for policy in COMPARED if not drawn else ("jaqpot",):  # the others do not know of bounds
                drawn[policy] = ages(
                    rng, setting.model, answers[policy].expected, lab.size["results_sampled"]
                )
            stale = {p: stale_share(drawn[p], setting.bounds(factor)) for p in COMPARED}
            results = {p: a.output / setting.full.output for p, a in answers.items()}
            yield Case(*which, budget, factor, *_cover(answers["jaqpot"]), results, stale)


def _budgets(lab: Lab, setting: Setting) -> dict[str, float]:
    """Parts of the saturation, and the paper's 300 probes a second, which is next to nothing of Table 3's."""
    probes = lab.given["freshness"]["paper_probes"]
    parts = {f"{part:.0%}": part for part in lab.given["freshness"]["budgets"]}
    return {**parts, f"{probes} probes": probes / setting.saturation}


def _bound(policy: str, factor: float) -> float | None:
    return factor if policy == "jaqpot" else None


def _cover(answer: Allocation) -> tuple[bool, bool, float]:
    """Is there a cover, are all refresh rates reached, and which part of what is allowed does it take?"""
    plan = answer.freshness
    assert plan is not None
    if not plan.feasible:
        return False, False, float("nan")
    arrivals = answer.expected.arrivals
    reached = all(arrivals[state] >= rate * (1 - 1e-6) for state, rate in plan.refresh.items())
    return True, reached, answer.freshness_spent / answer.spent if answer.spent else 0.0


def ages(rng: np.random.Generator, model: PlanModel, flow: Flow, many: int) -> Ages:
    """Results drawn from a steady flow: how old the row of each stream is in each of them, in seconds."""
    return _ages(rng, model, flow, model.plan, many)


def _ages(rng: np.random.Generator, model: PlanModel, flow: Flow, node: Plan, many: int) -> Ages:
    """Ages of the parts of rows of a node at the moment they are made."""
    if isinstance(node, str):
        return {node: np.zeros(many)}
    drivers = rng.choice(len(node), many, p=_drivers(model, flow, node))
    found: Ages = {}
    for number, child in enumerate(node):
        waited = np.where(drivers == number, 0.0, rng.random(many) * _residence(flow, child))
        found |= {s: age + waited for s, age in _ages(rng, model, flow, child, many).items()}
    return found


def _drivers(model: PlanModel, flow: Flow, operator: Plan) -> Floats:
    """Which part of an operator's rows each of its inputs has driven."""
    last = [direction[-1] for direction in model.directions(operator)]
    made = np.array([flow.probes[h] * model.selectivities[h] * flow.sizes[h.probed] for h in last])
    total = made.sum()
    found: Floats = made / total if total > 0 else np.full(len(last), 1 / len(last))
    return found


def _residence(flow: Flow, state: Plan) -> float:
    """How long rows stay; as good as for ever where none come in."""
    coming = flow.arrivals[state]
    return flow.sizes[state] / coming if coming > 0 else 1e300


def stale_share(drawn: Ages, bounds: Mapping[str, float]) -> float:
    """The share of drawn results with a row older than its stream's bound."""
    too_old = [age > bounds[stream] * (1 + _ROUNDING) for stream, age in drawn.items()]
    return float(np.any(too_old, axis=0).mean())


def freshness_rows(found: list[Case]) -> list[dict[str, Any]]:
    """For the report: shares of plans, of budgets and of results, over settings."""
    groups: dict[tuple[str, str, float, str], list[Case]] = {}
    for case in found:
        groups.setdefault((case.range, case.plan, case.factor, case.budget), []).append(case)
    return [
        {
            "experiment": "freshness", "range": range_, "plan": plan, "factor": factor, "budget": budget,
            "infeasible": share_of(group, lambda c: not c.feasible),
            "freshness_share": mean([c.cost for c in group if c.feasible]),
            "stale": {p: stale_mean(group, p) for p in COMPARED},
        }
        for (range_, plan, factor, budget), group in groups.items()
    ]  # fmt: skip


def share_of(group: list[Case], holds: Callable[[Case], bool]) -> float:
    """The share of cases for which something holds."""
    return round(sum(map(holds, group)) / len(group), 4)


def stale_mean(group: list[Case], policy: str) -> float | None:
    """The mean stale share over cases with results; of jaqpot only where there is a cover."""
    counted = [c for c in group if c.results[policy] > 0 and (policy != "jaqpot" or c.feasible)]
    return mean([c.stale[policy] for c in counted])


def mean(values: list[float]) -> float | None:
    """The mean, if there is any."""
    return round(float(np.mean(values)), 4) if values else None
