"""What an operator does with the combinations it finds: check what the kernel cannot, and put rows together.

The kernel compares hashes, and one time for each input. Here the rest is checked, for every combination
alike: true keys where hashes may collide, columns that only some of the inputs have in common, and the times
of all pairs of streams that meet here for the first time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from braided.engine.operators.inputs import Input, intermediate
from braided.engine.operators.mjoin import Positions
from braided.engine.sides.groups import groups_at
from braided.engine.sides.keys import KeyFormat
from braided.engine.sides.side import BOTTOMLESS_US, SideState
from braided.policies.arrays import Bools, Int64s
from braided.query.bounds import INFINITE_US
from braided.query.join_graph import ColumnName
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan

_Equal = tuple[ColumnName, ColumnName, KeyFormat]  # two stored columns that must be equal


def only(found: Positions, keep: Bools | None) -> Positions:
    """Some of the combinations; None: all."""
    return found if keep is None or keep.all() else np.ascontiguousarray(found[:, keep])


class Combining:
    """Checks the combinations of one operator, and makes intermediate rows of them."""

    def __init__(
        self,
        query: JoinQuery,
        operator: tuple[Plan, ...],
        inputs: Sequence[Input],
        formats: Mapping[int, KeyFormat],
    ) -> None:
        """`formats` says how each attribute of the query is read, by number."""
        self.inputs = tuple(inputs)
        memory = query.memory
        self._group_bits = memory.group_bits if memory and memory.lineage == "carried" else None
        self.output = intermediate(operator, inputs, lineage=self._group_bits is not None)
        self._bounds = query.bounds.matrix
        self._numbers = {name: i for i, name in enumerate(query.names)}
        self._equal = list(self._equalities(query, operator, formats))
        self._composed = not all(source.leaf for source in inputs)

    def holding(self, sides: Sequence[SideState], found: Positions, floors_us: Sequence[int]) -> Positions:
        """Only the combinations that hold."""
        for holds in (self._timely, self._same):
            if found.shape[1]:
                found = only(found, holds(sides, found, floors_us))
        return found

    def gather(
        self, sides: Sequence[SideState], found: Positions, wanted: Iterable[ColumnName]
    ) -> dict[ColumnName, pa.Array]:
        """Stored columns of the combinations, by stream and name."""
        columns: dict[ColumnName, pa.Array] = {}
        for source, side, positions in zip(self.inputs, sides, found, strict=True):
            here = {column: source.places[column] for column in wanted if column in source.places}
            columns.update(zip(here, side.payload.gather(positions, list(here.values())), strict=True))
        return columns

    def batch(self, sides: Sequence[SideState], found: Positions) -> pa.RecordBatch:
        """The combinations as stored columns of intermediate rows."""
        columns, times, lineage = [], [], []
        for source, side, positions in zip(self.inputs, sides, found, strict=True):
            columns += side.payload.gather(positions, list(source.places.values()))
            times += [pa.array(source.times_of(s, side, positions)) for s in source.timed]
            lineage += side.payload.gather(positions, list(source.lineage.values()))
        if self._group_bits is not None:
            lineage.append(pa.array(groups_at(sides[0], found[0], self._group_bits).astype(np.int16)))
        return pa.RecordBatch.from_arrays([*columns, *times, *lineage], schema=self.output.schema)

    def _equalities(
        self, query: JoinQuery, operator: tuple[Plan, ...], formats: Mapping[int, KeyFormat]
    ) -> list[_Equal]:
        """What hashes do not settle."""
        graph = query.graph
        found: list[_Equal] = []
        key = graph.key(operator)
        settled = all(formats[graph.attributes.index(a)].exact for a in key) and len(key) == 1
        for number, attribute in enumerate(graph.attributes):
            having = [source for source in self.inputs if graph.has(attribute, source.node)]
            chosen = [graph.source(attribute, source.node) for source in having]
            if not (settled and attribute in key):
                found += [(chosen[0], other, formats[number]) for other in chosen[1:]]
            for first, source in zip(chosen, having, strict=True):
                if source.leaf:  # a stream may have several columns of one attribute
                    own = [c for c in attribute if c[0] == source.node and c != first]
                    found += [(first, other, formats[number]) for other in own]
        return found

    def _same(self, sides: Sequence[SideState], found: Positions, _: Sequence[int]) -> Bools | None:
        """Which combinations have equal values, not only equal hashes."""
        if not self._equal:
            return None
        columns = self.gather(sides, found, {c for a, b, _ in self._equal for c in (a, b)})
        keep = np.ones(found.shape[1], np.bool_)
        for first, second, format_ in self._equal:
            keep &= format_.equal([columns[first]], [columns[second]])
        return keep

    def _timely(self, sides: Sequence[SideState], found: Positions, floors_us: Sequence[int]) -> Bools | None:
        """Which combinations are inside the bounds of all pairs, if the kernel has not seen all times."""
        if not self._composed:
            return None
        times = [
            {self._numbers[s]: source.times_of(s, side, positions) for s in source.timed}
            for source, side, positions in zip(self.inputs, sides, found, strict=True)
        ]
        keep = np.ones(found.shape[1], np.bool_)
        for here, there in itertools.combinations(times, 2):
            for a, c in itertools.product(here, there):
                self._within(keep, a, here[a], c, there[c])
                self._within(keep, c, there[c], a, here[a])
        composed = [group for source, group in zip(self.inputs, times, strict=True) if not source.leaf]
        for a, at in (pair for group in composed for pair in group.items()):
            if floors_us[a] > BOTTOMLESS_US:
                keep &= at >= floors_us[a]
        return keep

    def _within(self, keep: Bools, a: int, at: Int64s, c: int, then: Int64s) -> None:
        if self._bounds[a][c] < INFINITE_US:
            keep &= then - at <= self._bounds[a][c]
