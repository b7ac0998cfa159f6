"""EBestHJP: the same for each operator, inside it the best half-join first (jaqpot, Appendix B, Table 4).

| paper | here |
| --- | --- |
| mu / n | an equal part for each operator; `redistribute` gives what it cannot use to the others (ours) |
| local BestHJP | the best direction until all its rows probe, then the next |

>>> from braided.policies.allocation.question import Question
>>> from braided.policies.plan_model import plan_model
>>> model = plan_model((("a", "b"), "c"), {"a": 500, "b": 700, "c": 300},
...     sizes={"a": 5000, "b": 500, "c": 1000, ("a", "b"): 200},
...     selectivity={("a", "b"): 0.001, (("a", "b"), "c"): 0.005})
>>> answer = allocate(Question(model, 300))
>>> {str(h): n for h, n in answer.allowances.items()}, answer.output
({'a>b': 0.0, 'b>a': 150.0, '(a b)>c': 150.0, 'c>(a b)': 0.0}, 750.0)
"""

from __future__ import annotations

from braided.policies.allocation.by_operator import divide_by_operator
from braided.policies.allocation.question import Allocation, Question, at_half_joins


def allocate(question: Question, *, redistribute: bool = False) -> Allocation:
    """An equal part for each operator."""
    operators = question.model.operators
    allowances = divide_by_operator(question, [1.0] * len(operators), redistribute=redistribute)
    reason = f"the same for each of {len(operators)} operators, there the best half-join first"
    return at_half_joins("equal-best", question, allowances, reason)
