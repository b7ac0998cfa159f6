"""Changing selectivities in the join (Figure 6): SEL1, from 3 minutes on SEL2, from 7 minutes on SEL3.

The paper's selectivities, literally, in states of 100 to 300 rows: productivities of 1 to 30. Keys of new
rows come from fewer values after a change; stored rows keep theirs, so it shows as states are refilled.
The budget is 30 % of the saturation under SEL1 and stays. Rows in results may be 1.5 windows old, as in the
paper, and the join keeps that under every policy; beside it the same without bounds on age.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from braided_lab.jaqpot_engine import FITTED, NEVER, Bench, Floats
from braided_lab.jaqpot_model import HEURISTICS
from braided_lab.jaqpot_settings import PLANS, Lab, draw_model
from braided_lab.jaqpot_workload import Workload, with_selectivities

POLICIES = ("jaqpot", NEVER, *HEURISTICS, *FITTED.values())


@dataclass(frozen=True)
class Changing:
    """Results of each batch by policy, settings down; by setting what jaqpot took, and why bounds fail."""

    plan: str
    factor: float | None
    minute: int
    results: Mapping[str, Floats]
    taken: tuple[tuple[int, int], ...]
    problems: tuple[str, ...]

    @property
    def totals(self) -> dict[str, list[float]]:
        """Results of the whole run by policy, setting by setting."""
        return {policy: n.sum(axis=1).tolist() for policy, n in self.results.items()}


def changes(lab: Lab, say: Callable[[str], object]) -> list[Changing]:
    """Both plans, with bounds on age and without."""
    found = []
    for plan in lab.given["changes"]["plans"]:
        for factor in (lab.given["changes"]["freshness"], None):
            bounds = "no bounds" if factor is None else f"bounds of {factor} windows"
            say(f"join, changing selectivities: {plan} plan, {bounds}")
            found.append(_changing(lab, plan, factor))
    return found


def _changing(lab: Lab, plan: str, factor: float | None) -> Changing:
    minute = lab.size["rows_minute"]
    results: dict[str, list[Floats]] = {policy: [] for policy in POLICIES}
    taken, problems = [], []
    for number in range(lab.size["rows_changes"]):
        bench, probes = _bench(lab, plan, number, minute, factor)
        for policy in POLICIES:
            run = bench.run(policy, probes)
            results[policy].append(run.results)
            if policy == "jaqpot":
                records = run.seen.rationing.adaptations if run.seen.rationing is not None else ()
                taken.append((sum(r.taken for r in records), len(records)))
                problems.append(run.problem)
    arrays = {p: np.array(n) for p, n in results.items()}
    return Changing(plan, factor, minute, arrays, tuple(taken), tuple(problems))


def _bench(lab: Lab, plan: str, number: int, minute: int, factor: float | None) -> tuple[Bench, float]:
    """Rows of ten minutes with two changes, and the budget."""
    given, rows = lab.given["changes"], lab.given["rows"]["changes"]
    rng = lab.rng("rows-changes", plan, number)
    drawn = draw_model(rng, PLANS[plan], rows["range"])
    phases = [
        Workload(with_selectivities(drawn, dict(zip(drawn.operators, values, strict=True))))
        for values in given["selectivities"].values()
    ]
    bench = Bench(phases[0], rng, 0, factor)
    ends = [*given["at"], given["minutes"]]
    for at in range(given["minutes"] * minute):
        phase = next(i for i, end in enumerate(ends) if at < end * minute)
        bench.batches.append(phases[phase].batch(rng, float(at)))
    return bench, rows["budget"] * phases[0].setting.saturation


def change_rows(found: list[Changing]) -> list[dict[str, Any]]:
    """For the report: results of each minute."""
    return [
        {
            "experiment": "rows-changes", "plan": c.plan, "factor": c.factor, "policy": policy,
            "minutes": n.mean(axis=0).reshape(-1, c.minute).sum(axis=1).round(1).tolist(),
            "totals": c.totals[policy],
            **({"taken": c.taken, "problems": c.problems} if policy == "jaqpot" else {}),
        }
        for c in found
        for policy, n in c.results.items()
    ]  # fmt: skip
