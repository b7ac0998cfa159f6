"""One operator of a plan: its inputs, the join over them, and what is made of the combinations it finds.

A plan is a tree of operators. In a batch they run one after the other, producers before consumers; what one
makes is an arriving buffer of the next, like a stream's new rows. By the law of `mjoin` each operator finds
each combination of its inputs' rows exactly once, in the batch in which the last of them arrives; so every
intermediate row arises once, and by induction from the leaves to the root every result does. Which rows are
forgotten, and that this loses nothing, is in `inputs`. Hence every plan gives the bag of the flat one.

The kernel compares hashes, and one time for each input. The rest is checked here (`Combining`), for every
combination alike: true keys where hashes may collide, columns that only some of the inputs have in common,
and the times of all pairs of streams that meet here for the first time.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from braided.engine.operators.counted import Counted
from braided.engine.operators.finality import Finality
from braided.engine.operators.firsts import Firsts, firsts_of
from braided.engine.operators.inputs import Input
from braided.engine.operators.layout import Layout, key_format_of
from braided.engine.operators.mjoin import FlatJoin, Positions
from braided.engine.sides.groups import groups_at
from braided.engine.sides.keys import KeyFormat, valid_keys
from braided.engine.sides.side import BOTTOMLESS_US, Rows, SideState
from braided.policies.arrays import Bools, Int64s
from braided.policies.choice import Policies
from braided.query.bounds import INFINITE_US
from braided.query.join_graph import ColumnName
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan, label, leaves

_Equal = tuple[ColumnName, ColumnName, KeyFormat]  # two stored columns that must be equal


def only(positions: Positions, keep: Bools | None) -> Positions:
    """Pick some of the combinations; None: all."""
    return positions if keep is None or keep.all() else np.ascontiguousarray(positions[:, keep])


class Combining:
    """Checks the combinations of one operator, and makes intermediate rows of them."""

    def __init__(
        self,
        query: JoinQuery,
        inputs: Sequence[Input],
        output: Input,
        layouts: Sequence[Layout],
        counted: Counted | None = None,
    ) -> None:
        """`output` is what the intermediate rows look like, `layouts` are those of the streams below."""
        self._counted = counted
        self.inputs, self.output = tuple(inputs), output
        self._group_bits = query.memory.group_bits if query.memory and output.lineage else None
        self._bounds = query.bounds.matrix
        self._numbers = {name: i for i, name in enumerate(query.names)}
        self._equal = list(self._equalities(query, layouts))
        self._composed = not all(source.leaf for source in inputs)

    def holding(
        self, sides: Sequence[SideState], positions: Positions, floors_us: Sequence[int]
    ) -> Positions:
        """Only the combinations that hold."""
        for holds in (self._inside, self._timely, self._same):
            if positions.shape[1]:
                positions = only(positions, holds(sides, positions, floors_us))
        return positions

    def now(self, sides: Sequence[SideState], positions: Positions) -> Int64s:
        """The newest times of the combinations."""
        rows = zip(self.inputs, sides, positions, strict=True)
        times = [side.columns.at("time", at) for source, side, at in rows if source.timed]
        return np.maximum.reduce(times) if times else np.zeros(positions.shape[1], np.int64)

    def gather(
        self, sides: Sequence[SideState], positions: Positions, wanted: Iterable[ColumnName]
    ) -> dict[ColumnName, pa.Array]:
        """Stored columns of the combinations, by stream and name."""
        columns: dict[ColumnName, pa.Array] = {}
        for source, side, rows in zip(self.inputs, sides, positions, strict=True):
            here = {column: source.places[column] for column in wanted if column in source.places}
            columns.update(zip(here, side.payload.gather(rows, list(here.values())), strict=True))
        return columns

    def batch(self, sides: Sequence[SideState], positions: Positions) -> pa.RecordBatch:
        """The combinations as stored columns of intermediate rows."""
        columns, times, lineage = [], [], []
        for source, side, rows in zip(self.inputs, sides, positions, strict=True):
            columns += side.payload.gather(rows, list(source.places.values()))
            times += [pa.array(source.times_of(s, side, rows)) for s in source.timed]
            lineage += side.payload.gather(rows, list(source.lineage.values()))
        if self._group_bits is not None:
            lineage.append(pa.array(groups_at(sides[0], positions[0], self._group_bits).astype(np.int16)))
        return pa.RecordBatch.from_arrays([*columns, *times, *lineage], schema=self.output.schema)

    def _equalities(self, query: JoinQuery, layouts: Sequence[Layout]) -> Iterator[_Equal]:
        """Yield the pairs of columns whose equality hashes do not settle."""
        graph, operator = query.graph, tuple(source.node for source in self.inputs)
        key = graph.key(operator)
        settled = key if key_format_of(key, layouts).exact else ()
        for attribute in graph.attributes:
            having = [source for source in self.inputs if graph.has(attribute, source.node)]
            chosen = [graph.source(attribute, source.node) for source in having]
            pairs = [] if attribute in settled else [(chosen[0], other) for other in chosen[1:]]
            for first, source in zip(chosen, having, strict=True):
                if source.leaf:  # a stream may have several columns of one attribute
                    pairs += [(first, c) for c in attribute if c[0] == source.node and c != first]
            for first, second in pairs:
                yield first, second, key_format_of([attribute], layouts)

    def _inside(
        self, sides: Sequence[SideState], positions: Positions, floors_us: Sequence[int]
    ) -> Bools | None:
        """Tell which combinations are inside all count windows; rows that waited may have become too old."""
        if self._counted is None:
            return None
        keep = self._counted.inside(self.inputs, sides, positions, self.now(sides, positions))
        for source, side, at in zip(self.inputs, sides, positions, strict=True):
            if source.leaf and (floor_us := floors_us[self._numbers[source.name]]) > BOTTOMLESS_US:
                keep &= side.columns.at("time", at) >= floor_us
        return keep

    def _same(self, sides: Sequence[SideState], positions: Positions, _: Sequence[int]) -> Bools | None:
        """Tell which combinations have equal values, not only equal hashes."""
        if not self._equal:
            return None
        columns = self.gather(sides, positions, {c for a, b, _ in self._equal for c in (a, b)})
        keep = np.ones(positions.shape[1], np.bool_)
        for first, second, format_ in self._equal:
            keep &= format_.equal([columns[first]], [columns[second]])
        return keep

    def _timely(
        self, sides: Sequence[SideState], positions: Positions, floors_us: Sequence[int]
    ) -> Bools | None:
        """Tell which combinations are inside all bounds, if the kernel has not seen all times."""
        if not self._composed:
            return None
        times = [
            {self._numbers[s]: source.times_of(s, side, rows) for s in source.timed}
            for source, side, rows in zip(self.inputs, sides, positions, strict=True)
        ]
        keep = np.ones(positions.shape[1], np.bool_)
        for here, there in itertools.permutations(times, 2):
            for (a, at), (c, then) in itertools.product(here.items(), there.items()):
                if self._bounds[a][c] < INFINITE_US:
                    keep &= then - at <= self._bounds[a][c]
        composed = [group for source, group in zip(self.inputs, times, strict=True) if not source.leaf]
        for a, at in (pair for group in composed for pair in group.items()):
            if floors_us[a] > BOTTOMLESS_US:
                keep &= at >= floors_us[a]
        return keep


class Operator:
    """A join over two or more inputs; `combining` is there once the schemas below it are known."""

    def __init__(self, query: JoinQuery, node: tuple[Plan, ...], number: int, policies: Policies) -> None:
        self._query = query
        self.node, self.number = node, number
        self.name, self.names = label(node), tuple(label(child) for child in node)
        numbers = {name: i for i, name in enumerate(query.names)}
        self.bounds = query.bounds.between([[numbers[s] for s in leaves(child)] for child in node])
        self.join = FlatJoin(self.bounds, policies, number)
        self.combining: Combining | None = None
        self.keys: KeyFormat | None = None
        self.firsts: Firsts | None = None  # where a semi stream joins
        kinds = query.kinds
        self.silent = kinds.late and not set(leaves(node)) <= set(
            kinds.core
        )  # nothing comes before it is final
        self._finality = Finality(query, kinds.core, kinds.optional) if kinds.optional else None

    def learn(
        self, inputs: Mapping[Plan, Input], layouts: Sequence[Layout], counted: Counted | None = None
    ) -> None:
        """The schemas of some streams are known: read keys as they say; if all below are, combine."""
        below = [layout for layout in layouts if layout.stream.name in leaves(self.node)]
        self.keys = key_format_of(self._query.graph.key(self.node), below) if below else None
        if self.combining is None and self.node in inputs:
            sources = [inputs[child] for child in self.node]
            self.combining = Combining(self._query, sources, inputs[self.node], below, counted)
            assert self.keys is not None
            self.firsts = firsts_of(self._query, sources, below, self.keys)

    def entering(self, source: Input, batch: pa.RecordBatch) -> Rows:
        """Intermediate rows of one of its inputs, from their stored columns, keyed for this operator."""
        assert self.keys is not None
        query, rows = self._query, batch.num_rows
        newest = np.full(rows, BOTTOMLESS_US if source.timed else 0, np.int64)
        ends = np.full(rows, INFINITE_US, np.int64)
        for stream, place in source.times.items():
            at = np.asarray(batch.column(place).to_numpy())
            retention_us = min(INFINITE_US, query.bounds.retention_us(query.names.index(stream)))
            newest, ends = np.maximum(newest, at), np.minimum(ends, at + retention_us)
        columns = [batch.column(k) for k in source.key(query.graph, query.graph.key(self.node))]
        checks = self.keys.checks(columns) if query.promises and not self.keys.exact else None
        made = Rows(batch, self.keys.hashes(columns, rows), newest, checks=checks, ends=ends)
        return made if self._finality is None else self._with_nulls(source, made, columns)

    def _with_nulls(self, source: Input, made: Rows, key: Sequence[pa.Array]) -> Rows:
        """The same where optional streams join: rows may lack a key, and those of the core become final."""
        final, batch = None, made.batch
        if self._finality is not None and source.node == self._query.kinds.core_node:
            final = self._finality.of(
                batch, source.places, lambda s: np.asarray(batch.column(source.times[s]).to_numpy())
            )
        return dataclasses.replace(made, linked=valid_keys(key), final=final)
