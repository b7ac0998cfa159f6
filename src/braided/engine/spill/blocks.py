"""Groups that are larger than the limit, as that of a key may be which has most of the rows: block by block.

Every block of one input meets every block of the others, a few at a time in memory. A block is of one
generation, so blocks that are all of one have met. How often a block is read is in proportion to the results
that such keys have.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from braided.engine.operators.operator import Operator
from braided.engine.sides.groups import in_groups
from braided.engine.sides.side import Rows
from braided.engine.spill.disk import IN_MEMORY, Disk, together
from braided.policies.arrays import Bools
from braided.query.plan_tree import Plan


@dataclass(eq=False)
class Block:
    """Rows of one input and generation: from where in each piece, and how many; no piece if in memory."""

    number: int
    parts: list[tuple[Any, int, int]]

    def read(self, disk: Disk, child: Plan, groups: Bools) -> Rows:
        """Its rows."""
        side = disk.tree.sides[child]
        if self.number == IN_MEMORY:
            return in_groups(side, groups)
        batches = [disk.store.read([p])[p].slice(start, rows) for p, start, rows in self.parts]
        return together(batches, side.payload.schema)


def meeting(
    disk: Disk, operator: Operator, groups: Bools, most_bytes: float, *, with_memory: bool
) -> Iterator[tuple[Block, ...]]:
    """The blocks that owe each other something, one of each input, of at most about this many bytes each."""
    stored = disk.generations[operator.number].of(groups)
    inputs = []
    for place, child in enumerate(operator.node):
        most_rows = max(1, int(most_bytes / disk.statistics.row_bytes[child]))
        blocks: list[Block] = []
        for number, several in itertools.groupby((s for s in stored if s.place == place), lambda s: s.number):
            room = 0  # of the last block
            for piece in (s.piece for s in several):
                if piece.rows <= room:
                    blocks[-1].parts.append((piece, 0, piece.rows))
                    room -= piece.rows
                    continue
                for at in range(0, piece.rows, most_rows):
                    rows = min(most_rows, piece.rows - at)
                    blocks.append(Block(number, [(piece, at, rows)]))
                    room = most_rows - rows
        inputs.append([*blocks, *([Block(IN_MEMORY, [])] if with_memory else ())])
    for meets in itertools.product(*inputs):
        if disk.memory.one_sided or len({block.number for block in meets}) > 1:
            yield meets
