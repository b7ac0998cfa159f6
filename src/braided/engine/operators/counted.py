"""Count windows in a tree: is every row of a combination inside its window at the combination's time?

A component of an intermediate row may leave its window after that row was made, so each operator asks again,
at the newest time of what it found. Nothing is stored for it: when a row leaves follows from its key and its
time (see `kernels.counting`), an intermediate row has both, and the side of the component's stream tells.
All streams below an operator are stored before it looks for combinations, and what is found has no time that
the watermark has not passed; so what the side tells is final.

An intermediate row of which one component has left is out for every time to come.

*Freshness in rows* (`Stream.freshness` of a stream that counts them) is asked here, too: how many newer rows
have arrived, stored or waiting for the watermark. All that wait are newer than all that is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from braided.engine.kernels.counting import NEVER, inside_window
from braided.engine.operators.inputs import Input
from braided.engine.operators.layout import Layout
from braided.engine.operators.mjoin import Positions
from braided.engine.sides.counting import Counting
from braided.engine.sides.keys import Keys, keys_in
from braided.engine.sides.side import Reason, Rows, SideState
from braided.policies.arrays import Bools, Int32s, Int64s
from braided.query.plan_tree import leaves

_NONE = np.zeros(0, np.int64)
SideOf = Callable[[str], SideState]
_Told = tuple[Int64s, Keys | None]  # times and keys, which tell when rows leave


class Waiting:
    """How many rows of a stream, or of each of its keys, wait for the watermark."""

    def __init__(self, rows: Sequence[Rows], *, by_key: bool) -> None:
        self._rows = sum(map(len, rows))
        words = [_words(piece) for piece in rows] if by_key else []
        self._words, self._counts = np.unique(np.concatenate(words or [_NONE]), return_counts=True)

    def of(self, keys: Keys | None) -> Int64s | int:
        """How many wait, by key or of the stream."""
        if keys is None or not len(self._words):
            return self._rows
        wanted = keys.words[1]
        at = np.minimum(np.searchsorted(self._words, wanted), len(self._words) - 1)
        return np.where(self._words[at] == wanted, self._counts[at], 0)


class Counted:
    """The streams that count rows, as their sides are now; `waiting` where freshness is in rows."""

    def __init__(self, layouts: Sequence[Layout], side_of: SideOf) -> None:
        self._layouts = {x.stream.name: x for x in layouts if x.stream.count_window is not None}
        self._side_of = side_of
        self.waiting: dict[str, Waiting] = {}

    def inside(
        self, inputs: Sequence[Input], sides: Sequence[SideState], positions: Positions, now: Int64s
    ) -> Bools:
        """Tell which combinations have all their rows inside count windows at their times."""
        keep = np.ones(len(now), np.bool_)
        for source, side, at in zip(inputs, sides, positions, strict=True):
            if side.counting is not None:
                inside_window(at, now, side.columns["leaves"], side.columns.base, keep)
                if self._layouts[source.name].stream.freshness_rows is not None:
                    keep &= self._fresh(source.name, side.counting, side.counting.known(at))
            elif not source.leaf:
                for stream in self._below(source):
                    keep &= self._component_inside(stream, self._told(stream, source, side, at), now)
        return keep

    def forget_left(self, source: Input, side: SideState, *, entirely: bool = False) -> None:
        """Forget an intermediate's rows of which a component has left its window."""
        side.forget(np.flatnonzero(self.left(source, side)) + side.first, Reason.EXPIRE, entirely=entirely)

    def left(self, source: Input, side: SideState) -> Bools:
        """Tell of which rows of an intermediate a component has left its window."""
        gone, everything = np.zeros(side.rows, np.bool_), np.arange(side.first, side.count, dtype=np.int32)
        for stream in self._below(source) if side.rows else ():
            leaving_us, _ = self._of(stream).find(*self._told(stream, source, side, everything))
            gone |= leaving_us != NEVER
        return gone

    def _below(self, source: Input) -> list[str]:
        return [name for name in leaves(source.node) if name in self._layouts]

    def _component_inside(self, stream: str, told: _Told, now: Int64s) -> Bools:
        counting = self._of(stream)
        inside: Bools = now < counting.find(*told)[0]
        if self._layouts[stream].stream.freshness_rows is not None:
            inside &= self._fresh(stream, counting, told)
        return inside

    def _of(self, stream: str) -> Counting:
        """What counts the rows of a stream, as its side is now."""
        counting = self._side_of(stream).counting
        assert counting is not None
        return counting

    def _fresh(self, stream: str, counting: Counting, told: _Told) -> Bools:
        """Tell which rows have fewer newer ones than their stream's freshness."""
        most, waiting = self._layouts[stream].stream.freshness_rows, self.waiting.get(stream)
        ahead = 0 if waiting is None else waiting.of(told[1])
        return np.asarray(counting.find(*told)[1] + ahead < (most or NEVER))

    def _told(self, stream: str, source: Input, side: SideState, at: Int32s) -> _Told:
        """What tells when the components of some intermediate rows leave their windows."""
        columns = self._layouts[stream].counted
        places = [source.times[stream], *(source.places[stream, c] for c in columns)]
        times, *key = side.payload.gather(at, places)
        keys = keys_in(self._layouts[stream].counting, key) if columns else None
        return np.array(times.to_numpy()), keys


def _words(rows: Rows) -> Int64s:
    """A hash of the keys by which rows are counted."""
    hashes = rows.hashes if rows.counted is None else rows.counted
    return hashes if rows.checks is None else rows.checks
