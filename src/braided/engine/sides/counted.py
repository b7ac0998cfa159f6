"""A side's count window: when each of its rows leaves it, because enough newer ones have come.

`leaves` of a row is kept while rows come in order of time (see `kernels.counting`). After rows were taken
back or got new positions, all rows held are counted again: those that were forgotten had left the window and
are older than all that are inside, so they count for none of them.
"""

from __future__ import annotations

from braided.engine.kernels import counting
from braided.engine.sides.columns import CHECK, LEAVES, RANKS, Columns
from braided.policies.arrays import Bools, Int32s, Int64s
from braided.query.windows import CountWindow

COLUMNS = (CHECK, RANKS, LEAVES)


class Counted:
    """The count window over the columns of a side."""

    def __init__(self, window: CountWindow, columns: Columns) -> None:
        self._window, self._columns = window, columns

    def enter(self, start: int, stop: int) -> None:
        """Count rows that are linked already."""
        c, window = self._columns, self._window
        arrays = c["hash"], c["check"], c["time"], c["link"], c["ranks"], c["leaves"]
        counting.count_rows(*arrays, c.base, c.first, start, stop, window.rows, window.per == "key")

    def inside(self, positions: Int32s, now: Int64s, keep: Bools) -> None:
        """Clear `keep` where a row is out of the window at a time."""
        counting.inside_window(positions, now, self._columns["leaves"], self._columns.base, keep)
