"""From positions to result rows: filter, then gather what is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from braided.engine.operators import predicate
from braided.engine.operators.combining import Combining
from braided.engine.operators.layout import Layout, Output
from braided.engine.operators.mjoin import Positions
from braided.engine.sides.side import BOTTOMLESS_US, SideState
from braided.engine.sides.storable import from_storable, no_results
from braided.policies.arrays import Bools, Int64s
from braided.query.join_query import JoinQuery


class Made:
    """Builds what a part of a plan hands on: intermediate rows of its last operator."""

    def __init__(self, combining: Combining) -> None:
        self._combining = combining
        self.schema = combining.output.schema

    def table(self, sides: Sequence[SideState], found: Positions, floors_us: Sequence[int]) -> pa.Table:
        """The intermediate rows of the combinations that hold."""
        found = self._combining.holding(sides, found, floors_us)
        if not found.shape[1]:
            return no_results(self.schema)
        return pa.Table.from_batches([self._combining.batch(sides, found)])


class Results:
    """Builds result tables of one query, from the combinations of its last operator."""

    def __init__(
        self, query: JoinQuery, layouts: Sequence[Layout], output: Output, combining: Combining
    ) -> None:
        self._query, self._combining = query, combining
        self.output, self.schema = output, output.schema
        self.latest: Positions = np.empty((0, 0), np.int32)  # the combinations of the latest table
        self.oldest_us: dict[str, int] = {}  # of each stream's rows in results since it was cleared
        self._condition = query.condition
        if self._condition is not None:
            at = {layout.stream.name: layout for layout in layouts}
            types = {(s, c): at[s].stored_schema.field(c).type for s, c in self._condition.columns()}
            predicate.check(self._condition, types, query.where or "")

    def table(self, sides: Sequence[SideState], found: Positions, floors_us: Sequence[int]) -> pa.Table:
        """The result rows of the combinations that hold."""
        keep = self._counted(sides, found, floors_us)
        if keep is not None and not keep.all():
            found = np.ascontiguousarray(found[:, keep])
        found = self._combining.holding(sides, found, floors_us)
        keep = self._filtered(sides, found)
        if keep is not None and not keep.all():
            found = np.ascontiguousarray(found[:, keep])
        self.latest = found
        if not found.shape[1]:
            return no_results(self.output.schema)
        if self._query.overload is not None:
            self._note_ages(sides, found)
        return self._gathered(sides, found)

    def _note_ages(self, sides: Sequence[SideState], found: Positions) -> None:
        """The oldest row of each stream among these results."""
        for source, side, positions in zip(self._combining.inputs, sides, found, strict=True):
            for stream in source.timed:
                oldest = int(source.times_of(stream, side, positions).min())
                self.oldest_us[stream] = min(oldest, self.oldest_us.get(stream, oldest))

    def _now(self, sides: Sequence[SideState], found: Positions) -> Int64s:
        now = None
        for source, side, positions in zip(self._combining.inputs, sides, found, strict=True):
            if source.timed:
                times = side.times_at(positions)
                now = times if now is None else np.maximum(now, times)
        return np.zeros(found.shape[1], np.int64) if now is None else now

    def _counted(
        self, sides: Sequence[SideState], found: Positions, floors_us: Sequence[int]
    ) -> Bools | None:
        """Which combinations are inside all count windows; rows that waited may have got too old."""
        if not self._query.counts:
            return None
        now = self._now(sides, found)
        keep = np.ones(found.shape[1], np.bool_)
        for source, side, positions in zip(self._combining.inputs, sides, found, strict=True):
            if side.counted is not None:
                side.counted.inside(positions, now, keep)
            floor_us = floors_us[self._query.names.index(source.name)]
            if floor_us > BOTTOMLESS_US:
                keep &= side.times_at(positions) >= floor_us
        return keep

    def _filtered(self, sides: Sequence[SideState], found: Positions) -> Bools | None:
        """Which combinations satisfy `where`."""
        if self._condition is None or not found.shape[1]:
            return None
        used = sorted(self._condition.columns())
        columns: dict[tuple[str, str], pa.Array] = {}
        for i, source in enumerate(self._combining.inputs):
            mine = [c for c in used if c in source.places]
            gathered = sides[i].payload.gather(found[i], [source.places[c] for c in mine])
            columns.update(zip(mine, gathered, strict=True))
        return predicate.passes(self._condition, columns, found.shape[1], self._query.where or "")

    def _gathered(self, sides: Sequence[SideState], found: Positions) -> pa.Table:
        wanted = self.output.columns
        names = self._query.names
        arrays: list[pa.Array] = [None] * len(wanted)
        for i, source in enumerate(self._combining.inputs):
            mine = [n for n, c in enumerate(wanted) if names[c.stream] in source.streams]
            places = [source.places[names[wanted[n].stream], wanted[n].column] for n in mine]
            gathered = sides[i].payload.gather(found[i], places)
            for n, array in zip(mine, gathered, strict=True):
                arrays[n] = from_storable(array, wanted[n].type)
        if self.output.time_type is not None:
            arrays.append(pa.array(self._now(sides, found)).cast(self.output.time_type))
        if self.output.punctuated:
            arrays.append(pa.array(np.zeros(found.shape[1], np.bool_)))
        return pa.Table.from_arrays(arrays, schema=self.output.schema)

    def punctuations(self, keys: Sequence[pa.Array]) -> pa.Table:
        """Rows that say of keys, given as their columns, that no more results will come; all else is null."""
        rows = len(keys[0])
        arrays = []
        for column in self.output.columns:
            names = self._query.streams[column.stream].key_columns
            if column.column in names:
                arrays.append(from_storable(keys[names.index(column.column)], column.type))
            else:
                arrays.append(pa.nulls(rows, column.type))
        if self.output.time_type is not None:
            arrays.append(pa.nulls(rows, self.output.time_type))
        return pa.Table.from_arrays([*arrays, pa.array(np.ones(rows, np.bool_))], schema=self.output.schema)
