"""SBestHJP: to each operator in proportion to its selectivity, inside it the best half-join first.

jaqpot, Appendix B, Table 4, corrected: 50 rows of b at 5 matches each make 250 rows, not 150, so that all 250
allowed rows of join 2 exist and 1250 results come out, not 750; nothing is wasted. In that example it finds
the optimum.

| paper | here |
| --- | --- |
| sigma of an operator | `PlanModel.selectivity`, the mean over its half-joins |
| mu sigma / sum of sigma | its part; `redistribute` gives what it cannot use to the others (ours) |

>>> from braided.policies.allocation.question import Question
>>> from braided.policies.plan_model import plan_model
>>> model = plan_model((("a", "b"), "c"), {"a": 500, "b": 700, "c": 300},
...     sizes={"a": 5000, "b": 500, "c": 1000, ("a", "b"): 200},
...     selectivity={("a", "b"): 0.001, (("a", "b"), "c"): 0.005})
>>> answer = allocate(Question(model, 300))
>>> {str(h): round(n, 9) for h, n in answer.allowances.items()}, round(answer.output, 9)
({'a>b': 0.0, 'b>a': 50.0, '(a b)>c': 250.0, 'c>(a b)': 0.0}, 1250.0)
"""

from __future__ import annotations

from braided.policies.allocation.by_operator import divide_by_operator
from braided.policies.allocation.question import Allocation, Question, at_half_joins
from braided.query.plan_tree import label


def allocate(question: Question, *, redistribute: bool = False) -> Allocation:
    """Operators by selectivity."""
    model = question.model
    weights = [model.selectivity(operator) for operator in model.operators]
    allowances = divide_by_operator(question, weights, redistribute=redistribute)
    first = max(model.operators, key=model.selectivity)
    reason = f"operators by selectivity, most to {label(first)}, there the best half-join first"
    return at_half_joins("selectivity-best", question, allowances, reason)
