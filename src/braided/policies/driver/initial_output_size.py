"""Initial output size: the buffer expected to produce most goes first (driver-selection, Eq. 1).

    outBuffer_j = |buffer_j| * sigma_MJoin * product over l != j of |ht_l|

The selectivity of the whole join is the same for every j, so it does not decide. The choice is made
again after each buffer, because that buffer's rows are then stored.

| paper | here |
| --- | --- |
| buffer_j | `waiting_rows[j]` |
| ht_l | `stored_rows[l]` |

>>> turn = Turn(waiting_rows=(10, 10), stored_rows=(5, 100))
>>> [InitialOutputSize().score(turn, stream) for stream in (0, 1)]
[1000, 50]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from braided.policies.decisions import Turn


@dataclass(frozen=True)
class InitialOutputSize:
    """Largest expected output first."""

    def score(self, turn: Turn, stream: int) -> float:
        """Pairs to compare: the expected output, but for the join's selectivity."""
        others = (rows for other, rows in enumerate(turn.stored_rows) if other != stream)
        return turn.waiting_rows[stream] * math.prod(others)

    def reason(self, turn: Turn, stream: int) -> str:
        """Give the reason in words."""
        return f"{turn.waiting_rows[stream]:,} rows x what the others store: {self.score(turn, stream):.3g}"
