"""From positions to result rows: check what hashes cannot, filter, then gather what is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from braided.operators import predicate
from braided.operators.layout import Layout, Output
from braided.operators.mjoin import Positions
from braided.query.join_query import JoinQuery
from braided.state.keys import Bools, Int64s, KeyFormat
from braided.state.side import SideState
from braided.state.storable import from_storable, no_results


class Results:
    """Builds result tables of one query."""

    def __init__(self, query: JoinQuery, layouts: Sequence[Layout], output: Output, keys: KeyFormat) -> None:
        self._query, self._layouts, self._keys = query, layouts, keys
        self.output = output
        self._condition = query.condition
        if self._condition is not None:
            at = {layout.stream.name: layout for layout in layouts}
            types = {(s, c): at[s].stored_schema.field(c).type for s, c in self._condition.columns()}
            predicate.check(self._condition, types, query.where or "")

    def table(self, sides: Sequence[SideState], found: Positions) -> pa.Table:
        """The result rows of the combinations that hold."""
        now = self._now(sides, found)
        for holds in (self._counted, self._verified, self._filtered):
            keep = holds(sides, found, now)
            if keep is not None and not keep.all():
                found, now = np.ascontiguousarray(found[:, keep]), now[keep]
            if not found.shape[1]:
                return no_results(self.output.schema)
        return self._gathered(sides, found, now)

    def _now(self, sides: Sequence[SideState], found: Positions) -> Int64s:
        timed = [i for i, s in enumerate(self._query.streams) if s.time is not None]
        now = np.zeros(found.shape[1], np.int64)
        for n, i in enumerate(timed):
            times = sides[i].times_at(found[i])
            now = times if n == 0 else np.maximum(now, times)
        return now

    def _counted(self, sides: Sequence[SideState], found: Positions, now: Int64s) -> Bools | None:
        """Which combinations are inside all count windows."""
        if not self._query.counts:
            return None
        keep = np.ones(found.shape[1], np.bool_)
        for side, positions in zip(sides, found, strict=True):
            side.inside(positions, now, keep)
        return keep

    def _verified(self, sides: Sequence[SideState], found: Positions, now: Int64s) -> Bools | None:
        """Which combinations have equal keys, not only equal hashes."""
        if self._keys.exact:
            return None
        columns = [
            side.payload.gather(positions, layout.keys)
            for side, positions, layout in zip(sides, found, self._layouts, strict=True)
        ]
        keep = np.ones(found.shape[1], np.bool_)
        for others in columns[1:]:
            keep &= self._keys.equal(columns[0], others)
        return keep

    def _filtered(self, sides: Sequence[SideState], found: Positions, now: Int64s) -> Bools | None:
        """Which combinations satisfy `where`."""
        if self._condition is None:
            return None
        columns = {}
        for i, layout in enumerate(self._layouts):
            name = layout.stream.name
            used = sorted(c for s, c in self._condition.columns() if s == name)
            gathered = sides[i].payload.gather(found[i], [layout.place(c) for c in used])
            columns.update({(name, c): a for c, a in zip(used, gathered, strict=True)})
        return predicate.passes(self._condition, columns, found.shape[1], self._query.where or "")

    def _gathered(self, sides: Sequence[SideState], found: Positions, now: Int64s) -> pa.Table:
        wanted = self.output.columns
        arrays: list[pa.Array] = [None] * len(wanted)
        for i, layout in enumerate(self._layouts):
            mine = [n for n, c in enumerate(wanted) if c.stream == i]
            places = [layout.place(wanted[n].column) for n in mine]
            gathered = sides[i].payload.gather(found[i], places)
            for n, array in zip(mine, gathered, strict=True):
                arrays[n] = from_storable(array, wanted[n].type)
        if self.output.time_type is not None:
            arrays.append(pa.array(now).cast(self.output.time_type))
        return pa.Table.from_arrays(arrays, schema=self.output.schema)
