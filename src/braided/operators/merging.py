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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from braided.kernels.probe import BLOCK_ROWS, enumerate_combinations
from braided.kernels.tables import EVERYONE, FIRST, SEEN, SIDE_COLUMNS, TALLY_COLUMNS, level_rows
from braided.operators.mjoin import Positions
from braided.query.bounds import Bounds
from braided.state.keys import Int64s
from braided.state.side import SideState

_Ranges = tuple[list[int], list[int]]  # by input: from where, and up to where


def across(
    bounds: Bounds, sides: Sequence[SideState], starts: Sequence[Sequence[int]], most_rows: int
) -> Iterator[Positions]:
    """All combinations across generations; that number g of input i is at starts[g][i] .. starts[g + 1][i].

    The sides have indexes, and hold nothing else. A piece has up to half as many rows again as `most_rows`.
    """
    inputs = len(sides)
    matrix = np.array(bounds.matrix, np.int64)
    table = np.zeros((inputs, SIDE_COLUMNS), np.int64)
    levels = np.empty((inputs, level_rows(inputs), BLOCK_ROWS), np.int64)
    out = np.empty((inputs, most_rows), np.int32)
    held: list[Positions] = []
    for side, row in zip(sides, table, strict=True):
        side.describe(row, side.count)
    for g in range(1, len(starts) - 1):
        for driver, (low, high) in _ranges(starts[0], starts[g], starts[g + 1]):
            if all(a < b for a, b in zip(low, high, strict=True)):
                table[:, FIRST] = low
                for found in _found(table, matrix, driver, low, high, levels, out):
                    held.append(found)
                    if sum(h.shape[1] for h in held) >= most_rows // 2:
                        yield np.concatenate(held, axis=1)
                        held = []
    if held:
        yield np.concatenate(held, axis=1)


def _ranges(begin: Sequence[int], old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[int, _Ranges]]:
    """Which rows meet, driver by driver: of input i positions begin[i]..old[i] are old, ..new[i] new."""
    last = len(begin) - 1
    for driver in range(last):
        low = [*begin[:driver], old[driver], *begin[driver + 1 :]]
        yield driver, (low, [*new[: driver + 1], *old[driver + 1 :]])
    for first_old in range(last):
        low = [*old[:first_old], *begin[first_old:last], old[last]]
        yield last, (low, [*new[:first_old], old[first_old], *new[first_old + 1 :]])


def _found(
    table: Int64s,
    matrix: Int64s,
    driver: int,
    low: list[int],
    high: list[int],
    levels: Int64s,
    out: Positions,
) -> Iterator[Positions]:
    """The combinations of a driver's rows with some ranges of the others; few partners first."""
    inputs = len(low)
    partners = sorted((p for p in range(inputs) if p != driver), key=lambda p: high[p] - low[p])
    orders, rations = np.zeros((2, inputs, inputs), np.int64)
    orders[driver] = driver, *partners
    rations[:, 1:] = EVERYONE
    segment = np.zeros((1, SEEN + inputs), np.int64)
    segment[0] = driver, low[driver], high[driver], *high
    cursor, walking = np.zeros(3, np.int64), np.zeros(inputs, np.int64)
    tally = np.zeros((inputs, inputs, TALLY_COLUMNS), np.int64)
    while cursor[0] < 1:
        many = enumerate_combinations(
            table, orders, matrix, segment, cursor, levels, walking, rations, tally, out
        )
        if many:
            yield out[:, :many].copy()
