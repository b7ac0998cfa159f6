"""Two levels: first operators, by weights, then the best direction inside each (EBestHJP and SBestHJP)."""

from __future__ import annotations

from collections.abc import Sequence

from braided.policies.allocation.greedy_path import best_first
from braided.policies.allocation.question import Question, local_paths, spread
from braided.policies.flow import predict
from braided.policies.sharing import cut, fill
from braided.query.plan_tree import HalfJoin


def divide_by_operator(
    question: Question, weights: Sequence[float], *, redistribute: bool
) -> dict[HalfJoin, float]:
    """Parts in proportion to the weights; what an operator cannot use goes to the others if redistributed."""
    model = question.model
    full = predict(model)
    local = [local_paths(model, operator, full) for operator in model.operators]
    share = fill if redistribute else cut
    parts = share(question.budget, weights, [sum(path.full_cost for path in paths) for paths in local])
    rows = [best_first(paths, part) for paths, part in zip(local, parts, strict=True)]
    every = [path for paths in local for path in paths]
    return spread(model.half_joins, every, [n for some in rows for n in some])
