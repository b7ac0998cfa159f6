"""How old rows may be in results, in batches: what the allocation of probes is asked to keep (jaqpot, 4.2).

A query says it in time, an allocation thinks in batches. Between them is how far the clock (the largest time
seen) comes in a batch: an average, the plain mean at first, later each batch weighs 1 / `_WINDOW`. It is
committed with the batch, so that a retry asks the same.

Only states with windows of their own can go stale. Where intermediates expire with their components nothing
outlives its window, and nothing is asked. Whatever is asked, no result is stale (see `regulation`); what the
allocation decides is how many fresh ones there are.

>>> from braided.policies.freshness import plan_freshness
>>> from braided.policies.plan_model import plan_model
>>> freshening = Freshening({"a": 28_000_000})
>>> for clock in (0, 2_000_000, 4_000_000):
...     freshening.batch_done(clock)
>>> freshening.bounds()
{'a': 14.0}
>>> model = plan_model((("a", "b"), "c"), {"a": 500, "b": 700, "c": 300},
...     sizes={"a": 5000, "b": 700, "c": 1000, ("a", "b"): 200},
...     selectivity={("a", "b"): 0.001, (("a", "b"), "c"): 0.005})
>>> print(freshening.problem(plan_freshness(model, freshening.bounds(), budget=30)))
freshness needs 60 probes a batch; with the budget as it is these bounds would do: a 36 seconds
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from braided.policies.freshness import FreshnessPlan
from braided.query.durations import to_text

_WINDOW = 8
_MILLISECOND_US = 1000


class Freshening:
    """Bounds on age, and the average event time of a batch."""

    saved = ("clock_us", "batches", "step_us")

    def __init__(self, bounds_us: Mapping[str, int]) -> None:
        self._bounds_us = dict(bounds_us)
        self.clock_us: int | None = None
        self.batches, self.step_us = 0, 0.0

    def bounds(self) -> dict[str, float]:
        """In batches; nothing until it is known how long one is."""
        return {s: bound / self.step_us for s, bound in self._bounds_us.items()} if self.step_us else {}

    def batch_done(self, clock_us: int) -> None:
        """A batch with rows is done; `clock_us` is the largest time seen."""
        if self.clock_us is not None:
            self.batches = min(self.batches + 1, _WINDOW)
            self.step_us += (clock_us - self.clock_us - self.step_us) / self.batches
        self.clock_us = clock_us

    def problem(self, plan: FreshnessPlan | None) -> str:
        """Why bounds cannot be kept, and what would do, in time."""
        if plan is None or plan.feasible:
            return ""
        would_do = ", ".join(f"{s} {self._in_time(b)}" for s, b in plan.bounds_that_do.items())
        if math.isinf(plan.cost):
            return f"freshness cannot be kept with any budget; these bounds would do: {would_do}"
        return (
            f"freshness needs {math.ceil(plan.cost)} probes a batch; with the budget as it is these bounds "
            f"would do: {would_do}"
        )

    def _in_time(self, batches: float) -> str:
        """A bound as a duration, rounded up; without end if no bound would do."""
        if math.isinf(batches):
            return "none"
        unit = 1 if self.step_us < _MILLISECOND_US else _MILLISECOND_US
        return to_text(math.ceil(batches * self.step_us / unit - 1e-6) * unit)
