"""JAQPOT: fresh first, then as many results as the rest of the budget buys (jaqpot, Algorithm 1).

The cheapest rows that keep all bounds on age (`policies.freshness`) are allowed first. What is left of the
budget goes to the most productive paths (GrePP), on top of that: the paper's line 3 reads as if GrePP's
assignment replaced the first one, but both are added, and a path gets no more rows than freshness left of
those that arrive.

| paper | here |
| --- | --- |
| delta mu | `Allocation.freshness_spent` |
| PathAssign[I][] | `Allocation.allowances` of the path's half-joins |

*Where it runs.* The paper's intermediates have windows of their own (`PlanModel.caps`, or sizes that are
given). Where they expire with their components nothing can outlive its window, so freshness costs nothing;
but starved states are empty instead of stale, and best paths first would starve them: there `least_loss`
divides the budget. In a flat plan it is best paths first.

*Where bounds cannot be kept*, or none are set and rows of intermediates end, best paths first may starve what
it counts on, too. Then several ways to spend the budget are compared by the model, in which a state holds
what it is fed for as long as its rows may be found: covers of a part of the refresh rates with best paths
first on top, least loss first, and the paper's heuristics. The one that promises most results is taken. The
reason says what all of the bounds would take.

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
>>> allocate(Question(model, 100, {"a": 30.0})).reason.split("; ")[2]
'most results by 25% of freshness: b 50 rows (75 probes)'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from braided.policies.allocation import heuristics, least_loss
from braided.policies.allocation.greedy_path import best_first, in_words
from braided.policies.allocation.guard import guard
from braided.policies.allocation.question import Allocation, Question, answer, spread
from braided.policies.flow import predict
from braided.policies.freshness import FreshnessPlan, covered, part_of, plan_freshness

_PARTS = (1.0, 0.75, 0.5, 0.25)  # of the refresh rates that the budget covers
_HEURISTICS = (
    heuristics.best_halfjoin,
    heuristics.equal_halfjoin,
    heuristics.global_productivity,
    heuristics.equal_best,
    heuristics.selectivity_best,
)


def allocate(question: Question) -> Allocation:
    """Freshness first, the rest to the best paths."""
    model = question.model
    if question.settle and model.settles.issuperset(model.intermediates) and not model.caps:
        return _least_loss(question) if model.settles else _best_paths(question, None)
    fresh = plan_freshness(model, question.freshness, question.budget)
    if fresh.feasible and (any(fresh.rows.values()) or not (question.settle and model.settles)):
        return _best_paths(question, fresh)
    return _most_results(question, fresh)


def _least_loss(question: Question) -> Allocation:
    exact = least_loss.allocate(question)
    return dataclasses.replace(exact, reason=f"{exact.reason} (intermediates expire with their rows)")


def _best_paths(question: Question, fresh: FreshnessPlan | None) -> Allocation:
    """Algorithm 1: the rows of a cover, and what is left of the budget by best paths first."""
    model = question.model
    first = [fresh.rows.get(stream, 0.0) if fresh else 0.0 for stream in model.streams]
    caps = [path.rate - n for path, n in zip(model.paths, first, strict=True)]
    left = question.budget - (fresh.spent if fresh else 0.0)
    rest = best_first(model.paths, left, caps)
    rows = [a + b for a, b in zip(first, rest, strict=True)]
    then = f"best paths first: {in_words(model.paths, rest) or 'nothing left'}"
    reason = "; ".join(filter(None, (_of_freshness(fresh) if fresh else "", then)))
    return answer(question, spread(model, model.paths, rows), reason, fresh)


def _most_results(question: Question, fresh: FreshnessPlan) -> Allocation:
    """What promises most results that are fresh, where bounds cannot be kept, or there are none."""
    best = max(_ways(question, fresh), key=lambda way: _promised(question, fresh, way))
    why = f"not all fresh: {fresh.problem}; " if fresh.problem else ""
    return answer(question, best.allowances, f"{why}most results by {best.reason}", best.freshness or fresh)


def _ways(question: Question, fresh: FreshnessPlan) -> Iterator[Allocation]:
    """Ways to spend the budget."""
    if question.freshness:
        for part in _PARTS:
            cover = part_of(question.model, fresh, question.freshness, part, question.weights)
            if any(cover.rows.values()):
                yield _best_paths(question, cover)
    yield _best_paths(question, None)
    yield least_loss.allocate(question)
    yield from (heuristic(question) for heuristic in _HEURISTICS)


def _promised(question: Question, fresh: FreshnessPlan, way: Allocation) -> float:
    """Results that the model expects, once the budget is used up as a batch would.

    With weights times the part of the refresh rates that comes in: who counts more has been asked for.
    """
    model = question.model
    flow = predict(model, guard(model, way, question.budget), settle=True)
    return flow.output * (covered(model, fresh.refresh, flow, question.weights) if question.weights else 1.0)


def _of_freshness(fresh: FreshnessPlan) -> str:
    rows = ", ".join(f"{stream} {n:.4g} rows" for stream, n in fresh.rows.items() if n > 0)
    part = f"{fresh.part:.0%} of " if fresh.part < 1 else ""
    return f"{part}freshness: {rows} ({fresh.spent:.4g} probes)" if rows else ""
