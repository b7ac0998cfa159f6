"""How many rows are stored when memory is short: windows are cut below the query's (`Overload(state_rows=)`).

At the end of a batch the rows that may still join are counted, intermediates included. If they take more room
than there is, the windows of streams are cut (`policies.window_split`): a *floor* is the time from which on
rows of a stream are found. What is made of a row below its floor goes with it. Where intermediates still are
too many, all windows are cut further by one factor, until everything fits.

Floors depend on the rows and the committed state, not on the order of rows. They hold from the next batch on,
whether the rows below them have been removed yet or not. Rows with one time go together.

Room is counted in rows, or in bytes: those of a row's columns, on average over recent batches, and 64 for its
index.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braided.engine.features import Arrivals, Host
from braided.engine.fields import load_fields
from braided.engine.sides.payload import is_fixed_width
from braided.engine.sides.side import SideState
from braided.policies.arrays import Bools, Int64s
from braided.policies.sharing import whole
from braided.policies.window_split import Made, Storing, settled, split
from braided.query.explain.expected_state import INDEX_BYTES
from braided.query.plan_tree import Plan, label

_FADING = 0.9  # of rates and sizes, from batch to batch
_HALVINGS = 8
_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class _Intermediate:
    """The rows of an intermediate that may still join: the times of their parts, by number of stream.

    `most` is how many the next batch finds of them, if its window holds no more.
    """

    name: str
    times: Mapping[int, Int64s]
    most: int | None = None

    def above(self, floors_us: Sequence[int]) -> int:
        """Return how many rows have no part below its floor."""
        alive: Bools | None = None
        for stream, at in self.times.items():
            found = at >= floors_us[stream]
            alive = found if alive is None else alive & found
        rows = 0 if alive is None else int(np.count_nonzero(alive))
        return rows if self.most is None else min(self.most, rows)


class StateBudget:
    """The windows that a query's `Overload` leaves to its streams."""

    saved = ("rates", "held_rows", "made_rows", "cut_rows", "decided_rates", "row_bytes")

    def __init__(self, host: Host, newest: Mapping[Plan, int]) -> None:
        """`newest` are the windows of intermediates that have their own."""
        self._host, self._newest, overload = host, newest, host.query.overload
        streams = len(host.query.streams)
        asked = (overload.state_rows or overload.state_bytes) if overload is not None else None
        self.room = None if asked is None else host.site.part.of_budget(int(asked))
        self._by_bytes = overload is not None and overload.state_bytes is not None
        self._rule = "" if overload is None else overload.window_split
        self.rates = [0.0] * streams
        self.row_bytes = [0.0] * streams  # of a row's columns
        self.held_rows: list[int | None] = [None] * streams  # None until windows are first shared out
        self.made_rows: dict[str, int] = {}  # of intermediates, by name
        self.cut_rows = [0] * streams
        self.decided_rates = [0.0] * streams  # that the best windows were last chosen by

    def load(self, saved: Mapping[str, Any]) -> None:
        """Go on from saved numbers."""
        load_fields(self, self.saved, saved)
        if self.room is None:
            self.held_rows, self.made_rows = [None] * len(self.held_rows), {}

    def targets(self) -> tuple[Sequence[float], Sequence[float]] | None:
        """Return the rows that windows should hold, and what they lack of that; None without a budget."""
        if self.room is None:
            return None
        wanted = split(self._rule, Storing(self.room, self.rates, [math.inf] * len(self.rates), self._sizes))
        return wanted, [max(0.0, w - (held or 0)) for w, held in zip(wanted, self.held_rows, strict=True)]

    def after(self, arrivals: Arrivals) -> None:
        """A batch is done: remember rates and sizes, and cut the windows to what may be stored."""
        for i, arrival in enumerate(arrivals):
            self.cut_rows[i] += arrival.cut_rows if arrival else 0
        if self.room is None:
            return
        self._learn(arrivals)
        times, made = [*self._times()], [*self._intermediates()]
        live = [len(at) for at in times]
        self.held_rows = list(live)
        self.made_rows = {one.name: one.above(self._host.floors_us) for one in made}
        if self._fits(live, made, self._host.floors_us):
            return
        above = [Made(tuple(m.times), float(self.made_rows[m.name]), self._size_of(m)) for m in made]
        storing = Storing(self.room, self.rates, live, self._sizes, live, above)
        self._cut(self._windows(storing), times, made)

    def _windows(self, storing: Storing) -> Sequence[float]:
        if self._rule != "best":
            return split(self._rule, storing)
        windows, rates = settled(storing, self.decided_rates)
        self.decided_rates = [*rates]
        return windows

    def _cut(self, rows: Sequence[float], times: Sequence[Int64s], made: Sequence[_Intermediate]) -> None:
        """Raise floors to the longest windows in these proportions for which there is room."""
        floors_us, held = self._floors(rows, times)
        if not self._fits(held, made, floors_us):
            low, high = 0.0, 1.0
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                floors_us, held = self._floors([middle * r for r in rows], times)
                low, high = (middle, high) if self._fits(held, made, floors_us) else (low, middle)
            floors_us, held = self._floors([low * r for r in rows], times)
        self.cut_rows = [cut + len(at) - n for cut, at, n in zip(self.cut_rows, times, held, strict=True)]
        self.held_rows, self._host.floors_us = [*held], floors_us
        self.made_rows = {one.name: one.above(floors_us) for one in made}

    def _floors(self, wanted: Sequence[float], times: Sequence[Int64s]) -> tuple[list[int], list[int]]:
        """Return floors for windows of so many rows, and how many they leave."""
        floors_us, held = list(self._host.floors_us), [len(at) for at in times]
        for i, quota in enumerate(whole(wanted, math.floor(sum(wanted) + 1e-6), turn=0)):
            if held[i] > quota:  # rows of one time go together, so that their order does not matter
                floors_us[i] = int(times[i][held[i] - quota - 1]) + 1
                held[i] -= int(np.searchsorted(times[i], floors_us[i]))
        return floors_us, held

    def _learn(self, arrivals: Arrivals) -> None:
        arrived = [a.offered_rows if a else 0 for a in arrivals]
        if any(arrived):
            self.rates = [_FADING * r + (1 - _FADING) * n for r, n in zip(self.rates, arrived, strict=True)]
        for i, arrival in enumerate(arrivals):
            if self._by_bytes and arrival is not None and len(arrival.rows):
                size = bytes_of(arrival.rows.batch) / len(arrival.rows)
                before = self.row_bytes[i]
                self.row_bytes[i] = _FADING * before + (1 - _FADING) * size if before else size

    @property
    def _sizes(self) -> Sequence[float]:
        """The room of a row of each stream."""
        return [size + INDEX_BYTES for size in self.row_bytes] if self._by_bytes else ()

    def _fits(self, held: Sequence[int], made: Sequence[_Intermediate], floors_us: Sequence[int]) -> bool:
        """Tell whether there is room for these rows of streams, and for what is made of them."""
        assert self.room is not None
        sizes = self._sizes or [1.0] * len(held)
        room = sum(rows * size for rows, size in zip(held, sizes, strict=True))
        return room + sum(one.above(floors_us) * self._size_of(one) for one in made) <= self.room

    def _size_of(self, made: _Intermediate) -> float:
        """The room of a row that is made of several: their columns, and a time of each."""
        return sum(self.row_bytes[i] + 8 for i in made.times) + INDEX_BYTES if self._by_bytes else 1.0

    def _times(self) -> Iterator[Int64s]:
        """The times of each stream's rows that may still join, oldest first."""
        for i, name in enumerate(self._host.query.names):
            side = self._host.tree.sides.get(name)
            yield _NOTHING if side is None else _times_since(side, self._host.oldest_us(i))

    def _intermediates(self) -> Iterator[_Intermediate]:
        names = self._host.query.names
        for source, side in self._host.tree.intermediates:
            alive = _lasting(side, self._host.past_us(source.node))
            times = {
                names.index(s): side.payload.words(side.first, p)[alive] for s, p in source.times.items()
            }
            yield _Intermediate(label(source.node), times, self._newest.get(source.node))


def bytes_of(batch: pa.RecordBatch) -> int:
    """Return the bytes of some rows' columns, whatever buffers they are in and however they are sorted."""
    return sum(map(_column_bytes, batch.columns))


def _column_bytes(column: pa.Array) -> int:
    if is_fixed_width(column.type):
        return len(column) * int(column.type.bit_width) // 8
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return 4 * len(column) + int(pc.sum(pc.binary_length(column)).as_py() or 0)
    return int(column.nbytes)


def _lasting(side: SideState, past_us: int) -> Bools:
    """Tell which rows of an intermediate no watermark has passed, and no promise has purged."""
    alive: Bools = side.columns.held("ends") >= past_us
    return alive & ~side.columns.held("gone") if side.purges else alive


def _times_since(side: SideState, oldest: int) -> Int64s:
    """The times of the rows that are not older and not purged, oldest first."""
    times = side.columns.held("time")
    if side.gone_rows:
        times = times[~side.columns.held("gone")]
    ordered = times if side.ordered else np.sort(times)
    return ordered[np.searchsorted(ordered, oldest) :]
