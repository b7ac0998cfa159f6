"""The partners of an optional stream that rows with a complete core have: equal columns, times, `where`.

Rows of the core's side, or of what operators above it made, are looked up in the stream's side. What hashes
do not settle is compared: true keys, further columns that both have, and the terms of `where` about the
stream. Of an as-of stream the newest of these are partners.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from braided.engine.kernels.partners import newest_in_order, newest_of, partners_among_all, partners_of
from braided.engine.operators import predicate
from braided.engine.operators.inputs import Input
from braided.engine.operators.layout import Layout, key_format_of
from braided.engine.sides.keys import KeyFormat, valid_keys
from braided.engine.sides.side import SideState
from braided.policies.arrays import Bools, Int64s
from braided.query.bounds import INFINITE_US
from braided.query.condition import Condition
from braided.query.join_graph import ColumnName
from braided.query.join_query import JoinQuery

_FEW, _MOST, _NEWEST = 1024, 1 << 62, -1
_AT_A_TIME = 4096
_SAMPLE, _SORTING = 1024, 8  # stored rows that are met in the time it takes to sort one


@dataclass(frozen=True)
class Matches:
    """Rows (by their place among those that were asked for) and their partners, in order of the rows."""

    which: Int64s
    positions: Int64s
    rows: int

    @property
    def counts(self) -> Int64s:
        """How many partners each row has."""
        return np.bincount(self.which, minlength=self.rows)


@dataclass(frozen=True)
class Asking:
    """Rows of an input that partners are asked for."""

    source: Input
    side: SideState
    positions: Int64s

    def gather(self, wanted: Iterable[ColumnName], which: Int64s | None = None) -> dict[ColumnName, pa.Array]:
        """Stored columns of these rows, or of some of them again and again."""
        here = [column for column in wanted if column in self.source.places]
        at = self.positions if which is None else self.positions[which]
        places = [self.source.places[column] for column in here]
        return dict(zip(here, self.side.payload.gather(at.astype(np.int32), places), strict=True))

    def times(self, stream: str) -> Int64s:
        """The times of a component."""
        return np.asarray(self.source.times_of(stream, self.side, self.positions.astype(np.int32)))


class Partners:
    """Looks for the partners of one stream, which the rows of `core` streams meet."""

    def __init__(
        self,
        query: JoinQuery,
        stream: str,
        core: Sequence[str],
        layouts: Sequence[Layout],
        keys: KeyFormat,
        match: Condition | None,
    ) -> None:
        """`keys` are those of the operator that the stream is an input of, `match` the terms about it."""
        graph, operator = query.graph, query.kinds.operator_of(stream)
        self._stream, self._core, self._match, self._text = stream, core, match, query.where or ""
        self._numbers = {name: query.names.index(name) for name in (stream, *core)}
        self._bounds, self._age_us = query.bounds.matrix, query.kinds.as_of.get(stream)
        own = {layout.stream.name: layout for layout in layouts}[stream]
        self._places = {(stream, column): place for place, column in enumerate(own.columns)}
        key = graph.key(operator)
        self._keys = keys
        self._asked = [graph.source(a, tuple(core)) for a in key]
        self._equal: list[tuple[ColumnName, ColumnName, KeyFormat]] = []
        for attribute in graph.attributes:
            mine = [c for c in attribute if c[0] == stream]
            theirs = [c for c in attribute if c[0] in core]
            if not mine:
                continue
            settled = self._keys.exact and attribute in key
            pairs = [(theirs[0], column) for column in (mine[1:] if settled else mine)]
            pairs += [(column, mine[0]) for column in theirs[1:]]  # a stream may have several of them
            self._equal += [(*pair, key_format_of([attribute], layouts)) for pair in pairs]

    def any(self, asking: Asking, side: SideState | None, visible: int | None = None) -> Bools:
        """Tell which rows have a partner among the stored rows, or those before `visible`."""
        return self.find(asking, side, visible, most=1 if self._alone else _MOST).counts > 0

    @property
    def _alone(self) -> bool:
        """Whether what is found is a partner: nothing is left to be compared."""
        return not self._equal and self._match is None

    def find(
        self, asking: Asking, side: SideState | None, visible: int | None = None, *, most: int = _MOST
    ) -> Matches:
        """Find the partners among the stored rows, or those before `visible`; of each row so many at most."""
        rows = len(asking.positions)
        if side is None or not rows or not side.rows:
            return Matches(np.zeros(0, np.int64), np.zeros(0, np.int64), rows)
        newest = self._age_us is not None and most > 1
        if newest and not self._alone and rows > _AT_A_TIME:  # all that match are compared
            parts = np.array_split(asking.positions, -(-rows // _AT_A_TIME))
            return _together([self.find(Asking(asking.source, asking.side, p), side, visible) for p in parts])
        columns = asking.gather(dict.fromkeys(self._asked))
        keyed = valid_keys([columns[c] for c in self._asked])
        hashes = self._keys.hashes([columns[c] for c in self._asked], rows)
        most = _NEWEST if newest and self._alone else most
        which, positions = _looked_up(
            side, side.count if visible is None else visible, most, hashes,
            np.ones(rows, np.bool_) if keyed is None else keyed, *self._range(asking),
        )  # fmt: skip
        holds = self._holding(asking, side, which, positions)
        if holds is not None:
            which, positions = which[holds], positions[holds]
        if newest and not self._alone and len(which):
            times = side.columns.at("time", positions)
            latest = np.full(rows, times.min(), np.int64)
            np.maximum.at(latest, which, times)
            which, positions = which[times == latest[which]], positions[times == latest[which]]
        return Matches(which, positions, rows)

    def _range(self, asking: Asking) -> tuple[Int64s, Int64s]:
        """The times from and up to which partners of each row may be."""
        rows, k = len(asking.positions), self._numbers[self._stream]
        if self._age_us is not None:
            high = np.maximum.reduce([asking.times(name) for name in self._core])
            return high - self._age_us, high
        low, high = np.full(rows, -INFINITE_US, np.int64), np.full(rows, INFINITE_US, np.int64)
        for name in self._core:
            i = self._numbers[name]
            if (back := self._bounds[k][i]) < INFINITE_US:
                low = np.maximum(low, asking.times(name) - back)
            if (ahead := self._bounds[i][k]) < INFINITE_US:
                high = np.minimum(high, asking.times(name) + ahead)
        return low, high

    def _holding(self, asking: Asking, side: SideState, which: Int64s, positions: Int64s) -> Bools | None:
        """Tell which partners have equal values, and satisfy what `where` says of them."""
        named = set(self._match.columns()) if self._match is not None else set()
        wanted = {c for theirs, mine, _ in self._equal for c in (theirs, mine)} | named
        if not wanted or not len(which):
            return None
        columns = asking.gather(wanted, which)
        here = [c for c in wanted if c in self._places]
        gathered = side.payload.gather(positions.astype(np.int32), [self._places[c] for c in here])
        columns.update(zip(here, gathered, strict=True))
        keep = np.ones(len(which), np.bool_)
        for theirs, mine, format_ in self._equal:
            keep &= format_.equal([columns[theirs]], [columns[mine]])
        if self._match is not None:
            keep &= predicate.passes(self._match, columns, len(which), self._text)
        return keep


def _together(parts: Sequence[Matches]) -> Matches:
    """Matches of rows that come one behind the other."""
    begins = np.cumsum([0, *(part.rows for part in parts)])
    which = [part.which + begin for part, begin in zip(parts, begins[:-1], strict=True)]
    return Matches(np.concatenate(which), np.concatenate([p.positions for p in parts]), int(begins[-1]))


def _looked_up(
    side: SideState, visible: int, most: int, hashes: Int64s, keyed: Bools, low: Int64s, high: Int64s
) -> tuple[Int64s, Int64s]:
    c, room = side.columns, 2 * len(hashes) + _FEW
    arrays = c["hash"], c["time"], c["link"]
    sorted_ = most == _NEWEST and len(hashes) * _met(c.held("hash")) > _SORTING * side.rows
    order = _in_order(side, visible, int(low.min()), int(high.max())) if sorted_ else None
    while True:
        out = np.empty(room, np.int64), np.empty(room, np.int64)
        asked = hashes, keyed, low, high, *out
        if order is not None:
            found = int(newest_in_order(c.at("hash", order), c.at("time", order), *asked))
            if found <= room:
                return out[0][:found], order[out[1][:found]]
        elif most == _NEWEST:
            links = side.index.by_key()
            found = int(newest_of(c["hash"], c["time"], *links, c.base, c.first, visible, *asked))
        elif side.index.scanned:
            found = int(partners_among_all(*arrays, c.base, c.first, visible, most, *asked))
        else:
            head, shift = side.index.head, side.index.shift
            found = int(partners_of(*arrays, head, shift, c.base, c.first, visible, most, *asked))
        if found <= room:
            return out[0][:found], out[1][:found]
        room = found


def _met(hashes: Int64s) -> float:
    """Estimate how many rows of one key there are, by how often keys of a sample are the same."""
    sample = hashes[:: max(1, len(hashes) // _SAMPLE)]
    rows, keys = len(sample), len(np.unique(sample))
    alike = rows - keys
    return len(hashes) / keys if alike > keys else len(hashes) * 2 * alike / rows**2


def _in_order(side: SideState, visible: int, since_us: int, until_us: int) -> Int64s:
    """The positions of the rows before `visible` with times in a range, in order of keys and times."""
    c = side.columns
    hashes, times = (c.between(name, c.first, visible) for name in ("hash", "time"))
    chosen = side.index.linked()[: len(times)] & (times >= since_us) & (times <= until_us)
    if side.purges:
        chosen &= ~c.between("gone", c.first, visible)
    places = np.flatnonzero(chosen)
    return places[np.lexsort((times[places], hashes[places]))] + c.first
