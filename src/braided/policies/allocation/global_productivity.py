"""GlobalHJPR: to each half-join in proportion to its productivity (jaqpot, Appendix B, Table 4).

| paper | here |
| --- | --- |
| mu rho_h / sum of rho_h | exact parts; the paper rounds 26.09 up to 27 |
| lambda' <= lambda | cut off at what arrives; `redistribute` gives what is cut off to the others (ours) |

>>> from braided.policies.allocation.question import Question
>>> from braided.policies.plan_model import plan_model
>>> model = plan_model((("a", "b"), "c"), {"a": 500, "b": 700, "c": 300},
...     sizes={"a": 5000, "b": 500, "c": 1000, ("a", "b"): 200},
...     selectivity={("a", "b"): 0.001, (("a", "b"), "c"): 0.005})
>>> answer = allocate(Question(model, 300))
>>> {str(h): round(n, 2) for h, n in answer.allowances.items()}, round(answer.output, 2)
({'a>b': 13.04, 'b>a': 130.43, '(a b)>c': 130.43, 'c>(a b)': 26.09}, 678.26)
"""

from __future__ import annotations

from braided.policies.allocation.by_half_join import divide_by_half_join
from braided.policies.allocation.question import Allocation, Question, at_half_joins


def allocate(question: Question, *, redistribute: bool = False) -> Allocation:
    """Parts in proportion to productivity."""
    model = question.model
    weights = [model.productivity(h) for h in model.half_joins]
    allowances = divide_by_half_join(question, weights, redistribute=redistribute)
    best = max(model.half_joins, key=model.productivity)
    reason = f"in proportion to productivity, most to {best} ({model.productivity(best):.4g} matches a probe)"
    return at_half_joins("global-productivity", question, allowances, reason)
