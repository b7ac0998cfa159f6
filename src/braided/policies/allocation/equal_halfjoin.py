"""EqualHJ: the same for each half-join (jaqpot, Appendix B, Table 4).

| paper | here |
| --- | --- |
| mu / m | an equal part, cut off at what arrives; `redistribute` gives what is cut off to the others (ours) |

>>> from braided.policies.allocation.question import Question
>>> from braided.policies.plan_model import plan_model
>>> model = plan_model((("a", "b"), "c"), {"a": 500, "b": 700, "c": 300},
...     sizes={"a": 5000, "b": 500, "c": 1000, ("a", "b"): 200},
...     selectivity={("a", "b"): 0.001, (("a", "b"), "c"): 0.005})
>>> answer = allocate(Question(model, 300))
>>> {str(h): n for h, n in answer.allowances.items()}, answer.output
({'a>b': 75.0, 'b>a': 75.0, '(a b)>c': 75.0, 'c>(a b)': 75.0}, 450.0)
"""

from __future__ import annotations

from braided.policies.allocation.by_half_join import divide_by_half_join
from braided.policies.allocation.question import Allocation, Question, at_half_joins


def allocate(question: Question, *, redistribute: bool = False) -> Allocation:
    """An equal part for each half-join."""
    many = len(question.model.half_joins)
    allowances = divide_by_half_join(question, [1.0] * many, redistribute=redistribute)
    return at_half_joins("equal-halfjoin", question, allowances, f"the same for each of {many} half-joins")
