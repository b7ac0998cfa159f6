"""Which stream's rows probe next: the policies of `Tuning(driver_stream=...)` (driver-selection).

| policy | what goes next | paper |
| --- | --- | --- |
| timestamp | the oldest row of all streams; the classic n-ary join, and the baseline | Figure 2 |
| round-robin | the oldest remaining row of each buffer in turn | section 4.2 |
| consumption-rate | the buffer of the lately most selective stream, out of the way soonest | Figure 3 |
| initial-output-size | the buffer expected to produce most | Eq. 1 |
| output-rate | the buffer expected to produce most per row | section 3.2 |

The first two take single rows, the others whole buffers; they choose again after each buffer, because that
buffer's rows are then stored. `sigma_MJoin`, the selectivity of the whole join, is the same for every stream,
so it never decides.

| paper | here |
| --- | --- |
| buffer_j | `waiting_rows[j]` |
| ht_l | `stored_rows[l]` |

>>> turn = Turn(waiting_rows=(10, 10), stored_rows=(5, 100), recent_rows=(500, 90))
>>> {name: [policy().score(turn, j) for j in (0, 1)] for name, policy in DRIVER_POLICIES.items()
...  if not hasattr(policy, "keys")}
{'consumption-rate': [500, 90], 'initial-output-size': [1000, 50], 'output-rate': [100, 5]}
>>> ConsumptionRate(given=(100.0, 1.0)).score(turn, 0)
-100.0
>>> Timestamp().keys(np.array([3, 5, 4])), RoundRobin().keys(np.array([3, 5, 4]))
(array([3, 5, 5]), array([0, 1, 2]))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from braided.policies.arrays import Int64s
from braided.policies.decisions import DriverPolicy, Turn


@dataclass(frozen=True)
class Timestamp:
    """Oldest row first, whichever stream it is of.

    A buffer's rows keep the order they came in; one that is older than its predecessor comes right after it.
    """

    def keys(self, times: Int64s) -> Int64s:
        """Return the newest time so far."""
        return np.maximum.accumulate(times) if len(times) else times

    def reason(self, turn: Turn, stream: int) -> str:
        """Give the reason in words."""
        return f"{turn.waiting_rows[stream]:,} rows, in order of time with those of the others"


@dataclass(frozen=True)
class RoundRobin:
    """One row of each stream after the other."""

    def keys(self, times: Int64s) -> Int64s:
        """Return the row's number in its buffer."""
        return np.arange(len(times), dtype=np.int64)

    def reason(self, turn: Turn, stream: int) -> str:
        """Give the reason in words."""
        return f"{turn.waiting_rows[stream]:,} rows, one after one of each other stream"


@dataclass(frozen=True)
class ConsumptionRate:
    """Smallest stream selectivity first: sigma_Sj = |MJoin| / |Sj|, ascending.

    Every result has one row of each stream, so |MJoin| does not decide: the stream with most rows goes first,
    unless the user gives the selectivities, one per stream. The paper's streams are finite and their sizes
    known; these are not, and rates change, so the rows are those of recent batches.
    """

    given: tuple[float, ...] = ()

    def score(self, turn: Turn, stream: int) -> float:
        """Return the recent rows per result, but for the number of results; or what was given."""
        return -self.given[stream] if self.given else turn.recent_rows[stream]

    def reason(self, turn: Turn, stream: int) -> str:
        """Give the reason in words."""
        if self.given:
            return f"stream selectivity {self.given[stream]:g} was given"
        return f"{turn.recent_rows[stream]:,.0f} rows lately, so few results a row"


@dataclass(frozen=True)
class OutputRate:
    """Largest expected output per row first, so the stream that has stored least itself.

    outRate_j = outBuffer_j / |buffer_j| = sigma_MJoin * product over l != j of |ht_l|
    """

    def score(self, turn: Turn, stream: int) -> float:
        """Return the pairs to compare for one row."""
        return math.prod(rows for other, rows in enumerate(turn.stored_rows) if other != stream)

    def reason(self, turn: Turn, stream: int) -> str:
        """Give the reason in words."""
        return f"a row meets what the others store: {self.score(turn, stream):.3g}"


@dataclass(frozen=True)
class InitialOutputSize(OutputRate):
    """Largest expected output first.

    outBuffer_j = |buffer_j| * sigma_MJoin * product over l != j of |ht_l|
    """

    def score(self, turn: Turn, stream: int) -> float:
        """Return the pairs to compare: the expected output, but for the join's selectivity."""
        return turn.waiting_rows[stream] * super().score(turn, stream)

    def reason(self, turn: Turn, stream: int) -> str:
        """Give the reason in words."""
        return f"{turn.waiting_rows[stream]:,} rows x what the others store: {self.score(turn, stream):.3g}"


DRIVER_POLICIES: dict[str, Callable[..., DriverPolicy]] = {
    "timestamp": Timestamp,
    "round-robin": RoundRobin,
    "consumption-rate": ConsumptionRate,
    "initial-output-size": InitialOutputSize,
    "output-rate": OutputRate,
}
