"""What of a join's state is on disk: groups written in generations, taken back, dropped once they are dead.

Nothing here decides; `feature` does, by the policies. What is written is first on disk and only then
forgotten in memory, so a write that fails loses nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from braided.engine.features import Host
from braided.engine.operators.operator import Operator
from braided.engine.sides.groups import drop_groups, group_of, in_groups, ordered_by_group
from braided.engine.sides.side import Reason, Rows, SideState, concat_rows
from braided.engine.sides.storable import conform
from braided.engine.spill.files import Piece, Spill, Store
from braided.engine.spill.generations import Generations
from braided.engine.spill.group_statistics import GroupStatistics
from braided.policies.arrays import Bools, Floats, Int64s
from braided.policies.flush.state_manager import owed_after_flush
from braided.query.bounds import INFINITE_US
from braided.query.errors import InvalidValue
from braided.query.plan_tree import Plan

_MERGE_SHARE = 0.125  # of the limit: rows that are merged at a time, and rows that wait meanwhile
_IN_MEMORY = 1 << 62  # the number of the generation to come


class Disk:
    """The partition groups of one engine's operators that have rows on disk, and what they owe."""

    def __init__(self, host: Host, store: Store | None) -> None:
        """Rows that are not in memory go to `store`; None: to files."""
        assert host.query.memory is not None
        self._host, self._query, self._tree = host, host.query, host.tree
        self.memory = host.query.memory
        self.room_bytes = _MERGE_SHARE * self.memory.limit_bytes  # for what is merged at a time
        self.bits = self.memory.group_bits
        operators, groups = self._tree.operators, 1 << self.bits
        self.store: Store = store or Spill(self.memory.directory)
        self.generations = [Generations(len(o.node), groups) for o in operators]
        self.owed = np.zeros((len(operators), groups))
        self.met = np.zeros((len(operators), groups), np.int64)  # when a group's rows last met
        self.statistics = GroupStatistics(host, self.memory)
        self.tick = 0  # flushes and steps, in their order
        self.flushed_rows = 0

    def rows(self, node: Plan) -> int:
        """Rows of an input on disk."""
        operator = self._tree.above(node)
        return int(self.generations[operator.number].rows[operator.node.index(node)].sum())

    def bytes_in_memory(self, operator: Operator) -> Floats:
        """About how many bytes groups on disk take in memory."""
        row_bytes = np.array([self.statistics.row_bytes[child] for child in operator.node])
        return np.asarray(row_bytes @ self.generations[operator.number].rows)

    def holds(self, hashes: Int64s) -> Bools:
        """Which keys, by their hashes at every operator, are of groups with rows on disk."""
        spilled = np.any([generations.groups for generations in self.generations], axis=0)
        return np.asarray(spilled[group_of(hashes, self.bits)])

    def read(self, operator: Operator, groups: Bools, *, with_memory: bool) -> list[tuple[Rows, Int64s]]:
        """By input: rows of some groups, generation by generation, and the numbers of their generations."""
        stored = self.generations[operator.number].of(groups)
        read = self.store.read(s.piece for s in stored)
        inputs = []
        for place, side in enumerate(self._tree.of_inputs(operator)):
            here = [s for s in stored if s.place == place]
            rows = [_conformed(read[s.piece], side.payload.schema) for s in here]
            rows.append(in_groups(side, groups & with_memory))
            numbers = np.array([*(s.number for s in here), _IN_MEMORY])
            inputs.append((concat_rows(rows), np.repeat(numbers, [len(r) for r in rows])))
        return inputs

    # to disk

    def flush(self, operator: Operator, groups: Bools) -> None:
        """Write groups of one operator to disk: the same of every input, or `groups` by input."""
        self.flushed(operator, groups, self.write(operator, groups))

    def write(self, operator: Operator, groups: Bools) -> list[dict[int, Piece]]:
        """The rows in memory of some groups on disk, by input and group; memory still has them."""
        return self.write_rows(operator, (s and in_groups(s, g) for s, g in self._by_input(operator, groups)))

    def write_rows(self, operator: Operator, inputs: Iterable[Rows | None]) -> list[dict[int, Piece]]:
        """Write rows of an operator's inputs to disk; the pieces by input and group."""
        groups: list[list[int]] = []

        def parts() -> Iterator[tuple[Rows, Int64s, Int64s | None]]:
            for child, rows in zip(operator.node, inputs, strict=True):
                if rows is None or not len(rows):
                    groups.append([])
                    continue
                rows, there, bounds = ordered_by_group(rows, self.bits)
                groups.append(there)
                yield rows, bounds, self._ends_us(child, rows)

        written = iter(self.store.write(parts()))
        return [dict(zip(there, next(written), strict=True)) if there else {} for there in groups]

    def flushed(self, operator: Operator, groups: Bools, written: list[dict[int, Piece]]) -> None:
        """Memory gives up what was written."""
        self.tick += 1
        self.flushed_rows += self.add(operator.number, self.tick, written)
        self.forget(operator, groups)
        if operator.combining is None:  # an input has brought nothing yet, so nothing is owed
            self.meet(operator.number, self.generations[operator.number].groups)

    def forget(self, operator: Operator, groups: Bools) -> None:
        """Memory forgets some groups of an operator: the same of every input, or `groups` by input."""
        for side, chosen in self._by_input(operator, groups):
            if side is not None:
                drop_groups(side, chosen)

    def _by_input(self, operator: Operator, groups: Bools) -> Iterator[tuple[SideState | None, Bools]]:
        by_input = np.broadcast_to(groups, (len(operator.node), groups.shape[-1]))
        return zip(map(self._tree.sides.get, operator.node), by_input, strict=True)

    # on disk

    def add(self, operator: int, number: int, pieces: list[dict[int, Piece]]) -> int:
        """One more generation of an operator is on disk, by input and group; how many rows."""
        generations = self.generations[operator]
        before = generations.rows.astype(np.float64)
        generations.add(number, pieces)
        rows = generations.rows - before
        more = owed_after_flush(before, rows, self.statistics.of[operator].unique())
        self.owed[operator] += np.maximum(more, rows.any(axis=0)) if self.memory.one_sided else more
        return int(rows.sum())

    def meet(self, operator: int, groups: Bools) -> None:
        """All rows of some groups have met."""
        self.generations[operator].meet(groups)
        self.met[operator, groups] = self.tick
        self.owed[operator, groups] = 0.0

    def drop(self, operator: int, groups: Bools) -> None:
        """Some groups' rows on disk are needed no more."""
        self.store.drop(self.generations[operator].drop(groups))

    def mostly_dead(self) -> bool:
        """Whether the watermark has passed more than half of what is on disk."""
        if not self._query.windowed:
            return False
        dead = sum(g.dead_rows(self._host.watermark.us) for g in self.generations)
        return 2 * dead > sum(int(g.rows.sum()) for g in self.generations)

    def drop_dead(self, watermark_us: int) -> None:
        """Forget what the watermark has passed, of groups whose rows have met."""
        if not self._query.windowed:
            return
        for operator in self._tree.operators:
            generations = self.generations[operator.number]
            before = generations.rows.sum(axis=1)
            self.store.drop(generations.drop(~generations.owing, watermark_us))
            for child, rows in zip(operator.node, before - generations.rows.sum(axis=1), strict=True):
                if isinstance(child, str):
                    self._host.counters[self._query.names.index(child)].expired_rows += int(rows)
                else:
                    self._tree.sides[child].forgotten[Reason.EXPIRE] += int(rows)

    def _ends_us(self, child: Plan, rows: Rows) -> Int64s | None:
        if not self._query.windowed:
            return None
        if rows.ends is not None:
            return rows.ends
        if not isinstance(child, str):
            raise InvalidValue(
                "this saved state is damaged: rows of an intermediate do not tell when they end"
            )
        retention_us = self._query.bounds.retention_us(self._query.names.index(child))
        return None if retention_us >= INFINITE_US else rows.times + retention_us


def _conformed(rows: Rows, schema: pa.Schema) -> Rows:
    """Rows in today's columns."""
    return dataclasses.replace(rows, batch=conform(rows.batch, schema))
