"""What flush policies and disk phases are asked and answer: frozen values, the same for all of them.

A partition group is the same slice of keys of every input of one operator. Rows of a group are in memory, or
on disk in generations; "results" of a group are combinations of its rows that its operator finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from braided.policies.arrays import Floats

_nothing = partial(np.zeros, 1)  # what is not given is zero in every group


@dataclass(frozen=True)
class Groups:
    """The partition groups of one operator in numbers, by input and group, or by group.

    | paper (Table I, section V-B) | here |
    | --- | --- |
    | prtSize, tupSize | `rows` in memory, `row_bytes` by input |
    | prtInput | `arrived` in an interval |
    | unique | `unique` |
    | obsLoc, obsGlo | `local` and `overall` results in an interval |
    | dskSize, dskLocRslt | `disk_rows`, `owed` |

    `parent` is the number of the operator that takes what this one makes; None for the one that finds
    results. Operators are numbered producers first. `downstream` are the intermediate rows of a group that
    operators above hold in memory. `silent` marks inputs where nothing arrived recently.
    """

    operator: str
    rows: Floats
    row_bytes: tuple[float, ...]
    arrived: Floats
    unique: Floats
    local: Floats
    overall: Floats
    disk_rows: Floats = field(default_factory=_nothing)
    owed: Floats = field(default_factory=_nothing)
    downstream: Floats = field(default_factory=_nothing)
    parent: int | None = None
    silent: tuple[bool, ...] = ()

    @property
    def side_sizes(self) -> Floats:
        """Bytes in memory by input and group."""
        return np.asarray(self.row_bytes, dtype=np.float64)[:, None] * self.rows

    @property
    def sizes(self) -> Floats:
        """Bytes of each group in memory, all inputs together."""
        return np.asarray(self.side_sizes.sum(axis=0))


class Flush(NamedTuple):
    """A group of an operator that is to go to disk; only one of its inputs, if `side` is given."""

    operator: int
    group: int
    side: int | None = None


class Merge(NamedTuple):
    """A group of an operator whose generations on disk are to be joined."""

    operator: int
    group: int


@dataclass(frozen=True)
class Setting:
    """What a disk phase goes by besides the groups.

    `disk_rate` is how many rows a second are read and joined (dskConst); `buffer_rows` is room for rows that
    arrive meanwhile (BufSpace); `memory_weight` is how much results from memory count (memConst, times the
    interval).
    """

    interval_s: float
    disk_rate: float
    buffer_rows: float
    memory_weight: float = 1.0


class Decision(NamedTuple):
    """What is merged now, if anything, and why."""

    merge: Merge | None
    reason: str


ChooseFlush: TypeAlias = Callable[[Sequence[Groups], float], list[Flush]]  # groups, bytes to free at least
ChooseMerge: TypeAlias = Callable[[Sequence[Groups], Setting], Decision]
