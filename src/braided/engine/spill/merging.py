"""Combinations of rows that were never in memory together: those across generations of partition groups.

Why each combination of a group appears exactly once
----------------------------------------------------
Rows of a group that are flushed together form a generation; rows in memory are the one to come. While rows
are in memory each meets all others there (see `mjoin`), so combinations inside one generation have been
found, and no others: once flushed, a row is not in memory again. A merge takes the generations one after the
other, and finds the combinations that the new one completes with earlier ones: those with at least one new
and at least one old row. Let the inputs be numbered; such a combination has a last new row, of input i, and

- if i is not the last input, all inputs after i are old: found with i as the driver, which sees only old rows
  behind it and all rows before it;
- if i is the last input, let f be the first old one: found with the inputs before f new, f old, and any rows
  between f and i.

Both are ranges of positions for each input, and they exclude each other. Afterwards all generations have met,
and are one generation from then on.

Where inputs are flushed one by one, there are no generations: a row is in memory from its arrival to its
departure. A combination was found there if all its rows were at some time: if the latest arrival is before
the first departure. A merge takes all rows of a group, on disk and in memory; of all their combinations it
leaves out these, and those whose rows had all arrived before an earlier merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from braided.engine.kernels.tables import FIRST, SEEN
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.search import Search
from braided.engine.sides.groups import groups_at
from braided.engine.sides.side import SideState
from braided.policies.arrays import Int64s
from braided.query.bounds import Bounds

_Ranges = tuple[list[int], list[int]]  # by input: from where, and up to where


def across(
    bounds: Bounds, sides: Sequence[SideState], starts: Sequence[Sequence[int]], most_rows: int
) -> Iterator[Positions]:
    """All combinations across generations; that number g of input i is at starts[g][i] .. starts[g + 1][i].

    The sides have indexes, and hold nothing else. A piece has up to half as many rows again as `most_rows`.
    """
    search = _Ranged(bounds, sides, most_rows)
    for g in range(1, len(starts) - 1):
        for driver, (low, high) in _ranges(starts[0], starts[g], starts[g + 1]):
            yield from search.found(driver, low, high)
    yield from search.rest()


def apart(
    bounds: Bounds,
    sides: Sequence[SideState],
    departed: Sequence[Int64s],
    merged: Int64s,
    bits: int,
    most_rows: int,
) -> Iterator[Positions]:
    """All combinations of rows that were never in memory together, of rows that tell when they arrived.

    `departed` tells by input when each row left memory; `merged` by group when all of its rows last met.
    """
    search = _Ranged(bounds, sides, most_rows)
    whole = [0] * len(sides), [side.count for side in sides]
    for found in (*search.found(0, *whole), *search.rest()):
        born = np.max([side.columns.at("born", at) for side, at in zip(sides, found, strict=True)], axis=0)
        left = np.min([gone[at] for gone, at in zip(departed, found, strict=True)], axis=0)
        owed = (born >= left) & (born > merged[groups_at(sides[0], found[0], bits)])
        if owed.any():
            yield np.ascontiguousarray(found[:, owed])


def _ranges(begin: Sequence[int], old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[int, _Ranges]]:
    """Which rows meet, driver by driver: of input i positions begin[i]..old[i] are old, ..new[i] new."""
    last = len(begin) - 1
    for driver in range(last):
        low = [*begin[:driver], old[driver], *begin[driver + 1 :]]
        yield driver, (low, [*new[: driver + 1], *old[driver + 1 :]])
    for first_old in range(last):
        low = [*old[:first_old], *begin[first_old:last], old[last]]
        yield last, (low, [*new[:first_old], old[first_old], *new[first_old + 1 :]])


class _Ranged:
    """Looks for combinations of ranges of rows; small pieces are put together."""

    def __init__(self, bounds: Bounds, sides: Sequence[SideState], most_rows: int) -> None:
        self._kernel = Search(bounds.matrix)
        self._out = np.empty((len(sides), most_rows), np.int32)
        self._held: list[Positions] = []
        self._rows = 0
        for side, row in zip(sides, self._kernel.sides, strict=True):
            side.describe(row, side.count)

    def found(self, driver: int, low: list[int], high: list[int]) -> Iterator[Positions]:
        """The combinations of a driver's rows with some ranges of the others; few partners first."""
        if not all(a < b for a, b in zip(low, high, strict=True)):
            return
        self._kernel.sides[:, FIRST] = low
        inputs = len(low)
        partners = sorted((p for p in range(inputs) if p != driver), key=lambda p: high[p] - low[p])
        orders, rations = self._kernel.plans()
        orders[driver] = driver, *partners
        segment = np.zeros((1, SEEN + inputs), np.int64)
        segment[0] = driver, low[driver], high[driver], *high
        for many, _, _ in self._kernel.run(segment, orders, rations, self._out):
            self._held.append(self._out[:, :many].copy())
            self._rows += many
            if 2 * self._rows >= self._out.shape[1]:
                yield from self.rest()

    def rest(self) -> Iterator[Positions]:
        """What was found and not handed out yet."""
        if self._rows:
            yield np.concatenate(self._held, axis=1)
        self._held, self._rows = [], 0
