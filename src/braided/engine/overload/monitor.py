"""Monitoring: averages of what an allocation depends on, and what has moved since it was made (jaqpot, 4.4).

Each batch's numbers (rates, state sizes, selectivities, the budget, bounds on age) go into averages over
about `window` batches: the plain mean at first, later each batch weighs 1 / window. A selectivity that is
only assumed, because nothing is known yet, is no part of a mean. A number has *moved* if its average differs
from what it was at the last analysis by more than epsilon of that.

>>> from braided.policies.allocation.question import Question
>>> from braided.policies.plan_model import plan_model
>>> def question(rate):
...     return Question(plan_model(("a", "b"), {"a": rate, "b": 10}, windows={"a": 5, "b": 5},
...         selectivity={("a", "b"): 0.1}), budget=20)
>>> monitor = Monitor(window=2)
>>> monitor.observe(question(500))
>>> monitor.before = monitor.averages  # there was an analysis
>>> monitor.observe(question(1500))
>>> monitor.moved(0.08)
('rate of a: 500 -> 1000', 'size of a: 2500 -> 5000')
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

from braided.policies.allocation.question import Question
from braided.policies.plan_model import plan_model
from braided.query.plan_tree import HalfJoin, Plan, label

Numbers: TypeAlias = dict[str, float]
_AGE = "age allowed to "  # bounds come once it is known how long a batch is


class Monitor:
    """Averages of a plan's numbers, by what they are in words."""

    saved = ("batches", "averages", "before")

    def __init__(self, window: int = 8) -> None:
        self._window = window
        self.batches: dict[str, int] = {}  # that each average is over, up to the window
        self.averages: Numbers = {}  # never changed in place
        self.before: Numbers = {}  # the averages at the last analysis: what moves is measured from them

    def observe(self, question: Question) -> None:
        """Take in one batch's numbers; those of another plan start afresh."""
        numbers = numbers_of(question)
        if _of_plan(numbers) != _of_plan(self.averages):
            self.batches, self.averages, self.before = {}, {}, {}
        assumed = {_selectivity(half_join) for half_join in question.model.assumed}
        before, moved, counts = self.averages, dict(self.averages), dict(self.batches)
        for name, value in numbers.items():
            n = counts[name] = 0 if name in assumed else min(counts.get(name, 0) + 1, self._window)
            moved[name] = before[name] + (value - before[name]) / n if n > 1 else value
        self.averages, self.batches = moved, counts

    def moved(self, epsilon: float) -> tuple[str, ...]:
        """What moved by more than epsilon since the last analysis, in words; nothing if there was none."""
        new = self.averages.keys() - self.before.keys() if self.before else ()
        return tuple(
            f"{name}: {before:.4g} -> {now:.4g}"
            for name, before in self.before.items()
            if abs((now := self.averages.get(name, before)) - before) > epsilon * abs(before)
        ) + tuple(f"{name}: {self.averages[name]:.4g}" for name in sorted(new))

    def question(self, like: Question) -> Question:
        """Return the question with the averages; sizes that followed from the rest follow again."""
        model, now = like.model, self.averages
        sizes: dict[Plan, float] = {
            n: now[f"size of {label(n)}"] for n in model.sizes if n in model.rates or n in model.given
        }
        selectivity: dict[Plan | HalfJoin, float] = {h: now[_selectivity(h)] for h in model.selectivities}
        rates = {stream: now[f"rate of {stream}"] for stream in model.rates}
        averaged = plan_model(
            model.plan, rates, sizes=sizes, selectivity=selectivity, orders=model.orders, caps=model.caps,
            limits=model.limits,
        )  # fmt: skip
        bounds = {stream: now[f"{_AGE}{stream}"] for stream in like.freshness}
        return dataclasses.replace(like, model=averaged, budget=now["budget"], freshness=bounds)


def numbers_of(question: Question) -> Numbers:
    """All that an allocation depends on; sizes that follow from the rest are left out."""
    model = question.model
    return {
        **{f"rate of {stream}": rate for stream, rate in model.rates.items()},
        **{
            f"size of {label(n)}": rows
            for n, rows in model.sizes.items()
            if n in model.rates or n in model.given
        },
        **{_selectivity(h): share for h, share in model.selectivities.items()},
        "budget": question.budget,
        **{f"{_AGE}{stream}": bound for stream, bound in question.freshness.items()},
    }


def _of_plan(numbers: Mapping[str, float]) -> set[str]:
    return {name for name in numbers if not name.startswith(_AGE)}


def _selectivity(half_join: HalfJoin) -> str:
    return f"selectivity of {half_join}"
