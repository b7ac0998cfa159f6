"""What is merged in one step: groups of an operator, and what becomes of their rows in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from braided.engine.operators.operator import Operator
from braided.engine.spill.disk import Disk
from braided.engine.spill.files import Piece
from braided.policies.arrays import Bools, Floats

_MOST_PIECES = 8  # of a group and input, before they are written as one


@dataclass
class Task:
    """Groups of one operator whose generations are to meet in this step."""

    groups: Bools
    with_memory: bool  # rows in memory are the latest generation
    pieces: list[list[dict[int, Piece]]] = field(default_factory=list)  # rows in memory, already written
    dropped: Bools | None = None  # groups whose earlier pieces go; rows in memory go with them
    smaller: Floats | None = None  # of these groups only pieces go that have fewer rows
    leaves: bool = False  # rows in memory are written, and go
    settles: bool = False  # with those of all operators: afterwards nothing is owed
    dead: list[int] = field(default_factory=list)  # rows of each input that are left out

    def write(self, disk: Disk, operator: Operator, watermark_us: int, *, keep_dead: bool) -> None:
        """Write the rows in memory of its groups; where there are many pieces, all rows as one.

        Of a group that is larger than the limit these are the small pieces, which are the latest.
        Dead rows are left out then. Or they are kept, if operators below may still owe rows that meet them:
        by themselves, so that they can go when nothing is owed.
        """
        self.smaller = disk.small_rows(operator)
        crowded = disk.generations[operator.number].crowded(_MOST_PIECES, self.smaller)
        self.dropped = self.groups & crowded
        self.pieces = [disk.write(operator, self.groups & ~crowded)]
        if not self.dropped.any():
            return
        read = disk.read(operator, self.dropped, with_memory=True, smaller=self.smaller)
        rows = [rows for rows, _ in read]
        inputs = list(zip(operator.node, rows, strict=True))
        living = [disk.living(child, of_input, watermark_us) for child, of_input in inputs]
        alive = [of_input.pick(lives) for of_input, lives in zip(rows, living, strict=True)]
        self.pieces.append(disk.write_rows(operator, alive))
        if keep_dead:
            dead = [of_input.pick(~lives) for of_input, lives in zip(rows, living, strict=True)]
            self.pieces.append(disk.write_rows(operator, dead))
        else:
            self.dead = [int(np.count_nonzero(~lives)) for lives in living]


Tasks: TypeAlias = dict[int, Task]  # by number of operator
