"""All allocations of probes, by the names that `Overload(allocation=...)` knows.

The paper's four heuristics are here as the paper has them: budget that a half-join or operator cannot use,
because fewer rows arrive, is not given to others. At the rates and selectivities of its Table 3 most of
their distance to JAQPOT comes from that; each takes `redistribute=True` to compare without it.
"""

from __future__ import annotations

from braided.policies.allocation import (
    best_halfjoin,
    dp_knapsack,
    equal_best,
    equal_halfjoin,
    global_productivity,
    greedy_path,
    jaqpot,
    selectivity_best,
)
from braided.policies.allocation.question import Allocate

ALLOCATIONS: dict[str, Allocate] = {
    "jaqpot": jaqpot.allocate,
    "greedy-path": greedy_path.allocate,
    "dp-knapsack": dp_knapsack.allocate,
    "best-halfjoin": best_halfjoin.allocate,
    "equal-halfjoin": equal_halfjoin.allocate,
    "global-productivity": global_productivity.allocate,
    "equal-best": equal_best.allocate,
    "selectivity-best": selectivity_best.allocate,
}
