"""What of a join's state is on disk: groups written in generations, taken back, dropped once they are dead.

Nothing here decides; `feature` does, by the policies. What is written is first on disk and only then
forgotten in memory, so a write that fails loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from braided.engine.features import Host
from braided.engine.operators.operator import Operator
from braided.engine.sides.groups import drop_groups, group_of, in_groups, ordered_by_group
from braided.engine.sides.side import Reason, Rows
from braided.engine.spill.files import Piece, Spill, Store
from braided.engine.spill.generations import Generations
from braided.engine.spill.group_statistics import GroupStatistics
from braided.policies.arrays import Bools, Int64s
from braided.policies.flush.state_manager import owed_after_flush
from braided.query.bounds import INFINITE_US
from braided.query.errors import InvalidValue
from braided.query.plan_tree import Plan


class Disk:
    """The partition groups of one engine's operators that have rows on disk, and what they owe."""

    def __init__(self, host: Host, store: Store | None) -> None:
        """Rows that are not in memory go to `store`; None: to files."""
        assert host.query.memory is not None
        self._host, self._query, self._tree = host, host.query, host.tree
        self.memory = host.query.memory
        self.bits = self.memory.group_bits
        groups = 1 << self.bits
        self.store: Store = store or Spill(self.memory.directory)
        self.generations = [Generations(len(o.node), groups) for o in self._tree.operators]
        self.owed = [np.zeros(groups) for _ in self._tree.operators]
        self.met = [np.zeros(groups, np.int64) for _ in self._tree.operators]  # when a group's rows last met
        self.statistics = GroupStatistics(self._query, self.memory, self._tree, host.site.clock)
        self.tick = 0  # flushes and steps, in their order
        self.flushed_rows = 0

    def rows(self, node: Plan) -> int:
        """Rows of an input on disk."""
        operator = self._tree.above(node)
        return int(self.generations[operator.number].rows[operator.node.index(node)].sum())

    def bytes_in_memory(self, operator: Operator) -> Any:
        """About how many bytes groups on disk take in memory."""
        return self.statistics.bytes_of(operator, self.generations[operator.number].rows)

    def holds(self, hashes: Int64s) -> Bools:
        """Which keys, by their hashes at every operator, are of groups with rows on disk."""
        spilled = np.zeros(1 << self.bits, np.bool_)
        for generations in self.generations:
            spilled |= generations.groups
        found: Bools = spilled[group_of(hashes, self.bits)]
        return found

    # to disk

    def flush(self, operator: Operator, groups: Any) -> None:
        """Write groups of one operator to disk; `groups` by input."""
        self.flushed(operator, groups, self.write(operator, groups))

    def write(self, operator: Operator, groups: Any) -> list[dict[int, Piece]]:
        """The rows in memory of some groups on disk, by input and group; memory still has them."""
        sides = [self._tree.sides.get(child) for child in operator.node]
        both = zip(sides, groups, strict=True)
        held = (None if side is None else in_groups(side, chosen) for side, chosen in both)
        return self.write_rows(operator, held)

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

    def flushed(self, operator: Operator, groups: Any, written: list[dict[int, Piece]]) -> None:
        """Memory gives up what was written."""
        number, generations = operator.number, self.generations[operator.number]
        before = generations.rows.copy()
        self.tick += 1
        generations.add(self.tick, written)
        rows = generations.rows - before
        more = owed_after_flush(before.astype(float), rows.astype(float), self.statistics.of[number].unique())
        self.owed[number] += np.maximum(more, rows.any(axis=0)) if self.memory.one_sided else more
        self.flushed_rows += int(rows.sum())
        self.forget(operator, groups)
        if operator.combining is None:  # an input has brought nothing yet, so nothing is owed
            for group in np.flatnonzero(generations.groups).tolist():
                self.meet(number, group)

    def forget(self, operator: Operator, groups: Any) -> None:
        """Memory forgets some groups of an operator; `groups` by input."""
        for child, chosen in zip(operator.node, groups, strict=True):
            if child in self._tree.sides:
                drop_groups(self._tree.sides[child], chosen)

    # on disk

    def meet(self, operator: int, group: int) -> None:
        """All rows of a group have met."""
        self.generations[operator].met(group)
        self.met[operator][group] = self.tick
        self.owed[operator][group] = 0.0

    def drop(self, operator: int, group: int) -> None:
        """A group's rows on disk are needed no more."""
        self.store.drop(self.generations[operator].drop(group))

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
            self.store.drop(generations.drop_dead(watermark_us))
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


def all_inputs(operator: Operator, groups: Bools) -> Any:
    """The same groups of every input."""
    return np.broadcast_to(groups, (len(operator.node), len(groups)))
