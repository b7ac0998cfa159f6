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

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from braided.engine.kernels.tables import FIRST
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.search import Search
from braided.engine.sides.groups import groups_at
from braided.engine.sides.side import SideState
from braided.policies.arrays import Int64s
from braided.query.bounds import Bounds

_Range = tuple[int, list[int], list[int]]  # driver; by input: from where, and up to where


def across(
    bounds: Bounds, sides: Sequence[SideState], starts: Sequence[Sequence[int]], most_rows: int
) -> Iterator[Positions]:
    """All combinations across generations; that number g of input i is at starts[g][i] .. starts[g + 1][i].

    The sides have indexes, and hold nothing else. A piece has up to half as many rows again as `most_rows`.
    """
    rows = np.diff(starts, axis=0)
    if 2 * np.prod(rows, axis=1, dtype=np.float64).sum() < np.prod(rows.sum(axis=0), dtype=np.float64):
        return _of_several(bounds, sides, rows, most_rows)
    generations = range(1, len(starts) - 1)
    ranges = (r for g in generations for r in _ranges(starts[0], starts[g], starts[g + 1]))
    return _combinations(bounds, sides, ranges, most_rows)


def _of_several(
    bounds: Bounds, sides: Sequence[SideState], rows: Int64s, most_rows: int
) -> Iterator[Positions]:
    """The same where few are inside one generation: all combinations in one search, without these."""
    numbers = [np.repeat(np.arange(len(rows), dtype=np.int32), of_input) for of_input in rows.T]
    whole = 0, [0] * len(sides), [side.count for side in sides]
    for positions in _combinations(bounds, sides, [whole], most_rows):
        of = np.array([number[at] for number, at in zip(numbers, positions, strict=True)])
        owed = (of != of[0]).any(axis=0)
        if owed.any():
            yield positions if owed.all() else np.ascontiguousarray(positions[:, owed])


def apart(
    bounds: Bounds, sides: Sequence[SideState], departed: Sequence[Int64s], merged: Int64s, most_rows: int
) -> Iterator[Positions]:
    """All combinations of rows that were never in memory together, of rows that tell when they arrived.

    `departed` tells by input when each row left memory; `merged` by group when all of its rows last met.
    """
    bits = (len(merged) - 1).bit_length()
    whole = 0, [0] * len(sides), [side.count for side in sides]
    for positions in _combinations(bounds, sides, [whole], most_rows):
        born = np.max([s.columns.at("born", at) for s, at in zip(sides, positions, strict=True)], axis=0)
        left = np.min([gone[at] for gone, at in zip(departed, positions, strict=True)], axis=0)
        owed = (born >= left) & (born > merged[groups_at(sides[0], positions[0], bits)])
        if owed.any():
            yield np.ascontiguousarray(positions[:, owed])


def _ranges(begin: Sequence[int], old: Sequence[int], new: Sequence[int]) -> Iterator[_Range]:
    """Which rows meet, driver by driver: of input i positions begin[i]..old[i] are old, ..new[i] new."""
    last = len(begin) - 1
    for driver in range(last):
        low = [*begin[:driver], old[driver], *begin[driver + 1 :]]
        yield driver, low, [*new[: driver + 1], *old[driver + 1 :]]
    for first_old in range(last):
        low = [*old[:first_old], *begin[first_old:last], old[last]]
        yield last, low, [*new[:first_old], old[first_old], *new[first_old + 1 :]]


def _combinations(
    bounds: Bounds, sides: Sequence[SideState], ranges: Iterable[_Range], most_rows: int
) -> Iterator[Positions]:
    """The combinations of a driver's rows with ranges of the others, few partners first; in large pieces."""
    kernel, out = Search(bounds.matrix), np.empty((len(sides), most_rows), np.int32)
    for side, row in zip(sides, kernel.sides, strict=True):
        side.describe(row, side.count)
    pieces: list[Positions] = []
    rows = 0
    for driver, low, high in ranges:
        sizes = np.subtract(high, low)
        if not (sizes > 0).all():
            continue
        kernel.sides[:, FIRST] = low
        orders, rations = kernel.plans()
        orders[driver] = driver, *(p for p in np.argsort(sizes, kind="stable") if p != driver)
        segment = np.array([[driver, low[driver], high[driver], *high]], np.int64)
        for many, _, _ in kernel.run(segment, orders, rations, out):
            pieces.append(out[:, :many].copy())
            rows += many
            if 2 * rows >= most_rows:
                yield np.concatenate(pieces, axis=1)
                pieces, rows = [], 0
    if rows:
        yield np.concatenate(pieces, axis=1)
