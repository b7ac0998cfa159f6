"""The jaqpot paper's worked examples: what our allocations answer, against the numbers it prints.

Figures 2 and 10 as their text gives them or Table 4 implies, and Table 2's paths. The paper's numbers are in
the parameters; where the paper truncates or rounds, a part in a hundred is near enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from braided.policies.allocation import dp_knapsack, greedy_path, heuristics
from braided.policies.allocation.question import Allocate, Question
from braided.policies.plan_model import PlanModel, plan_model
from braided.query.plan_tree import HalfJoin, Plan, intermediates, linear
from braided_lab.report import Claim

WITHIN = 0.01
_AB: Plan = ("a", "b")
_ABC: Plan = (_AB, "c")


def figure_2() -> PlanModel:
    """One join."""
    sizes: dict[Plan, float] = {"a": 5000, "b": 500}
    selectivity: dict[Plan | HalfJoin, float] = {HalfJoin("a", "b"): 0.005, HalfJoin("b", "a"): 0.001}
    return plan_model(_AB, {"a": 500, "b": 700}, sizes=sizes, selectivity=selectivity)


def figure_10() -> PlanModel:
    """Two joins; the sizes of C and AB are those that Table 4 implies."""
    sizes: dict[Plan, float] = {"a": 5000, "b": 500, "c": 1000, _AB: 200}
    rates = {"a": 500.0, "b": 700.0, "c": 300.0}
    return plan_model(_ABC, rates, sizes=sizes, selectivity={_AB: 0.001, _ABC: 0.005})


def table_2() -> PlanModel:
    """Two joins with the paths of Table 2: 11 rows of a become 4, 11 of b become 5, 10 of c give 1."""
    sizes: dict[Plan, float] = {"a": 50, "b": 40, "c": 10, _AB: 10}
    selectivity: dict[Plan | HalfJoin, float] = {
        _AB: 1 / 110, HalfJoin(_AB, "c"): 0.1, HalfJoin("c", _AB): 0.01
    }  # fmt: skip
    return plan_model(_ABC, dict.fromkeys("abc", 100.0), sizes=sizes, selectivity=selectivity)


def answers() -> dict[str, list[float]]:
    """What we get, by example."""

    def results(allocate: Allocate, model: PlanModel, budget: float) -> list[float]:
        return [allocate(Question(model, budget)).output]

    found: dict[str, Callable[[], list[float]]] = {
        "Figure 2.a: matches a probe": lambda: [figure_2().productivity(h) for h in figure_2().half_joins],
        "Section 2: BestHJP, 300 probes": lambda: results(heuristics.best_halfjoin, figure_2(), 300),
        "Table 4: EqualHJ": lambda: results(heuristics.equal_halfjoin, figure_10(), 300),
        "Table 4: GlobalHJPR": lambda: results(heuristics.global_productivity, figure_10(), 300),
        "Table 4: EBestHJP": lambda: results(heuristics.equal_best, figure_10(), 300),
        "Table 4: SBestHJP": lambda: results(heuristics.selectivity_best, figure_10(), 300),
        "Section 4.1: 600 probes on the path of b": lambda: [
            600 / figure_10().path("b").cost * phi for phi in figure_10().path("b").phi[:-1]
        ],
        "Table 2: results a probe on each path": lambda: [p.productivity for p in table_2().paths],
        "Section 4.1: dynamic programming, 30 probes": lambda: results(dp_knapsack.allocate, table_2(), 30),
        "Section 4.1: GrePP, 30 probes": lambda: results(greedy_path.allocate, table_2(), 30),
        "Lemma 2: states to refresh, 3 to 6 streams": lambda: [
            float(len(intermediates(linear([f"s{i}" for i in range(k)])))) for k in range(3, 7)
        ],
    }
    return {name: answer() for name, answer in found.items()}


def claims(given: Mapping[str, Any], found: Mapping[str, list[float]]) -> Iterator[Claim]:
    """One claim for each example; a missing answer is a wrong one."""
    for name, paper in given["examples"].items():
        ours = found.get(name, [])
        same = len(ours) == len(paper) and all(
            abs(o / p - 1) <= WITHIN for o, p in zip(ours, paper, strict=True)
        )
        yield Claim(
            name, _words(paper), _words(ours), "reproduced" if same else "not reproduced",
            given["examples_why"].get(name, ""),
        )  # fmt: skip


def _words(numbers: list[float]) -> str:
    return ", ".join(f"{n:.5g}" for n in numbers)
