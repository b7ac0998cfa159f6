"""What is known of the partition groups of a live tree: flush policies and disk phases go by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braided.engine.operators.mjoin import Positions
from braided.engine.operators.operator import Operator
from braided.engine.operators.tree import Tree
from braided.engine.sides.groups import group_of, groups_at, rows_by_group
from braided.engine.sides.side import Rows, SideState
from braided.engine.spill.group_counts import LOCAL, OVERALL, GroupCounts
from braided.policies.arrays import Floats, Int64s
from braided.policies.flush.question import Groups
from braided.query.join_query import JoinQuery
from braided.query.memory import Memory
from braided.query.plan_tree import Plan, leaves

_ROW_BYTES = 40  # of a stored row, besides its columns: hash, time, link and its part of the index


class GroupStatistics:
    """Counts of all operators' groups, interval by interval, and about how large rows are."""

    def __init__(self, query: JoinQuery, memory: Memory, tree: Tree, clock: Callable[[], float]) -> None:
        self._query, self._memory, self._tree, self._clock = query, memory, tree, clock
        self._bits = memory.group_bits
        operators = tree.operators
        self.of = [GroupCounts(memory, len(o.node), len(operators)) for o in operators]
        self.row_bytes: dict[Plan, float] = {child: 64.0 for o in operators for child in o.node}
        self.began = clock()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(counts.nbytes for counts in self.of)

    @property
    def mean_row_bytes(self) -> float:
        """About how large a row is, of any input."""
        return sum(self.row_bytes.values()) / len(self.row_bytes)

    # what happens

    def arrived(self, operator: int, place: int, rows: Rows) -> None:
        """Rows arrive at an input."""
        self.of[operator].arrived(place, rows.hashes)
        child = self._tree.operators[operator].node[place]
        self.row_bytes[child] = rows.batch.nbytes / len(rows) + _ROW_BYTES

    def found(self, operator: int, sides: Sequence[SideState], positions: Positions) -> None:
        """An operator has found combinations; what the last one finds came of groups of all others."""
        groups = groups_at(sides[0], positions[0], self._bits)
        self.of[operator].count(LOCAL, groups)
        root = self._tree.root
        if operator != root.number:
            return
        self.of[operator].count(OVERALL, groups)
        assert root.combining is not None
        for source, side, at in zip(root.combining.inputs, sides, positions, strict=True):
            for below in self._tree.operators[:-1]:
                if set(leaves(below.node)) <= set(leaves(source.node)):
                    self.of[below.number].count(OVERALL, self._lineage(source, side, at, below))

    def after_interval(self) -> None:
        """Begin the next interval, if this one is over."""
        passed = self._clock() - self.began
        if passed >= self._memory.interval_s:
            for counts in self.of:
                counts.interval(passed / self._memory.interval_s)
            self.began = self._clock()

    # what is asked

    def held(self, operator: Operator) -> Floats:
        """Rows in memory by input and group."""
        sides = [self._tree.sides.get(child) for child in operator.node]
        none = np.zeros(1 << self._bits)
        return np.array([none if s is None else rows_by_group(s, self._bits) for s in sides], np.float64)

    def bytes_of(self, operator: Operator, rows: Any) -> Floats:
        """About how many bytes groups take in memory, of rows by input and group."""
        found: Floats = np.array([self.row_bytes[child] for child in operator.node]) @ rows
        return found

    def groups(self, operator: Operator, disk_rows: Floats, owed: Floats, *, with_rows: bool) -> Groups:
        """What is known of an operator's groups; `with_rows` also of their rows in memory."""
        counts = self.of[operator.number]
        arrived, local, overall = counts.now()
        none = np.zeros(1 << self._bits)
        parent = None if operator is self._tree.root else self._tree.above(operator.node).number
        return Groups(
            operator.name,
            rows=self.held(operator) if with_rows else np.zeros((len(operator.node), len(none))),
            row_bytes=tuple(self.row_bytes[child] for child in operator.node),
            arrived=arrived,
            unique=counts.unique() if with_rows else none + 1.0,
            local=local,
            overall=overall,
            disk_rows=disk_rows,
            owed=owed,
            downstream=self._downstream(operator) if with_rows else none,
            parent=parent,
            silent=tuple(counts.silent),
        )

    def _downstream(self, operator: Operator) -> Any:
        """Intermediate rows in memory that came of each group."""
        found = np.zeros(1 << self._bits)
        if self._memory.flush == "state-spill":
            for source, side in self._tree.intermediates:
                if operator.node in source.lineage:
                    groups = self._lineage(source, side, np.arange(side.first, side.count), operator)
                    found += np.bincount(groups, minlength=len(found))
        return found

    def _lineage(self, source: Any, side: SideState, at: Any, below: Operator) -> Int64s:
        """The groups of a lower operator that rows came from.

        Some were stored before they carried them, or when there were more groups.
        """
        if below.node in source.lineage:
            (carried,) = side.payload.gather(at, [source.lineage[below.node]])
            groups = np.asarray(carried.fill_null(-1).to_numpy()).astype(np.int64)
            if not len(groups) or (groups.min() >= 0 and groups.max() < 1 << self._bits):
                return groups
        assert below.keys is not None
        key = source.key(self._query.graph, self._query.graph.key(below.node))
        return group_of(below.keys.hashes(side.payload.gather(at, key), len(at)), self._bits)

    # from and to a checkpoint

    def save(self) -> dict[str, Any]:
        """As plain numbers."""
        return {"counts": [counts.save() for counts in self.of], "row_bytes": list(self.row_bytes.values())}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Go on from what was saved with the same plan; `began` only where the clock is the same."""
        for counts, of_operator in zip(self.of, saved["counts"], strict=True):
            counts.load(of_operator)
        self.row_bytes = dict(zip(self.row_bytes, saved["row_bytes"], strict=True))
        self.began = saved.get("began", self.began)
