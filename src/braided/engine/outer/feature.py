"""Outer joins: what comes out once rows of the core are final, with null for the partners they never got.

Why each result comes exactly once
----------------------------------
A row of the core (of one required stream, or made of all) is *final* once no optional stream may bring a
partner of it any more; when that is depends on its times alone (`operators.finality`). It *settles* in the
step whose watermark passes that, or, if it arises later, in the step in which it arises. So it settles once,
and in that step all partners that it will ever have are stored: they stay until then (`query.bounds`).

What has a partner in every "left" stream came when the last of these rows arrived, as in an inner join. If
one of the streams has none, no such combination ever arises, and everything comes when the row settles: every
choice of partners, and null where there is none. With an "anti" stream nothing comes before.

Where streams promise, a row is final earlier: once all optional streams that might still bring a partner are
closed for its key. The column that tells when a row is final is lowered then, and a saved state need not hold
it: closed keys of stored rows are remembered, and tell it again.

Nothing else is stored for it but up to which watermark rows have settled. Settling looks partners up among
all stored rows and is never rationed, so a null is never false, even where probes are rationed.

Until rows have settled none expires that they need: a start with less lateness lifts the watermark first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine.features import Feature, Host, Numbers, Step, Undo
from braided.engine.operators import predicate
from braided.engine.operators.partners import Asking, Matches, Partners
from braided.engine.outer.early import NOTHING, Early
from braided.engine.sides.by_key import forget, holds
from braided.engine.sides.keys import Keys
from braided.engine.sides.side import SideState
from braided.engine.sides.storable import from_storable
from braided.engine.state import EngineState
from braided.engine.watermark import NONE_US
from braided.policies.arrays import Bools, Int64s
from braided.query.condition import Condition
from braided.query.plan_tree import Plan

_MOST = 1 << 18  # rows of the core that settle at a time


class Settling(Feature):
    """Hands out what becomes final."""

    name = "outer"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        host.joined_us = NONE_US  # rows that are final before this watermark have settled
        self._passes: list[_Pass] = []
        self._remade = 0  # up to when what closed keys tell is in the column

    def learn(self) -> Undo | None:
        """Passes are made once all schemas are known; if the batch fails, they are not."""
        return None if self._passes else self._passes.clear

    def enter(self, step: Step) -> None:
        """Rows that were stored again are as final as they were before."""
        if not self._passes and self.host.builder is not None:
            self._passes += _passes(self.host)
        for one in self._passes if self._remade != self.host.tree.remade else ():
            one.lower()
            one.commit()
        self._remade = self.host.tree.remade

    def settling(self, step: Step) -> Iterator[pa.Table]:
        """Yield the results with rows that are final now, and were not before."""
        for one in self._passes:
            one.lower(step)
            for positions in one.final(self.host.joined_us, step.later.us):
                table = one.results(positions)
                if table.num_rows:
                    yield table

    def commit(self, step: Step) -> None:
        """What the watermark has passed has settled, and what closed keys have made final."""
        self.host.joined_us = step.later.us
        for one in self._passes:
            one.commit()

    def purge(self, step: Step | None) -> None:
        """Forget rows without a key that stay for no time: they have settled, and meet nothing."""
        for one in self._passes if self.host.query.promises else ():
            one.forget_keyless()

    def unsettled(self, keys: Keys) -> Bools | None:
        """Return of which keys rows are not final."""
        return functools.reduce(np.logical_or, (p.unsettled(keys, self.host.joined_us) for p in self._passes))

    def describe(self, numbers: Numbers) -> None:
        """How many rows wait until it is known that they have no further partner."""
        numbers.join["unsettled_rows"] = sum(one.waiting(self.host.joined_us) for one in self._passes)

    def save(self, state: EngineState) -> None:
        """Up to which watermark rows have settled."""
        state.put_feature(self.name, {"until_us": self.host.joined_us})

    def load(self, state: EngineState, *, same_plan: bool) -> None:
        """Go on from there."""
        if numbers := state.feature(self.name):
            self.host.joined_us = numbers["until_us"]


class _Pass:
    """Settles the rows of one input; partners of the `left` streams come with them, of others they need some.

    `needs` says of a stream whether there must be a partner, or none. With `late` nothing came before.
    """

    def __init__(
        self,
        host: Host,
        node: Plan,
        core: Sequence[str],
        filter_: Condition | None,
        partners: Mapping[str, Partners],
        needs: Mapping[str, bool],
        *,
        late: bool,
    ) -> None:
        self._host, self._node, self._core, self._filter = host, node, core, filter_
        self._partners, self._needs, self._late = partners, needs, late
        self._shown = [name for name in partners if name in host.query.kinds.shown]
        self._early = Early(host, node, core, tuple(partners)) if host.query.promises else None
        self._lowered = NOTHING  # rows that are final earlier than the column says, and when

    def lower(self, step: Step | None = None) -> None:
        """Find out which rows closed keys make final earlier: all of them, or by what a step brings."""
        side = self._host.tree.sides.get(self._node)
        if self._early is not None and side is not None and side.rows:
            self._lowered = self._early.lowered(side, None if step is None else self._since(side))

    def commit(self) -> None:
        """They are."""
        (positions, final), self._lowered = self._lowered, NOTHING
        if len(positions):
            side = self._host.tree.sides[self._node]
            side.columns["final"][positions - side.columns.base] = final

    def forget_keyless(self) -> None:
        """Forget rows without a key."""
        side = self._host.tree.sides.get(self._node)
        if side is not None and side.rows and not (linked := side.index.linked()).all():
            forget(side, np.flatnonzero(~linked & ~side.columns.held("gone")) + side.first)

    def unsettled(self, keys: Keys, settled_us: int) -> Bools:
        """Return of which keys rows are not final."""
        side = self._host.tree.sides.get(self._node)
        if side is None or not side.rows:
            return np.zeros(len(keys), np.bool_)
        return holds(side, keys, out_of=side.columns.held("final") >= settled_us)

    def _since(self, side: SideState) -> int:
        """The position from which on rows are of this step."""
        mark = self._host.tree.marks.get(self._node)
        return side.count if mark is None else mark.count

    def final(self, before_us: int, now_us: int) -> Iterator[Int64s]:
        """Yield the rows that are final now and were not, or had not come; some at a time."""
        side = self._host.tree.sides.get(self._node)
        if side is None or not side.rows:
            return
        final, new = side.columns.held("final"), self._since(side) - side.first
        settles = final >= before_us
        settles[new:] = True
        if len(self._lowered[0]):
            final = final.copy()
            final[self._lowered[0] - side.first] = self._lowered[1]
        settles &= final < now_us
        if side.purges:
            settles &= ~side.columns.held("gone")
        positions = np.flatnonzero(settles) + side.first
        for start in range(0, len(positions), _MOST):
            yield positions[start : start + _MOST]

    def waiting(self, settled_us: int) -> int:
        """How many rows are not final."""
        side = self._host.tree.sides.get(self._node)
        if side is None:
            return 0
        waits = side.columns.held("final") >= settled_us
        return int(np.count_nonzero(waits & ~side.columns.held("gone") if side.purges else waits))

    def results(self, positions: Int64s) -> pa.Table:
        """Return the results of rows that settle."""
        tree, builder = self._host.tree, self._host.builder
        assert builder is not None
        asking = Asking(tree.inputs[self._node], tree.sides[self._node], positions)
        asking = self._chosen(asking, self._owned(asking))
        asking = self._chosen(asking, self._passing(asking))
        for name, wanted in self._needs.items():
            asking = self._chosen(asking, self._partners[name].any(asking, tree.sides.get(name)) == wanted)
        if not self._late:  # what has all its partners came when the last one did
            has = [self._partners[name].any(asking, tree.sides.get(name)) for name in self._shown]
            asking = self._chosen(asking, ~np.logical_and.reduce(has))
        found = {name: self._partners[name].find(asking, tree.sides.get(name)) for name in self._shown}
        rows, chosen = _combined(found, len(asking.positions))
        lacking = np.zeros(len(rows), np.bool_)
        for at in chosen.values():
            lacking |= at < 0
        return self._table(asking, rows, chosen, lacking)

    def _owned(self, asking: Asking) -> Bools | None:
        """Tell which rows have their oldest time where this engine owns the results."""
        owns = self._host.site.owns
        if owns is None:
            return None
        oldest = np.minimum.reduce([asking.times(name) for name in self._core])
        return np.asarray((oldest >= owns[0]) & (oldest < owns[1]))

    def _passing(self, asking: Asking) -> Bools | None:
        """Tell which rows satisfy `where`, as far as it is about the core."""
        if self._filter is None:
            return None
        columns = asking.gather(self._filter.columns())
        return predicate.passes(self._filter, columns, len(asking.positions), self._host.query.where or "")

    def _chosen(self, asking: Asking, which: Bools | None) -> Asking:
        if which is None or which.all():
            return asking
        return Asking(asking.source, asking.side, asking.positions[which])

    def _table(self, asking: Asking, rows: Int64s, chosen: Mapping[str, Int64s], lacking: Bools) -> pa.Table:
        """Gather the columns of results: of rows of the core, and of partners, null where there is none."""
        tree, builder = self._host.tree, self._host.builder
        assert builder is not None
        assert builder.output is not None
        output = builder.output
        sources = {name: source for name, source in output.sources.items() if source[0] in self._core}
        arrays = asking.gather(dict.fromkeys(sources.values()), rows)
        for name, at in chosen.items():
            wanted = [source for source in output.sources.values() if source[0] == name]
            arrays |= _or_null(tree.inputs[name], tree.sides.get(name), at, wanted)
        types = self._host.schema.types
        columns = [
            from_storable(arrays[source], types[i]) if source in arrays else pa.nulls(len(rows), types[i])
            for i, source in enumerate(output.sources.values())
        ]
        if output.timed:
            columns.append(pa.array(self._newest(asking, rows, chosen, lacking)).cast(types[len(columns)]))
        if self._host.query.emit_punctuations:
            columns.append(pa.array(np.zeros(len(rows), np.bool_)))
        return pa.Table.from_arrays(columns, schema=self._host.schema)

    def _newest(self, asking: Asking, rows: Int64s, chosen: Mapping[str, Int64s], lacking: Bools) -> Int64s:
        """The times of results: of the core's rows where a null came, else of all that are shown."""
        newest: Int64s = np.maximum.reduce([asking.times(name) for name in self._core])[rows]
        for name, at in chosen.items():
            side = self._host.tree.sides.get(name)
            if side is not None and not lacking.all():
                times = side.columns.at("time", np.where(at < 0, side.first, at))
                newest = np.where(lacking, newest, np.maximum(newest, times))
        return newest


def _passes(host: Host) -> Iterator[_Pass]:
    """One for the core; in a full join one for the other stream, too."""
    query, tree = host.query, host.tree
    layouts = [stream.layout for stream in host.streams if stream is not None]
    kinds = {s.name: s.how for s in query.streams}

    def partners(stream: str, core: Sequence[str], match: Condition | None) -> Partners:
        operator = tree.above(stream)
        assert operator.keys is not None
        return Partners(query, stream, core, layouts, operator.keys, match)

    joined, core = query.kinds, query.kinds.core
    of_core = {name: partners(name, core, joined.match(name)) for name in joined.optional}
    needs = {name: kinds[name] != "anti" for name in joined.optional if kinds[name] not in ("left", "full")}
    yield _Pass(host, joined.core_node, core, joined.match(None), of_core, needs, late=joined.late)
    if joined.full:
        (first,), (second,) = core, joined.optional
        back = {first: partners(first, (second,), query.condition)}
        yield _Pass(host, second, (second,), None, back, {}, late=False)


def _combined(found: Mapping[str, Matches], rows: int) -> tuple[Int64s, dict[str, Int64s]]:
    """Every choice of partners for every row: the row's place, and by stream a position, or -1 for none."""
    which: Int64s = np.arange(rows)
    chosen: dict[str, Int64s] = {}
    for name, matches in found.items():
        counts = matches.counts
        starts = np.cumsum(counts) - counts
        many = np.maximum(counts, 1)[which]
        again = np.repeat(np.arange(len(which)), many)
        number = np.arange(len(again)) - np.repeat(np.cumsum(many) - many, many)
        which = which[again]
        chosen = {other: at[again] for other, at in chosen.items()}
        has = counts[which] > 0
        chosen[name] = np.full(len(which), -1, np.int64)
        chosen[name][has] = matches.positions[(starts[which] + number)[has]]
    return which, chosen


def _or_null(
    source: Any, side: SideState | None, positions: Int64s, wanted: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], pa.Array]:
    """Stored columns at some positions, null at -1."""
    if side is None or not wanted or not (positions >= 0).any():
        return {}
    there = positions >= 0
    gathered = side.payload.gather(positions[there].astype(np.int32), [source.places[c] for c in wanted])
    if there.all():
        return dict(zip(wanted, gathered, strict=True))
    places = pa.array(np.cumsum(there) - 1, mask=~there)
    return {column: array.take(places) for column, array in zip(wanted, gathered, strict=True)}
