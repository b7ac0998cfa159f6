"""Rows of groups on disk, read back and joined with each other: the combinations across generations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from braided.engine.features import Host
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.operator import Operator
from braided.engine.operators.tree import Found
from braided.engine.sides.columns import BORN, ENDS
from braided.engine.sides.groups import group_of, in_groups
from braided.engine.sides.side import Rows, SideState, concat_rows
from braided.engine.sides.storable import conform
from braided.engine.spill.disk import Disk
from braided.engine.spill.merging import across, apart
from braided.policies.arrays import Bools, Int64s

_MERGE_SHARE = 0.125  # of the limit: rows that are merged at a time, and rows that wait meanwhile
_PIECE_ROWS = 1 << 17
_IN_MEMORY = 1 << 62  # the number of the generation to come


class DiskMerges:
    """Merges of one join; how many there were, of how many rows, and how long they took."""

    def __init__(self, disk: Disk, host: Host) -> None:
        self._disk, self._tree, self._clock = disk, host.tree, host.site.clock
        self._shuffle = np.random.default_rng(host.query.tuning.seed)
        self.number = 0
        self.rows, self.seconds = 0, 0.0  # since they were last set to nothing

    @property
    def room_bytes(self) -> float:
        """What may be merged at a time."""
        return _MERGE_SHARE * self._disk.memory.limit_bytes

    def parts(self, operator: Operator, groups: Bools) -> Iterator[Bools]:
        """Some groups, as many at a time as may be merged together."""
        sizes = self._disk.bytes_in_memory(operator)
        part, size = np.zeros_like(groups), 0.0
        for group in np.flatnonzero(groups).tolist():
            if part.any() and size + sizes[group] > self.room_bytes:
                yield part
                part, size = np.zeros_like(groups), 0.0
            part[group] = True
            size += sizes[group]
        if part.any():
            yield part

    def across(self, operator: Operator, groups: Bools, *, with_memory: bool) -> Iterator[Found]:
        """The combinations across generations of some groups, in random order.

        With `with_memory` rows in memory are the latest generation.
        """
        began = self._clock()
        sources = [self._tree.sides[child] for child in operator.node]
        inputs = self.read(operator, groups, with_memory=with_memory)
        self.rows += sum(len(rows) for rows, _ in inputs)
        slices = int(self._disk.bytes_in_memory(operator)[groups].sum() / self.room_bytes).bit_length()
        for number in range(1 << slices):
            sides, numbers = [], []
            for source, (rows, of_rows) in zip(sources, inputs, strict=True):
                chosen = _slice(rows, self._disk.bits, slices, number)
                columns = [c for c in (ENDS, BORN) if c.name in source.columns]
                side = SideState(source.name, source.payload.schema, columns, turned=self._disk.bits + slices)
                side.append(rows if chosen is None else rows.pick(chosen))
                sides.append(side)
                numbers.append(of_rows if chosen is None else of_rows[chosen])
            for positions in self._owed_by(operator, sides, numbers):
                self.seconds += self._clock() - began
                yield sides, np.ascontiguousarray(positions[:, self._shuffle.permutation(positions.shape[1])])
                began = self._clock()
        self.number += 1
        self.seconds += self._clock() - began

    def read(self, operator: Operator, groups: Bools, *, with_memory: bool) -> list[tuple[Rows, Int64s]]:
        """By input: rows of some groups, generation by generation, and the numbers of their generations."""
        generations = self._disk.generations[operator.number].by_number(np.flatnonzero(groups))
        read = self._disk.store.read(p for g in generations for pieces in g.pieces for p in pieces)
        found = []
        for place, child in enumerate(operator.node):
            side = self._tree.sides[child]
            held = in_groups(side, groups & with_memory)
            parts = [
                (_conformed(read[p], side.payload.schema), g.number)
                for g in generations
                for p in g.pieces[place]
            ]
            parts.append((held, _IN_MEMORY))
            rows, numbers = [r for r, _ in parts], [n for _, n in parts]
            found.append((concat_rows(rows), np.repeat(np.array(numbers, np.int64), [len(r) for r in rows])))
        return found

    def _owed_by(
        self, operator: Operator, sides: Sequence[SideState], numbers: Sequence[Int64s]
    ) -> Iterator[Positions]:
        """The combinations that some rows owe each other, by the numbers of their generations."""
        if self._disk.memory.one_sided:
            met = self._disk.met[operator.number]
            return apart(operator.bounds, sides, numbers, met, self._disk.bits, _PIECE_ROWS)
        all_of_them = np.unique(np.concatenate(numbers))
        ends = [np.searchsorted(of_rows, all_of_them, side="right").tolist() for of_rows in numbers]
        starts = [[0] * len(sides), *map(list, zip(*ends, strict=True))]
        return across(operator.bounds, sides, starts, _PIECE_ROWS)


def _conformed(rows: Rows, schema: pa.Schema) -> Rows:
    """Rows in today's columns."""
    return dataclasses.replace(rows, batch=conform(rows.batch, schema))


def _slice(rows: Rows, bits: int, slices: int, number: int) -> Bools | None:
    """Which rows are of one of several slices, by bits of the hash behind those of the group; None: all."""
    if not slices:
        return None
    chosen: Bools = (group_of(rows.hashes, bits + slices) & ((1 << slices) - 1)) == number
    return chosen
