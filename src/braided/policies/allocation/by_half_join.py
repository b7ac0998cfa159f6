"""One level: half-joins by weights, each at most what reaches it (EqualHJ and GlobalHJPR)."""

from __future__ import annotations

from collections.abc import Sequence

from braided.policies.allocation.question import Question
from braided.policies.flow import predict
from braided.policies.sharing import cut, fill
from braided.query.plan_tree import HalfJoin


def divide_by_half_join(
    question: Question, weights: Sequence[float], *, redistribute: bool
) -> dict[HalfJoin, float]:
    """Parts in proportion to the weights; what a half-join cannot use goes to the others if redistributed."""
    half_joins = question.model.half_joins
    full = predict(question.model).probes
    share = fill if redistribute else cut
    parts = share(question.budget, weights, [full[h] for h in half_joins])
    return dict(zip(half_joins, parts, strict=True))
