"""Consumption rate: the most selective stream's buffer goes first, to be out of the way soonest
(driver-selection, Figure 3).

    sigma_Sj = |MJoin| / |Sj|, ascending

Every result has one row of each stream, so |MJoin| does not decide: the stream with most rows so far goes
first, unless the user gives the selectivities.

>>> turn = Turn(waiting_rows=(10, 10), stored_rows=(5, 100), seen_rows=(500, 90))
>>> [ConsumptionRate().score(turn, stream) for stream in (0, 1)]
[500, 90]
>>> [ConsumptionRate(given=(100.0, 1.0)).score(turn, stream) for stream in (0, 1)]
[-100.0, -1.0]
"""

from __future__ import annotations

from dataclasses import dataclass

from braided.policies.decisions import Turn


@dataclass(frozen=True)
class ConsumptionRate:
    """Smallest stream selectivity first; `given` holds the user's, one per stream."""

    given: tuple[float, ...] = ()

    def score(self, turn: Turn, stream: int) -> float:
        """Rows so far per result, but for the number of results; or what was given."""
        return -self.given[stream] if self.given else turn.seen_rows[stream]

    def reason(self, turn: Turn, stream: int) -> str:
        """Give the reason in words."""
        if self.given:
            return f"stream selectivity {self.given[stream]:g} was given"
        return f"{turn.seen_rows[stream]:,} rows so far, so few results a row"
