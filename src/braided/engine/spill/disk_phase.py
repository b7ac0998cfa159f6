"""The disk phase: which group is merged next, by the policies from what is known of all groups; and merges.

A merge reads whole groups, as many at a time as there is room for. A group that is larger than that is merged
slice by slice, by the bits of the hash behind those of the group: rows of one key are in one slice. One that
is larger than the limit, as with a key that has most of the rows, is read block by block.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from braided.engine.features import Host
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.operator import Operator
from braided.engine.operators.tree import Found
from braided.engine.sides.columns import BORN, ENDS
from braided.engine.sides.groups import group_of
from braided.engine.sides.side import Rows, SideState
from braided.engine.spill.blocks import Block, meeting
from braided.engine.spill.disk import Disk
from braided.engine.spill.merging import across, apart
from braided.policies.arrays import Bools, Floats, Int64s
from braided.policies.flush import registry
from braided.policies.flush.question import Groups, Merge, Setting
from braided.policies.flush.state_manager import owed_after_flush
from braided.query.plan_tree import Plan

_MERGE_SHARE = 0.125  # of the limit: rows that are merged at a time, and rows that wait meanwhile
_BLOCKS_SHARE = 0.5  # of the limit: blocks of a group that is larger than it
_PIECE_ROWS = 1 << 17
_FIRST_RATE, _FIRST_STORED_RATE = 1e6, 3e5  # rows a second of a merge until it is measured, and on Spark
_log = logging.getLogger("braided.memory")
_Loaded: TypeAlias = tuple[list[SideState], list[Int64s]]  # by input: rows, and their generations' numbers


class DiskPhase:
    """Decides on merges for one join, and merges; counts them, their rows and their seconds."""

    def __init__(self, disk: Disk, host: Host) -> None:
        self._disk, self._tree = disk, host.tree
        # how fast merges are is measured in one batch and used from the next one on
        self._clock = time.perf_counter if host.site.retried else host.site.clock
        self.memory = disk.memory
        managed = self.memory.flush == "adaptive-global" and self.memory.state_manager
        self.along = managed and self.memory.take_along
        first = _FIRST_STORED_RATE if host.site.retried else _FIRST_RATE
        self.rate = self.memory.disk_rate or first  # rows a second
        self._room_bytes = _MERGE_SHARE * self.memory.limit_bytes
        self._shuffle = np.random.default_rng(host.query.tuning.seed)
        self.reason = ""  # why it last decided as it did, with its numbers
        self.merges = 0
        self.rows, self.seconds = 0, 0.0  # of merges since they were last set to nothing

    def measured(self) -> None:
        """The merges of a step are over: learn how fast they were."""
        if self.rows and self.seconds > 0 and self.memory.disk_rate is None:
            self.rate = 0.5 * self.rate + 0.5 * self.rows / self.seconds

    def decide(self, *, idle: bool) -> Merge | None:
        """What to merge now; an idle batch leaves all time and memory to merges. The reason is logged."""
        if not self._disk.owed.any() and not (self.along and any(self._disk.generations)):
            return None  # there is nothing to merge
        plan = [self.groups(o, with_rows=False) for o in self._tree.operators]
        room = math.inf if idle else self._room_bytes / self._disk.statistics.mean_row_bytes
        weight = 0.0 if idle else self.memory.memory_weight
        adaptive = self.memory.flush == "adaptive-global"
        name = self.memory.flush if self.memory.state_manager or not adaptive else "state-spill"
        decision = registry.MERGES[name](plan, Setting(self.memory.interval_s, self.rate, room, weight))
        self.reason = decision.reason
        _log.info("%s", self.reason)
        return decision.merge

    def groups(self, operator: Operator, *, with_rows: bool) -> Groups:
        """What is known of an operator's groups; `with_rows` also of their rows in memory."""
        statistics = self._disk.statistics
        counts = statistics.of[operator.number]
        *arrived, local, overall = counts.now
        none = np.zeros_like(local)
        return Groups(
            operator.name,
            rows=statistics.held(operator) if with_rows else np.zeros_like(arrived),
            row_bytes=tuple(statistics.row_bytes[child] for child in operator.node),
            arrived=np.array(arrived),
            unique=counts.unique() if with_rows else none + 1.0,
            local=local,
            overall=overall,
            disk_rows=self._disk.generations[operator.number].rows.astype(np.float64),
            owed=self.owed(operator),
            downstream=statistics.downstream(operator) if with_rows else none,
            parent=None if operator is self._tree.root else self._tree.above(operator.node).number,
            silent=tuple(counts.silent),
        )

    def owed(self, operator: Operator) -> Any:
        """About how many combinations groups owe.

        Where merges take rows in memory along, what these owe to those on disk counts, too.
        Where inputs are flushed one by one, it does anyway; there after a merge nothing is known to be owed
        until something arrives or leaves.
        """
        if not self.memory.one_sided and not self.along:
            return self._disk.owed[operator.number]
        return self.owed_in_all(operator)

    def owed_in_all(self, operator: Operator) -> Any:
        """About how many combinations groups owe, those of rows in memory included."""
        owed = self._disk.owed[operator.number]
        on_disk = self._disk.generations[operator.number].rows.astype(np.float64)
        held = self._disk.statistics.held(operator)
        unique = self._disk.statistics.of[operator.number].unique()
        if not self.memory.one_sided:
            return owed + owed_after_flush(on_disk, held, unique)
        same_key = unique ** (len(held) - 1)
        return np.where(owed > 0, (np.prod(on_disk + held, axis=0) - np.prod(held, axis=0)) / same_key, 0.0)

    # merges

    def parts(self, operator: Operator, groups: Bools) -> Iterator[Bools]:
        """Some groups, as many at a time as may be merged together."""
        return self.split(groups, self._disk.bytes_in_memory(operator))

    def split(self, groups: Bools, sizes: Floats) -> Iterator[Bools]:
        """Some groups, as many at a time as there is room for."""
        part, size = np.zeros_like(groups), 0.0
        for group in np.flatnonzero(groups).tolist():
            if part.any() and size + sizes[group] > self._room_bytes:
                yield part
                part, size = np.zeros_like(groups), 0.0
            part[group] = True
            size += sizes[group]
        if part.any():
            yield part

    def merge(self, operator: Operator, groups: Bools, *, with_memory: bool) -> Iterator[Found]:
        """The combinations across generations of some groups, in random order.

        With `with_memory` rows in memory are the latest generation.
        """
        began = self._clock()
        for sides, numbers in self._loaded(operator, groups, with_memory=with_memory):
            for positions in self._owed(operator, sides, numbers):
                self.seconds += self._clock() - began
                yield sides, np.ascontiguousarray(positions[:, self._shuffle.permutation(positions.shape[1])])
                began = self._clock()
        self.merges += 1
        self.seconds += self._clock() - began

    def _loaded(self, operator: Operator, groups: Bools, *, with_memory: bool) -> Iterator[_Loaded]:
        """Sides with rows of some groups, so that all that owe each other meet; and their generations."""
        disk, size = self._disk, float(self._disk.bytes_in_memory(operator)[groups].sum())
        if disk.oversized(operator)[groups].any():
            yield from self._in_blocks(operator, groups, with_memory=with_memory)
            return
        inputs = disk.read(operator, groups, with_memory=with_memory)
        self.rows += sum(len(rows) for rows, _ in inputs)
        slices = int(size / self._room_bytes).bit_length()
        if not slices:
            inputs.reverse()  # what a side has taken over is needed no more
            numbers = [of_rows for _, of_rows in reversed(inputs)]
            yield [self._side(child, inputs.pop()[0], 0) for child in operator.node], numbers
            return
        for number in range(1 << slices):
            which = [
                group_of(rows.hashes, disk.bits + slices) & ((1 << slices) - 1) == number
                for rows, _ in inputs
            ]
            some = [rows.pick(chosen) for (rows, _), chosen in zip(inputs, which, strict=True)]
            sides = [self._side(child, rows, slices) for child, rows in zip(operator.node, some, strict=True)]
            yield sides, [of_rows[chosen] for (_, of_rows), chosen in zip(inputs, which, strict=True)]

    def _in_blocks(self, operator: Operator, groups: Bools, *, with_memory: bool) -> Iterator[_Loaded]:
        """The same for a group that is larger than the limit."""
        room_bytes = _BLOCKS_SHARE * self.memory.limit_bytes / len(operator.node)
        held: dict[Plan, tuple[Block, SideState]] = {}
        for blocks in meeting(self._disk, operator, groups, room_bytes, with_memory=with_memory):
            for child, block in zip(operator.node, blocks, strict=True):
                if child not in held or held[child][0] is not block:
                    held.pop(child, None)  # its room is for this one
                    rows = block.read(self._disk, child, groups)
                    held[child] = block, self._side(child, rows, 0)
                    self.rows += len(rows)
            sides = [held[child][1] for child in operator.node]
            yield sides, [np.full(s.count, block.number) for s, block in zip(sides, blocks, strict=True)]

    def _side(self, child: Plan, rows: Rows, slices: int) -> SideState:
        """A side with some rows of a merge, all of the same group or slice of it."""
        source = self._disk.tree.sides[child]
        columns = [c for c in (ENDS, BORN) if c.name in source.columns]
        side = SideState(
            source.name, source.payload.schema, columns, window=source.window, turned=self._disk.bits + slices
        )
        side.append(rows)
        return side

    def _owed(
        self, operator: Operator, sides: Sequence[SideState], numbers: Sequence[Int64s]
    ) -> Iterator[Positions]:
        """The combinations that some rows owe each other, by the numbers of their generations."""
        if self._disk.memory.one_sided:
            return apart(operator.bounds, sides, numbers, self._disk.met[operator.number], _PIECE_ROWS)
        generations = np.unique(np.concatenate(numbers))
        ends = [np.searchsorted(of_rows, generations, side="right").tolist() for of_rows in numbers]
        starts = [[0] * len(sides), *map(list, zip(*ends, strict=True))]
        return across(operator.bounds, sides, starts, _PIECE_ROWS)
