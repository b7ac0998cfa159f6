"""Overload: which rows are let in, and how far back windows reach, when CPU or memory is short.

Why the results are a subset of the exact ones
----------------------------------------------
A row that is not let in is dropped before it is stored, and a row below its side's *floor* is never found;
all else is as always. So every combination that is found satisfies the same conditions as in the exact join,
over some of the same rows. Times of rows that are not let in still move the watermark, so lateness is judged
as in the exact join. (Windows that count rows would see fewer, and keep others longer: they are refused.)

Why no result is stale
----------------------
A batch's clock is the largest time seen, in it or before. A row older than its stream's bound on age is below
its floor then: it is not let in, not found, and neither is an intermediate row that holds it. The clock never
goes back, so what is too old stays so.

Why a retried batch does the same
---------------------------------
Rows are picked by a seeded hash of stream, batch, key and time (and of their contents, where these are
equal), and floors are times: both depend on the rows and the committed state, not on their order. A floor is
chosen at the end of a batch, written with the state, and holds from the next batch on, whether the rows below
it have been removed yet or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine.features import Arrivals, Host
from braided.engine.fields import load_fields
from braided.engine.intake import Arrival
from braided.engine.kernels.hashing import first_lot, lots
from braided.engine.sides.keys import content_hashes
from braided.engine.sides.side import BOTTOMLESS_US, Rows, SideState
from braided.engine.site import Share
from braided.policies.arrays import Bools, Int64s
from braided.policies.sharing import let_in, split, whole

_FADING = 0.9  # of the rates that decide which stream is slow, from batch to batch
_NOTHING = np.zeros(0, np.int64)


class Regulation:
    """Which rows a query's `Overload` lets in, and how far back windows reach."""

    saved = ("rates", "held_rows", "cut_rows")

    def __init__(self, host: Host) -> None:
        query, self._host = host.query, host
        self._query, self._overload = query, query.overload
        state_rows = self._overload.state_rows if self._overload is not None else None
        self._state_rows = None if state_rows is None else host.site.part.of_budget(state_rows)
        streams = len(query.streams)
        self._freshness_us = [s.freshness_us for s in query.streams]
        self.rates = [0.0] * streams
        self.held_rows: list[int | None] = [None] * streams  # None until windows are first shared out
        self.cut_rows = [0] * streams

    def floors_at(self, clock_us: int) -> list[int]:
        """The floors of a batch: rows that are too old by its clock are not found either."""
        return [
            floor if bound is None else max(floor, clock_us - bound)
            for floor, bound in zip(self._host.floors_us, self._freshness_us, strict=True)
        ]

    def let_in(self, arrivals: Arrivals, share: Share) -> list[Arrival | None]:
        """The arrivals, with only the rows that are let in.

        A row below its side's floor comes too late, for memory or for fresh results: whether others in its
        batch met it would depend on whose turn is first.
        """
        batch = self._host.batches
        floors_us = self.floors_at(self._host.later(arrivals).clock_us)
        arrivals = [a and _above(a, floor_us) for a, floor_us in zip(arrivals, floors_us, strict=True)]
        overload = self._overload
        if overload is None or not overload.drops_input or overload.probes is None:
            return list(arrivals)
        if share.copied:
            return self._let_in_everywhere(arrivals, overload.probes)
        budget = share.of_budget(overload.probes)
        rows = [len(a.rows) if a else 0 for a in arrivals]
        if sum(rows) <= budget:
            return list(arrivals)
        seed = self._query.tuning.seed
        draws = [_draws(a, i, batch, seed) if a else _NOTHING for i, a in enumerate(arrivals)]
        if overload.allocation == "random":
            quotas = _drawn(draws, budget)
        else:
            wanted = let_in(overload.allocation, budget, rows, *self._windows())
            quotas = whole(wanted, budget, turn=batch)
        return [a and _only(a, d, q) for a, d, q in zip(arrivals, draws, quotas, strict=True)]

    def _let_in_everywhere(self, arrivals: Arrivals, budget: int) -> list[Arrival | None]:
        """The same where several engines get the same row: it is let in by all of them, or by none.

        So a row is drawn by a share of all rows of its stream, which every engine knows.
        """
        assert self._overload is not None
        rows = tuple((a.total_rows or 0) if a else 0 for a in arrivals)
        windows = tuple(float(self._query.bounds.retention_us(i)) for i in range(len(rows)))
        wanted = let_in(self._overload.allocation, budget, rows, windows)
        shares = [min(1.0, part / max(1, n)) for part, n in zip(wanted, rows, strict=True)]
        batch, seed = self._host.batches, self._query.tuning.seed
        return [a and _part(a, _draws(a, i, batch, seed), shares[i]) for i, a in enumerate(arrivals)]

    def after(self, arrivals: Arrivals) -> None:
        """A batch is done: remember its rates, and cut the windows to what may be stored."""
        host = self._host
        host.floors_us = list(host.now_us)
        for i, arrival in enumerate(arrivals):
            self.cut_rows[i] += arrival.cut_rows if arrival else 0
        if self._state_rows is None:
            return
        arrived = [a.offered_rows if a else 0 for a in arrivals]
        if any(arrived):
            self.rates = [_FADING * r + (1 - _FADING) * n for r, n in zip(self.rates, arrived, strict=True)]
        sides = [host.tree.sides.get(name) for name in host.query.names]
        oldest = [host.oldest_us(i) for i in range(len(arrivals))]
        assert self._overload is not None
        live = [_rows_since(s, o) if s else 0 for s, o in zip(sides, oldest, strict=True)]
        self.held_rows = list(live)
        if sum(live) <= self._state_rows:
            return
        times = [_times_since(s, o) if s else _NOTHING for s, o in zip(sides, oldest, strict=True)]
        parts = split(self._overload.window_split, self._state_rows, rates=self.rates, caps=live)
        for i, quota in enumerate(whole(parts, self._state_rows, turn=0)):
            if live[i] > quota:  # rows of one time go together, so that their order does not matter
                host.floors_us[i] = floor_us = int(times[i][live[i] - quota - 1]) + 1
                gone = int(np.searchsorted(times[i], floor_us))
                self.held_rows[i] = live[i] - gone
                self.cut_rows[i] += gone

    def load(self, saved: Mapping[str, Any]) -> None:
        """Go on from saved numbers."""
        load_fields(self, self.saved, saved)
        if self._state_rows is None:
            self.held_rows = [None] * len(self.held_rows)

    def _windows(self) -> tuple[Sequence[float], Sequence[float]]:
        """Return windows in rows, and the rows they lack, if memory is shared out; else windows in time."""
        if self._state_rows is None or self._overload is None:
            return [float(self._query.bounds.retention_us(i)) for i in range(len(self.rates))], ()
        caps = [math.inf] * len(self.rates)
        targets = split(self._overload.window_split, self._state_rows, rates=self.rates, caps=caps)
        return targets, [max(0.0, t - (h or 0)) for t, h in zip(targets, self.held_rows, strict=True)]


def _rows_since(side: SideState, oldest: int) -> int:
    """How many rows are not older, and not purged."""
    if side.gone_rows:
        return len(_times_since(side, oldest))
    times = side.columns.held("time")
    if side.ordered:
        return len(times) - int(np.searchsorted(times, oldest))
    return int(np.count_nonzero(times >= oldest))


def _times_since(side: SideState, oldest: int) -> Int64s:
    """The times of the rows that are not older and not purged, oldest first."""
    times = side.columns.held("time")
    if side.gone_rows:
        times = times[~side.columns.held("gone")]
    ordered = times if side.ordered else np.sort(times)
    return ordered[np.searchsorted(ordered, oldest) :]


def _above(arrival: Arrival, floor_us: int) -> Arrival:
    """The arrival without rows that are older than what may be stored."""
    if floor_us == BOTTOMLESS_US or (above := arrival.rows.times >= floor_us).all():
        return arrival
    return arrival.pick(above, cut_rows=int((~above).sum()))


def _draws(arrival: Arrival, stream: int, batch: int, seed: int) -> Int64s:
    """A number for each row; those with the smallest are let in."""
    start = first_lot(seed, batch * 64 + stream)
    return np.asarray(lots(arrival.rows.hashes, arrival.rows.times, start))


def _drawn(draws: Sequence[Int64s], budget: int) -> tuple[int, ...]:
    """How many rows of each stream are among the smallest of all."""
    everything = np.concatenate(draws)
    owner = np.repeat(np.arange(len(draws)), [len(d) for d in draws])
    smallest = np.argsort(everything, kind="stable")[:budget]
    return tuple(np.bincount(owner[smallest], minlength=len(draws)).tolist())


def _only(arrival: Arrival, draws: Int64s, quota: int) -> Arrival:
    """The arrival with its `quota` rows of the smallest draws."""
    rows = arrival.rows
    if quota >= len(rows):
        return arrival
    let_in = _smallest(rows, draws, quota) if quota else np.zeros(len(rows), np.bool_)
    return arrival.pick(let_in, shed_rows=len(rows) - quota)


def _part(arrival: Arrival, draws: Int64s, share: float) -> Arrival:
    """The arrival with this share of its rows, by their draws; copies are not counted."""
    if share >= 1 or not len(draws):
        return arrival
    chosen: Bools = draws.view(np.uint64) < np.uint64(share * (1 << 64))
    return arrival.pick(chosen, shed_rows=int((~chosen[: arrival.own_rows]).sum()))


def _smallest(rows: Rows, draws: Int64s, quota: int) -> Bools:
    limit = np.partition(draws, quota - 1)[quota - 1]
    chosen: Bools = draws < limit
    tied = np.flatnonzero(draws == limit)
    wanted = quota - int(chosen.sum())
    if wanted < len(tied):  # equal key and time: contents decide, because the order of rows may not
        tied = tied[np.argsort(content_hashes(rows.batch.take(pa.array(tied))), kind="stable")]
    chosen[tied[:wanted]] = True
    return chosen
