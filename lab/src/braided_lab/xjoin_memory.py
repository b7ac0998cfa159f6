"""One stream's memory-resident portions: all partitions in one side, told apart by the lowest bits of hashes.

The side is the engine's own, with one index for all partitions; equal keys are in the same partition, so a
probe finds what it would find in a partition's own index. A row's time is the time of its arrival. As long as
nothing is flushed, partitions cost nothing: rows are only counted by partition once the first flush asks.

A row that departs is not taken out of the index at once, which would mean to build a new one for each flush:
its time is set below the side's floor, where no probe finds it. Once `_MOST_DEPARTED` of the rows held are
such, the side is built anew without them. That is the memory in use beyond the budget.
"""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa

from braided.engine.sides.side import Reason, Rows, SideState
from braided.policies.arrays import Bools, Int32s, Int64s
from braided_lab.xjoin_stamps import NEVER, Stamps

_DEPARTED = -1
_MOST_DEPARTED = 0.25


class Portion:
    """Rows that can probe and be probed, with their stamps; `departed` is None for rows in memory."""

    def __init__(self, side: SideState, departed: Int64s | None = None) -> None:
        self.side, self._departed = side, departed

    def stamps(self, positions: Int32s) -> Stamps:
        """Of the rows at some positions."""
        arrived = self.side.columns.at("time", positions)
        if self._departed is None:
            return Stamps(arrived, np.full(len(positions), NEVER, np.int64))
        return Stamps(arrived, self._departed[positions])


class MemoryPortions(Portion):
    """The memory-resident rows of one stream."""

    def __init__(self, name: str, schema: pa.Schema, partitions: int) -> None:
        super().__init__(SideState(name, schema))
        self.side.floor_us = 0  # departed rows are below it
        self._partitions = partitions
        self._counts: Int64s | None = None  # rows by partition, from the first flush on

    @property
    def rows(self) -> int:
        """Rows that have not departed."""
        return self.side.rows - self.side.dead

    def append(self, rows: Rows) -> None:
        """Store and link rows."""
        self.side.append(rows)
        if self._counts is not None:
            self._counts += self._count(rows.hashes)

    def largest(self) -> tuple[int, int]:
        """The largest partition: its rows, its number."""
        if self._counts is None:
            self._counts = self._count(self._hashes[self._resident])
        most = int(self._counts.argmax())
        return int(self._counts[most]), most

    def depart(self, partition: int) -> tuple[list[pa.Array], Int64s]:
        """Take the rows of a partition out of memory: their columns, and when they arrived."""
        mine = np.flatnonzero((self._numbers(self._hashes) == partition) & self._resident)
        arrived = self._times[mine]
        positions = (mine + self.side.first).astype(np.int32)
        columns = self.side.payload.gather(positions, range(len(self.side.payload.schema)))
        self._times[mine] = _DEPARTED
        self.side.dead += len(mine)
        if self._counts is not None:
            self._counts[partition] = 0
        self._tidy()
        return columns, arrived

    def arrivals(self) -> list[Int64s]:
        """When the rows of each partition arrived, in order."""
        resident = self._resident
        numbers, arrived = self._numbers(self._hashes[resident]), self._times[resident]
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=self._partitions))
        return [arrived[order[a:b]] for a, b in itertools.pairwise([0, *ends])]

    def _tidy(self) -> None:
        if self.side.dead > _MOST_DEPARTED * self.side.rows:
            self.side.forget(self.side.ended(0), Reason.EXPIRE, entirely=True)
            self.side.dead = 0

    def _numbers(self, hashes: Int64s) -> Int64s:
        return hashes & (self._partitions - 1)

    def _count(self, hashes: Int64s) -> Int64s:
        return np.bincount(self._numbers(hashes), minlength=self._partitions)

    @property
    def _hashes(self) -> Int64s:
        return self.side.columns.held("hash")

    @property
    def _times(self) -> Int64s:
        return self.side.columns.held("time")

    @property
    def _resident(self) -> Bools:
        return self._times > _DEPARTED
