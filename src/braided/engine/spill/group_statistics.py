"""What is known of the partition groups of a live tree: flush policies and disk phases go by it.

Different keys of a group are counted by a sketch of 64 bytes that is saved with the state (HyperLogLog, and
linear counting while there are few): it is within about 13 % for one group, and closer for many together.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from braided.engine.features import Host
from braided.engine.operators.inputs import Input
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.operator import Operator
from braided.engine.sides.groups import group_of, groups_at, rows_by_group
from braided.engine.sides.side import Rows, SideState
from braided.policies.arrays import Floats, Int32s, Int64s
from braided.policies.keeping import Smoothed
from braided.query.memory import Memory
from braided.query.plan_tree import Plan, leaves

_SKETCH_BITS = 6
_SKETCH = 1 << _SKETCH_BITS  # bytes of a group
_BIAS = 0.709  # of HyperLogLog with as many registers
_ROW_BYTES = 40  # of a stored row, besides its columns: hash, time, link and its part of the index
LOCAL, OVERALL = -2, -1


class GroupCounts:
    """What the groups of one operator take in and give out, interval by interval."""

    def __init__(self, memory: Memory, inputs: int) -> None:
        self._bits = memory.group_bits
        groups = 1 << self._bits
        self._sketches = np.zeros((groups, _SKETCH), np.uint8)
        self._counts = np.zeros((inputs + 2, groups))  # arrived by input, local, overall
        self._averages = Smoothed(memory.statistics, alpha=memory.alpha, average_of=memory.average_of)
        self.silent = [True] * inputs  # by input, whether the latest batch brought nothing
        self.nbytes = self._sketches.nbytes + 4 * self._counts.nbytes

    def arrived(self, place: int, hashes: Int64s) -> None:
        """Rows arrive at an input."""
        self.silent[place] = False
        self.count(place, group_of(hashes, self._bits))
        words = hashes.view(np.uint64) << np.uint64(self._bits + _SKETCH_BITS)
        zeros = 64 - np.frexp(words.astype(np.float64))[1]  # in front of the rest of the hash
        ranks = np.minimum(zeros, 63 - self._bits - _SKETCH_BITS) + 1
        at = group_of(hashes, self._bits + _SKETCH_BITS)
        np.maximum.at(self._sketches.reshape(-1), at, ranks.astype(np.uint8))

    def count(self, what: int, groups: Int64s) -> None:
        """Count groups: of rows at an input, of combinations (`LOCAL`), of results (`OVERALL`)."""
        self._counts[what] += np.bincount(groups, minlength=self._counts.shape[1])

    def interval(self, share: float) -> None:
        """An interval is over; `share` is how much of one it was, if it was longer or shorter."""
        self._averages.observe(self._counts / share)
        self._counts = np.zeros_like(self._counts)

    @property
    def now(self) -> Floats:
        """By group what an interval brings: rows at each input, then combinations, then results."""
        averages = self._averages.now
        return self._counts if averages is None else averages

    def unique(self) -> Floats:
        """About how many different keys came in each group; at least one."""
        empty = _SKETCH - np.count_nonzero(self._sketches, axis=1)
        many = _BIAS * _SKETCH**2 / np.exp2(-self._sketches.astype(np.float64)).sum(axis=1)
        few = _SKETCH * np.log(_SKETCH / np.maximum(empty, 1))
        return np.asarray(np.maximum(1.0, np.where((many <= 2.5 * _SKETCH) & (empty > 0), few, many)))

    def save(self) -> dict[str, Any]:
        """As plain numbers."""
        sketches = base64.b64encode(zlib.compress(self._sketches.tobytes(), 1)).decode()
        return {"counts": self._counts.tolist(), "kept": self._averages.save(), "sketches": sketches}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Go on from saved numbers, if they are of as many groups."""
        counts = np.array(saved["counts"])
        if counts.shape == self._counts.shape:
            self._counts = counts
            self._averages.load(saved["kept"])
            sketches = np.frombuffer(zlib.decompress(base64.b64decode(saved["sketches"])), np.uint8)
            self._sketches = sketches.reshape(self._sketches.shape).copy()


class GroupStatistics:
    """Counts of all operators' groups, and about how large rows are."""

    def __init__(self, host: Host, memory: Memory) -> None:
        self._graph, self._tree, self._clock = host.query.graph, host.tree, host.site.clock
        self._memory, self._bits = memory, memory.group_bits
        operators = host.tree.operators
        self.of = [GroupCounts(memory, len(o.node)) for o in operators]
        self.row_bytes: dict[Plan, float] = {child: 64.0 for o in operators for child in o.node}
        self.began = self._clock()

    @property
    def mean_row_bytes(self) -> float:
        """About how large a row is, of any input."""
        return sum(self.row_bytes.values()) / len(self.row_bytes)

    # what happens

    def batch(self) -> None:
        """A batch begins."""
        for counts in self.of:
            counts.silent = [True] * len(counts.silent)

    def arrived(self, operator: int, place: int, rows: Rows) -> None:
        """Rows arrive at an input."""
        self.of[operator].arrived(place, rows.hashes)
        child = self._tree.operators[operator].node[place]
        self.row_bytes[child] = rows.batch.nbytes / len(rows) + _ROW_BYTES

    def count_found(self, operator: int, sides: Sequence[SideState], positions: Positions) -> None:
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
        """Begin the next interval, if this one is over; the first begins when time is known."""
        self.began = self.began or self._clock()
        passed = self._clock() - self.began
        if passed >= self._memory.interval_s:
            for counts in self.of:
                counts.interval(passed / self._memory.interval_s)
            self.began = self._clock()

    # what is asked

    def held(self, operator: Operator) -> Floats:
        """Rows in memory by input and group."""
        none, sides = np.zeros(1 << self._bits), self._tree.sides
        rows = [rows_by_group(sides[c], self._bits) if c in sides else none for c in operator.node]
        return np.array(rows, np.float64)

    def downstream(self, operator: Operator) -> Floats:
        """Intermediate rows in memory that came of each group."""
        rows = np.zeros(1 << self._bits)
        if self._memory.flush in ("adaptive-global", "state-spill"):
            for source, side in self._tree.intermediates:
                if operator.node in source.lineage:
                    groups = self._lineage(source, side, np.arange(side.first, side.count), operator)
                    rows += np.bincount(groups, minlength=len(rows))
        return rows

    def _lineage(self, source: Input, side: SideState, at: Int32s | Int64s, below: Operator) -> Int64s:
        """The groups of a lower operator that rows came from.

        Some were stored before they carried them, or when there were more groups.
        """
        if below.node in source.lineage:
            (carried,) = side.payload.gather(at, [source.lineage[below.node]])
            groups = np.asarray(carried.fill_null(-1).to_numpy()).astype(np.int64)
            if not len(groups) or (groups.min() >= 0 and groups.max() < 1 << self._bits):
                return groups
        assert below.keys is not None
        key = source.key(self._graph, self._graph.key(below.node))
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
