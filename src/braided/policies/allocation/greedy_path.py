"""GrePP: the most productive path first, as far as its stream's rows go (jaqpot, section 4.1).

What a probe is worth shows only at the root. A path's productivity is results per probe *anywhere* along
it, with all that is produced consumed. Budget goes to the best path until all its rows probe, then to the
next. Paths share half-joins, but nothing else: rows of both simply add up there, so this is a fractional
knapsack, and the greedy is optimal for the model.

| paper | here |
| --- | --- |
| rho_p(Path^I) (Eq. 8) | `Path.productivity` |
| M_I x X^I | rows x `Path.cost`; here `rows` of the stream are what is chosen |
| - (the cap) | `Path.rate`: no more rows than arrive |

A path that yields nothing (its states are empty) comes last, but is used if budget is left: that is how
missing intermediates are rebuilt.

>>> from braided.policies.allocation.question import Question
>>> from braided.policies.plan_model import plan_model
>>> model = plan_model((("a", "b"), "c"), {"a": 500, "b": 700, "c": 300},
...     sizes={"a": 5000, "b": 500, "c": 1000, ("a", "b"): 200},
...     selectivity={("a", "b"): 0.001, (("a", "b"), "c"): 0.005})
>>> best = allocate(Question(model, 300))
>>> {str(h): round(n, 9) for h, n in best.allowances.items()}
{'a>b': 0.0, 'b>a': 50.0, '(a b)>c': 250.0, 'c>(a b)': 0.0}
>>> round(best.output, 9), best.reason
(1250.0, 'best paths first: b (4.167 results a probe): 50 of 700 rows')
"""

from __future__ import annotations

from collections.abc import Sequence

from braided.policies.allocation.question import Allocation, Question, answer, spread
from braided.policies.plan_model import Path


def allocate(question: Question) -> Allocation:
    """The best path first."""
    paths = question.model.paths
    rows = best_first(paths, question.budget)
    allowances = spread(question.model, paths, rows)
    return answer(question, allowances, f"best paths first: {in_words(paths, rows)}")


def best_first(
    paths: Sequence[Path], budget: float, caps: Sequence[float] | None = None
) -> tuple[float, ...]:
    """Rows of each path, best productivity first, at most `caps` (all that arrive) and the budget in all."""
    rows = [0.0] * len(paths)
    left = budget
    for i in sorted(range(len(paths)), key=lambda i: -paths[i].productivity):
        cap = paths[i].rate if caps is None else caps[i]
        rows[i] = max(0.0, min(cap, left / paths[i].cost))
        left -= rows[i] * paths[i].cost
    return tuple(rows)


def in_words(paths: Sequence[Path], rows: Sequence[float]) -> str:
    """Who may probe, best first."""
    used = [(path, n) for path, n in zip(paths, rows, strict=True) if n > 0]
    used.sort(key=lambda item: -item[0].productivity)
    return ", ".join(
        f"{path.stream} ({path.productivity:.4g} results a probe): {n:.4g} of {path.rate:.4g} rows"
        for path, n in used
    )
