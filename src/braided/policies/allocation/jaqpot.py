"""JAQPOT: fresh first, then as many results as the rest of the budget buys (jaqpot, Algorithm 1).

The cheapest rows that keep all bounds on age (`policies.freshness`) are allowed first. What is left of the
budget goes to the most productive paths (GrePP), on top of that: the paper's line 3 reads as if GrePP's
assignment replaced the first one, but both are added, and a path gets no more rows than freshness left of
those that arrive.

| paper | here |
| --- | --- |
| delta mu | `Allocation.freshness_spent` |
| PathAssign[I][] | `Allocation.allowances` of the path's half-joins |

If the budget cannot meet the bounds, all of it goes to the most productive paths, and the reason
says what would do. Results are never stale all the same, because the engine drops intermediates that are
too old.

*States that shrink.* If all intermediates expire with their components (`Question.settle`), nothing can
outlive its window, so freshness costs nothing; but starved states are empty instead of stale, and best
paths first would starve them. Then `least_loss` divides the budget.

>>> from braided.policies.allocation.question import Question
>>> from braided.policies.plan_model import plan_model
>>> model = plan_model((("a", "b"), "c"), {"a": 500, "b": 700, "c": 300},
...     sizes={"a": 5000, "b": 700, "c": 9000, ("a", "b"): 2000},
...     selectivity={("a", "b"): 0.0001, (("a", "b"), "c"): 0.001})
>>> fresh = allocate(Question(model, 300, {"a": 30.0}))  # c is most productive, but starves a and b
>>> {str(h): round(n, 6) for h, n in fresh.allowances.items()}, round(fresh.freshness_spent, 6)
({'a>b': 0.0, 'b>a': 200.0, '(a b)>c': 100.0, 'c>(a b)': 0.0}, 300.0)
>>> fresh.reason
'freshness: b 200 rows (300 probes); best paths first: nothing left'
>>> allocate(Question(model, 100, {"a": 30.0})).reason.split(";")[0]
'not fresh: freshness needs 300 probes per unit of time, the budget is 100'
"""

from __future__ import annotations

from braided.policies.allocation import least_loss
from braided.policies.allocation.greedy_path import best_first, in_words
from braided.policies.allocation.question import Allocation, Question, answer, spread
from braided.policies.freshness import FreshnessPlan, plan_freshness


def allocate(question: Question) -> Allocation:
    """Freshness first, the rest to the best paths."""
    model = question.model
    if question.settle and model.settles and model.settles.issuperset(model.intermediates):
        return least_loss.allocate(question)
    fresh = plan_freshness(model, question.freshness, question.budget)
    first = [fresh.rows.get(stream, 0.0) for stream in model.streams]
    caps = [path.rate - n for path, n in zip(model.paths, first, strict=True)]
    left = question.budget - fresh.cost if fresh.feasible else question.budget
    rest = best_first(model.paths, left, caps)
    rows = [a + b for a, b in zip(first, rest, strict=True)]
    then = f"best paths first: {in_words(model.paths, rest) or 'nothing left'}"
    reason = "; ".join(filter(None, (_of_freshness(fresh), then)))
    return answer(question, spread(model, model.paths, rows), reason, fresh)


def _of_freshness(fresh: FreshnessPlan) -> str:
    if not fresh.feasible:
        return f"not fresh: {fresh.problem}"
    rows = ", ".join(f"{stream} {n:.4g} rows" for stream, n in fresh.rows.items() if n > 0)
    return f"freshness: {rows} ({fresh.cost:.4g} probes)" if rows else ""
