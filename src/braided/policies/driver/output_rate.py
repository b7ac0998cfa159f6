"""Output rate: the buffer that is expected to produce most per row goes first (driver-selection, 3.2).

    outRate_j = outBuffer_j / |buffer_j| = sigma_MJoin * product over l != j of |ht_l|

So it is the stream that has stored least itself.

>>> turn = Turn(waiting_rows=(10, 99), stored_rows=(5, 100))
>>> [OutputRate().score(turn, stream) for stream in (0, 1)]
[100, 5]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from braided.policies.decisions import Turn


@dataclass(frozen=True)
class OutputRate:
    """Largest expected output per row first."""

    def score(self, turn: Turn, stream: int) -> float:
        """Pairs to compare for one row."""
        return math.prod(rows for other, rows in enumerate(turn.stored_rows) if other != stream)

    def reason(self, turn: Turn, stream: int) -> str:
        """Give the reason in words."""
        return f"a row meets what the others store: {self.score(turn, stream):.3g}"
