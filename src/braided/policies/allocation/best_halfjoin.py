"""BestHJP: the most productive half-join first (jaqpot, section 2; window-join's regulation of one join).

For one operator of two inputs this is optimal: a result takes one probe, and goes out. For a plan of
several it is what one gets by looking at each half-join alone: half-joins below the root may feed nothing.
With more than two inputs a direction, one input's rows through all half-joins, takes the half-join's place.

| paper | here |
| --- | --- |
| rho_h (Eq. 3) | `Path.productivity` of a direction |
| lambda'_a = min(mu_a, lambda_a) | capped by what reaches the half-join at full flow |

>>> from braided.policies.allocation.question import Question
>>> from braided.policies.plan_model import plan_model
>>> from braided.query.plan_tree import HalfJoin
>>> model = plan_model(("a", "b"), {"a": 500, "b": 700}, sizes={"a": 5000, "b": 500},
...     selectivity={HalfJoin("a", "b"): 0.005, HalfJoin("b", "a"): 0.001})
>>> answer = allocate(Question(model, 300))
>>> {str(h): n for h, n in answer.allowances.items()}, answer.output
({'a>b': 0.0, 'b>a': 300.0}, 1500.0)
"""

from __future__ import annotations

from braided.policies.allocation.greedy_path import best_first, in_words
from braided.policies.allocation.question import Allocation, Question, at_half_joins, local_paths, spread
from braided.policies.flow import predict


def allocate(question: Question) -> Allocation:
    """The best direction first, wherever in the plan."""
    model = question.model
    full = predict(model)
    local = [path for operator in model.operators for path in local_paths(model, operator, full)]
    rows = best_first(local, question.budget)
    allowances = spread(model.half_joins, local, rows)
    return at_half_joins(
        "best-halfjoin", question, allowances, f"best half-joins first: {in_words(local, rows)}"
    )
