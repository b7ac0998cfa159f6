"""The probe kernel with the tables that it works on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from braided.engine.kernels.probe import BLOCK_ROWS, enumerate_combinations
from braided.engine.kernels.tables import EVERYONE, SIDE_COLUMNS, TALLY_COLUMNS, level_rows
from braided.policies.arrays import Int32s, Int64s


class Search:
    """Looks for combinations of several sides' rows; `sides` is the kernel's table of them."""

    def __init__(self, bounds: Sequence[Sequence[int]]) -> None:
        self.bounds = np.array(bounds, np.int64)
        inputs = len(self.bounds)
        self.sides = np.zeros((inputs, SIDE_COLUMNS), np.int64)
        self._levels = np.empty((inputs, level_rows(inputs), BLOCK_ROWS), np.int64)

    def plans(self) -> tuple[Int64s, Int64s]:
        """Return probe orders to fill in, and rations by which everyone may probe."""
        orders, rations = np.zeros((2, len(self.sides), len(self.sides)), np.int64)
        rations[:, 1:] = EVERYONE
        return orders, rations

    def run(
        self, segments: Int64s, orders: Int64s, rations: Int64s, out: Int32s
    ) -> Iterator[tuple[int, Int64s, Int64s]]:
        """Fill `out` again and again: how many combinations it has, what was tallied, and the cursor."""
        inputs = len(self.sides)
        cursor, walking = np.zeros(3, np.int64), np.zeros(inputs, np.int64)
        while cursor[0] < len(segments):
            tally = np.zeros((inputs, inputs, TALLY_COLUMNS), np.int64)
            many = enumerate_combinations(
                self.sides, orders, self.bounds, segments, cursor, self._levels, walking, rations, tally, out
            )
            yield many, tally, cursor
