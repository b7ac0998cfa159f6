"""The inputs of an operator: a stream's rows, or intermediate rows that lower operators made of several.

An intermediate row holds the stored columns of its components side by side (`stream.column`), and behind them
each component's time. It is stored like any row, under the key of the operator above:

- its *time* is the newest of its components'. What the kernel compares by it is necessary for the bounds of
  all pairs (see `Bounds.between`), and `operator` compares the pairs themselves afterwards;
- its *end* is the earliest `time + retention` of its components: once the watermark has passed that, one of
  them can meet no row to come, so the intermediate cannot either. It expires with its first
  expiring component.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from braided.engine.operators.layout import Layout
from braided.engine.sides.side import SideState
from braided.policies.arrays import Int32s, Int64s
from braided.query.join_graph import Attribute, ColumnName, JoinGraph
from braided.query.plan_tree import Plan, label


@dataclass(frozen=True)
class Input:
    """One input: the streams below it, and where their columns and times are in its stored rows."""

    node: Plan
    schema: pa.Schema
    places: Mapping[ColumnName, int]
    timed: tuple[str, ...]  # the streams that have times
    times: Mapping[str, int]  # where they are; empty for a stream, whose rows have their own
    lineage: Mapping[Plan, int]  # where the partition groups are that rows came from, if they are carried

    @property
    def name(self) -> str:
        """As statistics and files call it."""
        return label(self.node)

    @functools.cached_property
    def leaf(self) -> bool:
        """Whether it is a stream."""
        return isinstance(self.node, str)

    def times_of(self, stream: str, side: SideState, positions: Int32s) -> Int64s:
        """The times of a component of some rows."""
        if self.leaf:
            return side.columns.at("time", positions)
        return np.asarray(side.payload.gather(positions, [self.times[stream]])[0].to_numpy())

    def key(self, graph: JoinGraph, attributes: Sequence[Attribute]) -> list[int]:
        """Return the places of the columns of some attributes."""
        return [self.places[graph.source(a, self.node)] for a in attributes]


def leaf(layout: Layout) -> Input:
    """A stream's rows."""
    name = layout.stream.name
    places = {(name, column): place for place, column in enumerate(layout.columns)}
    timed = (name,) if layout.stream.time is not None else ()
    return Input(name, layout.stored_schema, places, timed, {}, {})


@functools.lru_cache(maxsize=256)  # every bucket of a worker asks in every batch
def described(node: Plan, layouts: tuple[Layout, ...], *, lineage: bool = False) -> Input | None:
    """Describe the rows of a node, whoever makes them; None until the schemas below it are known.

    With `lineage` intermediate rows tell the partition groups they came from.
    """
    if isinstance(node, str):
        return next((leaf(layout) for layout in layouts if layout.stream.name == node), None)
    inputs = [source for child in node if (source := described(child, layouts, lineage=lineage)) is not None]
    if len(inputs) < len(node):
        return None
    columns = {
        column: source.schema.field(place).type
        for source in inputs
        for column, place in source.places.items()
    }
    timed = tuple(stream for source in inputs for stream in source.timed)
    groups = [*(below for source in inputs for below in source.lineage), node] if lineage else []
    fields = [(f"{stream}.{column}", type_) for (stream, column), type_ in columns.items()]
    fields += [(stream, pa.int64()) for stream in timed]
    fields += [(f"group of {label(below)}", pa.int16()) for below in groups]
    places = {column: place for place, column in enumerate(columns)}
    times = {stream: place for place, stream in enumerate(timed, len(places))}
    carried = {below: place for place, below in enumerate(groups, len(places) + len(times))}
    return Input(node, pa.schema(fields), places, timed, times, carried)
