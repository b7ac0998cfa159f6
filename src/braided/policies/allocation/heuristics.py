"""The paper's heuristics, which look at half-joins or operators alone (jaqpot, Appendix B, Table 4).

| paper | here |
| --- | --- |
| BestHJP (section 2) | `best_halfjoin`: the most productive half-join first, wherever in the plan |
| EqualHJ: mu / m | `equal_halfjoin`: an equal part for each half-join |
| GlobalHJPR: mu rho_h / sum of rho_h | `global_productivity`: exact parts; the paper rounds up |
| EBestHJP: mu / n | `equal_best`: an equal part for each operator, inside it the best half-join first |
| SBestHJP: mu sigma / sum of sigma | `selectivity_best`: operators by `PlanModel.selectivity` |
| rho_h (Eq. 3) | `Path.productivity` of a direction |
| lambda' = min(mu, lambda) | cut off at what reaches a half-join at full flow |

For one operator of two inputs BestHJP is optimal: a result takes one probe, and goes out. In a plan of
several, half-joins below the root may feed nothing. With more than two inputs a direction, one input's rows
through all half-joins, takes the half-join's place.

The four others are here as the paper has them: budget that a half-join or operator cannot use, because fewer
rows arrive, is not given to others. At the rates and selectivities of its Table 3 most of their distance to
JAQPOT comes from that; each takes `share=fill` to compare without it (ours).

SBestHJP in Table 4 is corrected: 50 rows of b at 5 matches each make 250 rows, not 150, so that all 250
allowed rows of join 2 exist and 1250 results come out, not 750; nothing is wasted. In that example it finds
the optimum.

>>> from braided.policies.plan_model import plan_model
>>> model = plan_model((("a", "b"), "c"), {"a": 500, "b": 700, "c": 300},
...     sizes={"a": 5000, "b": 500, "c": 1000, ("a", "b"): 200},
...     selectivity={("a", "b"): 0.001, (("a", "b"), "c"): 0.005})
>>> [str(h) for h in model.half_joins]
['a>b', 'b>a', '(a b)>c', 'c>(a b)']
>>> def allowed(allocate):
...     best = allocate(Question(model, 300))
...     return [round(n, 2) for n in best.allowances.values()], round(best.output, 2)
>>> allowed(equal_halfjoin), allowed(equal_best)
(([75.0, 75.0, 75.0, 75.0], 450.0), ([0.0, 150.0, 150.0, 0.0], 750.0))
>>> allowed(global_productivity), allowed(selectivity_best)
(([13.04, 130.43, 130.43, 26.09], 678.26), ([0.0, 50.0, 250.0, 0.0], 1250.0))
>>> model = plan_model(("a", "b"), {"a": 500, "b": 700}, sizes={"a": 5000, "b": 500},
...     selectivity={HalfJoin("a", "b"): 0.005, HalfJoin("b", "a"): 0.001})
>>> allowed(best_halfjoin)
([0.0, 300.0], 1500.0)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

from braided.policies.allocation.greedy_path import best_first, in_words
from braided.policies.allocation.question import Allocation, Question, answer, spread
from braided.policies.flow import predict
from braided.policies.plan_model import Path, PlanModel, frozen
from braided.policies.sharing import cut
from braided.query.plan_tree import HalfJoin, Plan, label

Share: TypeAlias = Callable[[float, Sequence[float], Sequence[float]], Sequence[float]]


def best_halfjoin(question: Question) -> Allocation:
    """Allow the best direction first, wherever in the plan."""
    local = list(itertools.chain(*_directions(question.model)))
    rows = best_first(local, question.budget)
    reason = f"best half-joins first: {in_words(local, rows)}"
    return answer(question, spread(question.model, local, rows), reason)


def equal_halfjoin(question: Question, *, share: Share = cut) -> Allocation:
    """Give an equal part to each half-join."""
    reason = f"the same for each of {len(question.model.half_joins)} half-joins"
    return _by_half_join(question, lambda _: 1.0, share, reason)


def global_productivity(question: Question, *, share: Share = cut) -> Allocation:
    """Give parts in proportion to productivity."""
    model = question.model
    best = max(model.half_joins, key=model.productivity)
    reason = f"in proportion to productivity, most to {best} ({model.productivity(best):.4g} matches a probe)"
    return _by_half_join(question, model.productivity, share, reason)


def equal_best(question: Question, *, share: Share = cut) -> Allocation:
    """Give an equal part to each operator."""
    reason = f"the same for each of {len(question.model.operators)} operators, there the best half-join first"
    return _by_operator(question, lambda _: 1.0, share, reason)


def selectivity_best(question: Question, *, share: Share = cut) -> Allocation:
    """Give each operator a part by its selectivity."""
    model = question.model
    first = label(max(model.operators, key=model.selectivity))
    reason = f"operators by selectivity, most to {first}, there the best half-join first"
    return _by_operator(question, model.selectivity, share, reason)


def _by_half_join(
    question: Question, weigh: Callable[[HalfJoin], float], share: Share, reason: str
) -> Allocation:
    """Divide the budget by weights, each half-join at most what reaches it."""
    full = predict(question.model).probes
    parts = share(question.budget, [*map(weigh, full)], [*full.values()])
    return answer(question, dict(zip(full, parts, strict=True)), reason)


def _by_operator(question: Question, weigh: Callable[[Plan], float], share: Share, reason: str) -> Allocation:
    """Divide the budget by weights among operators, then best direction first inside each."""
    model, local = question.model, _directions(question.model)
    caps = [sum(path.full_cost for path in paths) for paths in local]
    parts = share(question.budget, [*map(weigh, model.operators)], caps)
    rows = itertools.chain(*map(best_first, local, parts))
    return answer(question, spread(model, itertools.chain(*local), rows), reason)


def _directions(model: PlanModel) -> list[list[Path]]:
    """Return each operator's directions as paths of a plan that ends there, with what comes at full flow.

    With two inputs a direction is one half-join and its productivity is that half-join's (Eq. 3); with more
    it is the sequence of half-joins of one input's rows, and results per probe count, since a later
    half-join is worth nothing without the earlier ones.
    """
    arrivals = predict(model).arrivals

    def path(direction: tuple[HalfJoin, ...]) -> Path:
        driver = direction[0].driver
        return Path(label(driver), arrivals[driver], direction, model.phi(direction), frozen({driver: 1.0}))

    return [[path(direction) for direction in model.directions(operator)] for operator in model.operators]
