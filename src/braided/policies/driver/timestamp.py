"""Timestamp: rows of all streams probe in the order of their times (driver-selection, Figure 2).

The classic way of an n-ary join, and the paper's baseline: the driver stream changes from row to row. A
buffer's rows keep the order they came in; one that is older than its predecessor comes right after it.

>>> Timestamp().keys(np.array([3, 5, 4]))
array([3, 5, 5])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braided.policies.arrays import Int64s
from braided.policies.decisions import Turn


@dataclass(frozen=True)
class Timestamp:
    """Oldest row first, whichever stream it is of."""

    def keys(self, times: Int64s) -> Int64s:
        """The newest time so far."""
        return np.maximum.accumulate(times) if len(times) else times

    def reason(self, turn: Turn, stream: int) -> str:
        """Give the reason in words."""
        return f"{turn.waiting_rows[stream]:,} rows, in order of time with those of the others"
