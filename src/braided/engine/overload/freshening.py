"""How old rows may be in results, in batches: what the allocation of probes is asked to keep (jaqpot, 4.2).

A query says it in time, an allocation thinks in batches. Between them is how far the clock (the largest time
seen, or the wall clock) comes in a batch, and how old rows of a stream are when they come, its *lag*. Both
are averages, the plain mean at first, later each batch weighs 1 / `_WINDOW`; they are committed with the
batch, so that a retry asks the same.

Where a window counts rows a query says it in rows, of the stream or of each key (Definition 2: a bound is of
the kind of the window). A stream with a window of n rows holds S, and a batch brings lambda; so n newer rows
have come after S / lambda batches, and f rows after f / n times as many.

Bounds are asked for only where intermediates have windows of their own: elsewhere nothing outlives its
window. Whatever is asked, no result is stale (see `regulation`); what the allocation decides is how many
fresh ones there are.

>>> from braided.policies.freshness import plan_freshness
>>> from braided.policies.plan_model import plan_model
>>> freshening = Freshening(("a", "b"), {"a": 28_000_000}, {"b": 20_000_000})
>>> for clock in (0, 2_000_000, 4_000_000):
...     freshening.batch_done(clock, (clock, clock))
>>> freshening.bounds(), freshening.limits()
({'a': 14.0}, {'a': 14.0, 'b': 10.0})
>>> model = plan_model((("a", "b"), "c"), {"a": 500, "b": 700, "c": 300},
...     sizes={"a": 5000, "b": 700, "c": 1000, ("a", "b"): 200},
...     selectivity={("a", "b"): 0.001, (("a", "b"), "c"): 0.005})
>>> print(freshening.problem(plan_freshness(model, freshening.bounds(), budget=30)))
freshness needs 60 probes a batch, and the budget covers 50 % of that; these bounds would do: a 36 seconds
>>> counted = Freshening(("a", "b"), {}, {}, windows={"a": 10}, rows={"a": 15})
>>> counted.count({"a": (500.0, 5000.0)})  # 500 keys with a window of 10 rows each, and a row a batch
>>> counted.bounds(), counted.limits()
({'a': 15.0}, {'a': 10.0})
>>> for clock in range(6_000_000, 66_000_000, 2_000_000):  # the stream is behind
...     freshening.batch_done(clock, (clock - 40_000_000, clock))
>>> print(freshening.behind())
rows of a are 40 seconds old when they come, and may be 28 seconds old
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from braided.policies.freshness import FreshnessPlan
from braided.query.durations import to_text

_WINDOW = 8
_UNITS_US = (60_000_000, 1_000_000, 1_000)


class Freshening:
    """Bounds on age, how old rows may be found at all, and the averages that turn time into batches."""

    saved = ("clock_us", "batches", "step_us", "lags_us")

    def __init__(
        self,
        streams: Sequence[str],
        bounds_us: Mapping[str, int],
        retentions_us: Mapping[str, int],
        *,
        windows: Mapping[str, int] | None = None,
        rows: Mapping[str, int] | None = None,
    ) -> None:
        """`windows` are those that count rows, `rows` the bounds of their streams, if they have any."""
        self._windows, self._rows = windows or {}, rows or {}
        self._row_rates: dict[str, float] = {}  # rows of a window's key, or stream, that a batch brings
        self._streams, self._bounds_us, self._retentions_us = streams, bounds_us, retentions_us
        self.clock_us: int | None = None
        self.batches, self.step_us = 0, 0.0
        self.lags_us = [0.0] * len(streams)

    def bounds(self) -> dict[str, float]:
        """In batches; nothing until it is known how long one is."""
        counted = {s: self._rows[s] / rate for s, rate in self._row_rates.items() if s in self._rows}
        return {**self._in_batches(self._left_us()), **counted}

    def count(self, waiting: Mapping[str, tuple[float, float]]) -> None:
        """A batch brings so many rows of streams, which hold so many."""
        rates = {
            s: (rows, stored) for s, (rows, stored) in waiting.items() if s in self._windows and rows > 0
        }
        self._row_rates = {
            s: self._windows[s] * rows / max(1.0, stored) for s, (rows, stored) in rates.items()
        }

    def limits(self) -> dict[str, float]:
        """The ages up to which rows of streams are found, in batches."""
        left_us = self._left_us()
        names = self._retentions_us.keys() | left_us.keys()
        ends = {s: min(m.get(s, math.inf) for m in (self._retentions_us, left_us)) for s in sorted(names)}
        found, inside = self._in_batches(ends), self._row_rates.items()
        counted = {s: min(found.get(s, math.inf), self._windows[s] / rate) for s, rate in inside}
        return {**found, **counted}

    def batch_done(self, clock_us: int, newest_us: Sequence[int | None]) -> None:
        """A batch with rows is done, at this clock; `newest_us` are the newest times of the streams."""
        if self.clock_us is not None:
            self.batches = min(self.batches + 1, _WINDOW)
            self.step_us += (clock_us - self.clock_us - self.step_us) / self.batches
            late = [0 if newest is None else max(0, clock_us - newest) for newest in newest_us]
            both = zip(self.lags_us, late, strict=True)
            self.lags_us = [lag + (now - lag) / self.batches for lag, now in both]
        self.clock_us = clock_us

    def behind(self) -> str:
        """Say which stream's rows are too old when they come, if one's are."""
        for stream, lag in zip(self._streams, self.lags_us, strict=True):
            if lag >= self._bounds_us.get(stream, math.inf):
                may = to_text(self._bounds_us[stream])
                return f"rows of {stream} are {_in_words(lag)} old when they come, and may be {may} old"
        return ""

    def problem(self, plan: FreshnessPlan | None, of_all: float = 1.0) -> str:
        """Why bounds cannot be kept, and what would do, in time; all engines need `of_all` times as much."""
        if plan is None or plan.feasible:
            return ""
        would_do = ", ".join(f"{s} {self._shown(s, b)}" for s, b in plan.bounds_that_do.items())
        if math.isinf(plan.cost):
            return f"freshness cannot be kept with any budget; these bounds would do: {would_do}"
        covers = f"the budget covers {100 * plan.budget / plan.cost:.0f} % of that"
        needs = f"freshness needs {math.ceil(plan.cost * of_all):,} probes a batch"
        return f"{needs}, and {covers}; these bounds would do: {would_do}"

    def _left_us(self) -> dict[str, float]:
        """What is left of the bounds when rows come."""
        lags_us = dict(zip(self._streams, self.lags_us, strict=True))
        return {s: max(0.0, bound - lags_us[s]) for s, bound in self._bounds_us.items()}

    def _in_batches(self, times_us: Mapping[str, float]) -> dict[str, float]:
        return {s: us / self.step_us for s, us in times_us.items()} if self.step_us > 0 else {}

    def _shown(self, stream: str, batches: float) -> str:
        """A bound in time, or in rows; without end if none would do."""
        if stream not in self._rows:
            return self._in_time(batches)
        rows = batches * self._row_rates.get(stream, math.inf)
        return "none" if math.isinf(rows) else f"{math.ceil(rows - 1e-6):,} rows"

    def _in_time(self, batches: float) -> str:
        """A bound as a duration, rounded up; without end if no bound would do."""
        return "none" if math.isinf(batches) else _in_words(batches * self.step_us)


def _in_words(us: float) -> str:
    """A time as a duration, rounded up."""
    unit = next((unit for unit in _UNITS_US if us >= 10 * unit), 1)
    return to_text(math.ceil(us / unit - 1e-6) * unit)
