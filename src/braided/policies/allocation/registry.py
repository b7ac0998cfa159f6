"""All allocations of probes, by the names that `Overload(allocation=...)` knows."""

from __future__ import annotations

from braided.policies.allocation import dp_knapsack, greedy_path, heuristics, jaqpot, least_loss
from braided.policies.allocation.question import Allocate

ALLOCATIONS: dict[str, Allocate] = {
    "jaqpot": jaqpot.allocate,
    "least-loss": least_loss.allocate,
    "greedy-path": greedy_path.allocate,
    "dp-knapsack": dp_knapsack.allocate,
    "best-halfjoin": heuristics.best_halfjoin,
    "equal-halfjoin": heuristics.equal_halfjoin,
    "global-productivity": heuristics.global_productivity,
    "equal-best": heuristics.equal_best,
    "selectivity-best": heuristics.selectivity_best,
}
