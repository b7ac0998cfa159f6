"""From positions to result rows: filter, then gather what is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from braided.engine.operators import predicate
from braided.engine.operators.firsts import Firsts
from braided.engine.operators.layout import Layout, Output
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.operator import Combining, only
from braided.engine.sides.side import SideState
from braided.engine.sides.storable import from_storable, no_results
from braided.policies.arrays import Bools, Int64s
from braided.query.join_query import JoinQuery
from braided.query.parts import PUNCTUATION


class Results:
    """Builds tables of the combinations that a query's last operator finds.

    With an `output` they are results, else the intermediate rows that a part of a plan hands on.
    """

    def __init__(
        self,
        query: JoinQuery,
        layouts: Sequence[Layout],
        output: Output | None,
        combining: Combining,
        owns: tuple[int, int] | None = None,
        firsts: Firsts | None = None,
    ) -> None:
        """`firsts` picks what goes on where a semi stream joins."""
        self._query, self._combining, self.output, self._owns = query, combining, output, owns
        self._firsts = firsts
        self.schema: pa.Schema = self._combining.output.schema if output is None else output.schema
        self.latest: Positions = np.empty((0, 0), np.int32)  # the combinations of the latest table
        self.oldest_us: dict[str, int] = {}  # of each stream's rows in results since it was cleared
        self._condition = query.condition if output is not None else None
        if self._condition is not None:
            at = {layout.stream.name: layout for layout in layouts}
            types = {(s, c): at[s].stored_schema.field(c).type for s, c in self._condition.columns()}
            predicate.check(self._condition, types, query.where or "")

    def table(self, sides: Sequence[SideState], positions: Positions, floors_us: Sequence[int]) -> pa.Table:
        """The rows of the combinations that hold."""
        if self.output is not None:
            positions = only(positions, self._owned(sides, positions))
        positions = self._combining.holding(sides, positions, floors_us)
        if self._firsts is not None:
            positions = self._firsts.pick(sides, positions)
        self.latest = positions = only(positions, self._filtered(sides, positions))
        if not positions.shape[1]:
            return no_results(self.schema)
        if self.output is None:
            return pa.Table.from_batches([self._combining.batch(sides, positions)])
        if self._query.overload is not None:
            self._note_ages(sides, positions)
        return self._gathered(self.output, sides, positions)

    def _owned(self, sides: Sequence[SideState], positions: Positions) -> Bools | None:
        """Tell which combinations have their oldest required row where this engine owns the results."""
        if self._owns is None or not positions.shape[1]:
            return None
        rows = zip(self._combining.inputs, sides, positions, strict=True)
        core = set(self._query.kinds.core)
        times = [
            source.times_of(stream, side, at)
            for source, side, at in rows
            for stream in source.timed
            if stream in core
        ]
        oldest: Int64s = np.minimum.reduce(times)
        return np.asarray((oldest >= self._owns[0]) & (oldest < self._owns[1]))

    def _note_ages(self, sides: Sequence[SideState], positions: Positions) -> None:
        """The oldest row of each stream among these results."""
        for source, side, at in zip(self._combining.inputs, sides, positions, strict=True):
            for stream in source.timed:
                oldest = int(source.times_of(stream, side, at).min())
                self.oldest_us[stream] = min(oldest, self.oldest_us.get(stream, oldest))

    def _filtered(self, sides: Sequence[SideState], positions: Positions) -> Bools | None:
        """Tell which combinations satisfy `where`."""
        if self._condition is None or not positions.shape[1]:
            return None
        columns = self._combining.gather(sides, positions, self._condition.columns())
        return predicate.passes(self._condition, columns, positions.shape[1], self._query.where or "")

    def _now(self, sides: Sequence[SideState], positions: Positions) -> Int64s:
        """The newest times of results: of the streams that are shown."""
        shown = set(self._query.kinds.shown)
        if len(shown) == len(self._query.names):
            return self._combining.now(sides, positions)
        rows = zip(self._combining.inputs, sides, positions, strict=True)
        newest: Int64s = np.maximum.reduce(
            [source.times_of(s, side, at) for source, side, at in rows for s in source.timed if s in shown]
        )
        return newest

    def _gathered(self, output: Output, sides: Sequence[SideState], positions: Positions) -> pa.Table:
        columns = self._combining.gather(sides, positions, output.sources.values())
        types = self.schema.types
        arrays = [from_storable(columns[c], types[i]) for i, c in enumerate(output.sources.values())]
        if output.timed:
            arrays.append(pa.array(self._now(sides, positions)).cast(types[len(arrays)]))
        if self._query.emit_punctuations:
            arrays.append(pa.array(np.zeros(positions.shape[1], np.bool_)))
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def punctuations(self, keys: Sequence[pa.Array]) -> pa.Table:
        """Rows that say of keys, given as their columns, that no more results will come; all else is null."""
        assert self.output is not None
        rows = len(keys[0])
        arrays = {field.name: pa.nulls(rows, field.type) for field in self.schema}
        arrays[PUNCTUATION] = pa.array(np.ones(rows, np.bool_))
        places = {(s.name, c): place for s in self._query.streams for place, c in enumerate(s.key_columns)}
        for name, source in self.output.sources.items():
            if source in places:
                arrays[name] = from_storable(keys[places[source]], self.schema.field(name).type)
        return pa.table(arrays, schema=self.schema)
