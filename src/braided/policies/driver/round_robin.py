"""Round robin: the oldest remaining row of each buffer in turn (driver-selection, 4.2).

>>> RoundRobin().keys(np.array([3, 5, 4]))
array([0, 1, 2])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from braided.policies.arrays import Int64s
from braided.policies.decisions import Turn


@dataclass(frozen=True)
class RoundRobin:
    """One row of each stream after the other."""

    def keys(self, times: Int64s) -> Int64s:
        """The row's number in its buffer."""
        return np.arange(len(times), dtype=np.int64)

    def reason(self, turn: Turn, stream: int) -> str:
        """Give the reason in words."""
        return f"{turn.waiting_rows[stream]:,} rows, one after one of each other stream"
