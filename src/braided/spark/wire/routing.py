"""To which cells of a layout the rows of one input go (`query.layout` says why a result has exactly one).

A row finds its coordinate along each dimension that it knows; along the others it goes everywhere. The first
of its cells, where all unknown coordinates are 0, is the one that counts it. Rows of a hot key go round a
ring of cells that begins at the key's own: those of the fat stream one each, those of the others to all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from braided.engine.operators.layout import key_format_of
from braided.engine.sides.keys import KeyFormat, content_hashes, valid_keys
from braided.policies.arrays import Bools, Int64s
from braided.query.layout import HotKey
from braided.spark.plan import JoinPlan
from braided.spark.wire import blobs

Route: TypeAlias = tuple[
    tuple[int, ...], pa.RecordBatch
]  # cells, the first of which counts, and rows for them


@dataclass(frozen=True)
class _Axis:
    """How rows find a coordinate: by the hash of these columns as a key, or (no format) as contents.

    Rows with a null in their key meet nothing there, and go where the contents of their `own` columns say.
    """

    places: Sequence[int]
    keys: KeyFormat | None
    share: int
    stride: int = 1
    own: Sequence[int] = ()

    def hashes(self, rows: pa.RecordBatch) -> Int64s:
        if self.keys is None:
            return content_hashes(rows.select(list(self.places)))
        columns = [rows.column(k) for k in self.places]
        hashes = self.keys.hashes(columns, rows.num_rows)
        if self.own and (keyed := valid_keys(columns)) is not None:
            hashes[~keyed] = content_hashes(rows.filter(pa.array(~keyed)).select(list(self.own)))
        return hashes


class Router:
    """Sends the rows of one of a stage's inputs to cells; they come as they are stored.

    If they are `closing`, they tell only what the stream promises something about: so they go to every cell
    that may have rows with these values.
    """

    def __init__(self, plan: JoinPlan, number: int, *, closing: bool = False) -> None:
        node, self._cells = plan.inputs[number], plan.buckets
        self._offsets: tuple[int, ...] = (0,)
        self._own: tuple[int, ...] = ()
        self._hot: tuple[HotKey, ...] = ()
        if plan.staged or not isinstance(node, str):
            self._axes = [_Axis(plan.places(node), plan.keys, plan.buckets)]
            return
        layout, stored = plan.grid, plan.layouts[number]
        told = plan.query.promised(stored.stream) if closing else None
        self._name, self._offsets, self._hot = node, layout.offsets(node, told), layout.hot_keys
        self._own = tuple(map(stored.columns.index, _contents(plan, node, stored.columns)))
        self._axes = []
        for dimension, share, stride in zip(layout.dimensions, layout.shares, layout.strides, strict=True):
            if told is not None and not dimension.given_by(told):
                continue
            if dimension.stream == node:
                self._axes.append(_Axis(self._own, None, share, stride))
            elif dimension.known_to(node):
                columns = dimension.columns(node)
                if told is not None:
                    columns = tuple(c for a in dimension.key for c in stored.promised if (node, c) in a)
                places = [stored.columns.index(c) for c in columns]
                keys = key_format_of(dimension.key, plan.layouts)
                self._axes.append(_Axis(places, keys, share, stride, self._own))

        self._hot = self._hot if self._axes else ()  # what goes to all cells goes to those of hot keys

    def routes(self, rows: pa.RecordBatch) -> Iterator[Route]:
        """The rows in pieces of bounded size, with the cells that each goes to."""
        cells = np.zeros(rows.num_rows, np.int64)
        for axis in self._axes:
            hashes = axis.hashes(rows)
            cells += (hashes & (axis.share - 1)) * axis.stride
        for hot in self._hot:  # there is one dimension then
            if (chosen := hashes == hot.hash).any():
                if hot.stream == self._name:
                    self._spread(rows, cells, hot, chosen)
                else:
                    ring = tuple((int(cells[np.argmax(chosen)]) + i) % self._cells for i in range(hot.cells))
                    yield from ((ring, piece) for piece in blobs.bounded(rows.filter(pa.array(chosen))))
                    cells[chosen] = self._cells  # they are out
        yield from self._sorted(rows, cells.astype(np.uint16))

    def _spread(self, rows: pa.RecordBatch, cells: Int64s, hot: HotKey, chosen: Bools) -> None:
        """Give each row of a hot key one cell of its ring, by its contents."""
        contents = content_hashes(rows.select(list(self._own)).filter(pa.array(chosen)))
        cells[chosen] = (
            cells[chosen] + (contents.view(np.uint64) % hot.cells).astype(np.int64)
        ) % self._cells

    def _sorted(
        self, rows: pa.RecordBatch, cells: np.ndarray[tuple[int], np.dtype[np.uint16]]
    ) -> Iterator[Route]:
        counts = np.bincount(cells, minlength=self._cells)
        rows = rows.take(pa.array(np.argsort(cells, kind="stable")))
        start = 0
        for cell in np.flatnonzero(counts[: self._cells]).tolist():
            for piece in blobs.bounded(rows.slice(start, counts[cell])):
                yield tuple(cell + offset for offset in self._offsets), piece
            start += int(counts[cell])


def _contents(plan: JoinPlan, stream: str, columns: Sequence[str]) -> Sequence[str]:
    """The columns that tell rows apart: those that decide what joins, or all if there is no time among them.

    If these are not the same when a task is repeated, nothing can be exact.
    """
    query = plan.query
    time = query.streams[query.names.index(stream)].time
    if time is None:
        return columns
    used = {time, *query.graph.columns(stream)}
    used |= {
        column for name, column in (query.condition.columns() if query.condition else ()) if name == stream
    }
    return [column for column in columns if column in used]
