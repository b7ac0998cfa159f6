"""How the rows of a side are found by key: through chains of a hash index, or by a scan of all of them.

A row with a null key is never linked. A scanned side has only a stump of an index, and storing a row costs
less; its rows keep their mark of being linked, so that the index can be built when it is wanted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from braided.engine.kernels import index as chains
from braided.engine.sides.columns import Columns
from braided.policies.arrays import Bools, Int32s, Int64s

_FEWEST_BITS = 6


class Index:
    """A chained hash index over the columns of a side, unless it is `scanned`.

    `by` names the column with the hashes of the key, and the one with the links.
    """

    def __init__(
        self, columns: Columns, *, scanned: bool = False, by: tuple[str, str] = ("hash", "link")
    ) -> None:
        self._columns, self.scanned, self._by = columns, scanned, by
        self.adopt(np.full(1 << _FEWEST_BITS, -1, np.int32))

    def adopt(self, head: Int32s) -> None:
        """Use this table of slots from now on."""
        self.head, self.address = head, head.ctypes.data
        self.shift = 64 - (len(head) - 1).bit_length()

    @property
    def _chains(self) -> tuple[Any, ...]:
        """The arrays and numbers that all kernels of the index work on."""
        return self.hashes, self.links, self.head, self.shift, self._columns.base

    @property
    def hashes(self) -> Int64s:
        """The hashes of the key."""
        return self._columns.arrays[self._by[0]]

    @property
    def links(self) -> Int32s:
        """The next older row of each one's slot."""
        return self._columns.arrays[self._by[1]]

    def insert(self, start: int, stop: int) -> None:
        """Link rows."""
        if not self.scanned:
            chains.insert(*self._chains, start, stop)

    def undo(self, start: int, stop: int) -> None:
        """Unlink the newest rows."""
        if not self.scanned:
            chains.undo(*self._chains, start, stop)

    def scan(self, scanned: bool) -> None:
        """Do without an index from now on, or build one; between batches."""
        if scanned != self.scanned:
            self.scanned = scanned
            self.rebuild(self._columns.rows)

    def fit(self, rows: int) -> None:
        """Have a slot for each of this many rows, at least."""
        if rows > len(self.head) and not self.scanned:
            self.rebuild(rows)

    def rebuild(self, rows: int) -> None:
        """Link all rows again, in a table with a slot for each of this many."""
        bits = _FEWEST_BITS if self.scanned else _bits(rows)
        self.adopt(self._columns.allocate("head", 1 << bits, np.int32))
        self.head[:] = -1
        self.insert(self._columns.first, self._columns.count)

    def unlink(self, positions: Int64s) -> None:
        """Take rows that are marked as gone out, so that no probe finds them."""
        c = self._columns
        if self.scanned:
            c["link"][positions - c.base] = chains.UNLINKED
        else:
            chains.unlink(*self._chains, c.first, c["gone"], positions)

    def linked(self) -> Bools:
        """Return which of the rows held have a key."""
        return np.asarray(self._columns.held("link") != chains.UNLINKED)

    def by_key(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], int]:
        """Return links, slots and shift by which rows are found; those of a scanned side are made for it."""
        c = self._columns
        if not self.scanned:
            return c["link"], self.head, self.shift
        bits = _bits(c.rows)
        link, head = c["link"].copy(), np.full(1 << bits, -1, np.int32)
        chains.insert(c["hash"], link, head, 64 - bits, c.base, c.first, c.count)
        return link, head, 64 - bits


def _bits(rows: int) -> int:
    return max(_FEWEST_BITS, (rows - 1).bit_length())
