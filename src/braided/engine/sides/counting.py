"""The count window of a side: when its rows leave, and how many newer ones came (see `kernels.counting`).

Rows are counted by the key of their operator, through the side's index, or by another one: then they bring
its hash (`counted`), and an index of its own finds them.
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels import counting as kernels
from braided.engine.sides.columns import Columns
from braided.engine.sides.index import Index
from braided.engine.sides.keys import Keys
from braided.policies.arrays import Int32s, Int64s
from braided.query.windows import CountWindow


class Counting:
    """Counts the rows of a side, which come in order of time."""

    def __init__(self, columns: Columns, window: CountWindow, index: Index) -> None:
        """`index` is the side's; `apart` is the other one, if there is one."""
        self._columns, self._size, self._by_key = columns, window.rows, window.per == "key"
        by = ("counted", "next_counted")
        self._index = Index(columns, by=by) if "counted" in columns else index
        self.apart = () if self._index is index else (self._index,)

    @property
    def _words(self) -> tuple[Int64s, Int64s]:
        """Both hashes of the keys of rows; the same twice where one is enough."""
        hashes = self._index.hashes
        return hashes, self._columns.arrays.get("check", hashes)

    def count(self, start: int, stop: int) -> None:
        """Count linked rows: those that they push out leave."""
        c = self._columns
        arrays = *self._words, c["time"], self._index.links, c["ranks"], c["leaves"]
        kernels.count_rows(*arrays, c.base, c.first, start, stop, self._size, self._by_key)

    def find(self, times: Int64s, keys: Keys | None) -> tuple[Int64s, Int64s]:
        """Return when rows leave, and how many newer ones came.

        They are given by their times and, where rows are counted by key, by these. A row that is not held has
        left.
        """
        c, index, out = self._columns, self._index, np.empty((2, len(times)), np.int64)
        if keys is None:
            kernels.find_by_time(times, c.held("time"), c.held("ranks"), c.held("leaves"), out)
        else:
            arrays = *self._words, c["time"], index.links, index.head, index.shift, c["ranks"], c["leaves"]
            kernels.find_by_key(*keys.words, times, *arrays, c.base, c.first, out)
        return out[0], out[1]

    def known(self, positions: Int32s) -> tuple[Int64s, Keys | None]:
        """Return what rows are known by: their times, and keys if they are counted by these."""
        times = self._columns.at("time", positions)
        if not self._by_key:
            return times, None
        hashes, checks = (words[positions - self._columns.base] for words in self._words)
        return times, Keys(hashes, checks)
