"""Initial output size: the buffer expected to produce most goes first (driver-selection, Eq. 1).

    outBuffer_j = |buffer_j| * sigma_MJoin * product over l != j of |ht_l|

The selectivity of the whole join is the same for every j, so it does not decide. The choice is made
anew after each buffer, because that buffer's rows are then stored.

| paper | here |
| --- | --- |
| buffer_j | `waiting_rows[j]` |
| ht_l | `stored_rows[l]` |

>>> InitialOutputSize().choose(Turn(waiting_rows=(10, 10), stored_rows=(5, 100)))
0
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from braided.policies.decisions import Turn


@dataclass(frozen=True)
class InitialOutputSize:
    """Largest expected output first; ties go to the larger buffer, then to the earlier stream."""

    def choose(self, turn: Turn) -> int:
        """The waiting stream with the largest expected output."""
        waiting = [j for j, rows in enumerate(turn.waiting_rows) if rows]
        return max(waiting, key=lambda j: (self._expected(turn, j), turn.waiting_rows[j], -j))

    def _expected(self, turn: Turn, j: int) -> int:
        others = (rows for stream, rows in enumerate(turn.stored_rows) if stream != j)
        return turn.waiting_rows[j] * math.prod(others)
