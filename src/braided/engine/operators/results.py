"""From positions to result rows: filter, then gather what is asked for."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from braided.engine.kernels.counting import inside_window
from braided.engine.operators import predicate
from braided.engine.operators.combining import Combining, only
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
        self._sources = [(query.names[c.stream], c.column) for c in output.columns]
        self.latest: Positions = np.empty((0, 0), np.int32)  # the combinations of the latest table
        self.oldest_us: dict[str, int] = {}  # of each stream's rows in results since it was cleared
        self._condition = query.condition
        if self._condition is not None:
            at = {layout.stream.name: layout for layout in layouts}
            types = {(s, c): at[s].stored_schema.field(c).type for s, c in self._condition.columns()}
            predicate.check(self._condition, types, query.where or "")

    def table(self, sides: Sequence[SideState], found: Positions, floors_us: Sequence[int]) -> pa.Table:
        """The result rows of the combinations that hold."""
        found = only(found, self._counted(sides, found, floors_us))
        found = self._combining.holding(sides, found, floors_us)
        self.latest = found = only(found, self._filtered(sides, found))
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
        rows = zip(self._combining.inputs, sides, found, strict=True)
        times = [side.columns.at("time", positions) for source, side, positions in rows if source.timed]
        return functools.reduce(np.maximum, times) if times else np.zeros(found.shape[1], np.int64)

    def _counted(
        self, sides: Sequence[SideState], found: Positions, floors_us: Sequence[int]
    ) -> Bools | None:
        """Which combinations are inside all count windows; rows that waited may have got too old."""
        if not self._query.counts:
            return None
        now = self._now(sides, found)
        keep = np.ones(found.shape[1], np.bool_)
        for source, side, positions in zip(self._combining.inputs, sides, found, strict=True):
            if side.window is not None:
                inside_window(positions, now, side.columns["leaves"], side.columns.base, keep)
            floor_us = floors_us[self._query.names.index(source.name)]
            if floor_us > BOTTOMLESS_US:
                keep &= side.columns.at("time", positions) >= floor_us
        return keep

    def _filtered(self, sides: Sequence[SideState], found: Positions) -> Bools | None:
        """Which combinations satisfy `where`."""
        if self._condition is None or not found.shape[1]:
            return None
        columns = self._combining.gather(sides, found, self._condition.columns())
        return predicate.passes(self._condition, columns, found.shape[1], self._query.where or "")

    def _gathered(self, sides: Sequence[SideState], found: Positions) -> pa.Table:
        columns = self._combining.gather(sides, found, self._sources)
        wanted = zip(self._sources, self.output.columns, strict=True)
        arrays = [from_storable(columns[source], column.type) for source, column in wanted]
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
