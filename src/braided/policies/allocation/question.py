"""What an allocation of probes is asked and answers: frozen values, the same for all of them.

A budget of probes per unit of time is divided among the half-joins of a plan; one probe is one row, of a
stream or an intermediate, looked up in one partner state. An answer never allows more than the budget in
all, nor more rows at a half-join than reach it when every row may probe. Fractions are allowed; `credit`
carries them over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from braided.policies.flow import Flow, predict
from braided.policies.freshness import FreshnessPlan
from braided.policies.plan_model import Path, PlanModel, frozen
from braided.query.plan_tree import HalfJoin


@dataclass(frozen=True)
class Question:
    """A plan in numbers, probes per unit of time, and how old rows of each stream may be in results.

    With `settle` an intermediate state whose size was derived shrinks when it is fed less, as one does
    whose rows expire with their first expiring component (see `flow`); without it sizes are as given, as in
    the paper. `weights` say which streams' bounds count more (1 if not named), if not all can be kept.
    """

    model: PlanModel
    budget: float
    freshness: Mapping[str, float] = field(default_factory=dict)
    settle: bool = False
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Allocation:
    """How many rows may probe at each half-join per unit of time, and why.

    `freshness_spent` of these probes keep results fresh: those of the `cover`. `expected` is the flow that
    the model predicts under the allowances.
    """

    allowances: Mapping[HalfJoin, float]
    expected: Flow
    reason: str
    freshness_spent: float = 0.0
    freshness: FreshnessPlan | None = None
    cover: Mapping[HalfJoin, float] = field(default_factory=dict)

    @property
    def spent(self) -> float:
        """Probes allowed in all."""
        return math.fsum(self.allowances.values())

    @property
    def output(self) -> float:
        """Results expected per unit of time."""
        return self.expected.output


Allocate: TypeAlias = Callable[[Question], Allocation]


def answer(
    question: Question,
    allowances: Mapping[HalfJoin, float],
    reason: str,
    freshness: FreshnessPlan | None = None,
) -> Allocation:
    """Return the allocation with the flow that follows from it."""
    flow = predict(question.model, allowances, settle=question.settle)
    if freshness is None or not freshness.rows:
        return Allocation(frozen(allowances), flow, reason, freshness=freshness)
    rows = [freshness.rows.get(path.stream, 0.0) for path in question.model.paths]
    cover = frozen(spread(question.model, question.model.paths, rows))
    return Allocation(frozen(allowances), flow, reason, freshness.spent, freshness, cover)


def spread(model: PlanModel, paths: Iterable[Path], rows: Iterable[float]) -> dict[HalfJoin, float]:
    """Return the probes at each half-join if this number of rows of each path goes all along it."""
    probes = dict.fromkeys(model.half_joins, 0.0)
    for path, n in zip(paths, rows, strict=True):
        for half_join, phi in zip(path.half_joins, path.phi[:-1], strict=True):
            probes[half_join] += n * phi
    return probes
