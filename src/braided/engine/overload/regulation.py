"""Overload: which rows are let in when CPU is short, and which are too old to be found.

Why the results are a subset of the exact ones
----------------------------------------------
A row that is not let in is dropped before it is stored, and a row below its side's *floor* is never found;
all else is as always. So every combination that is found satisfies the same conditions as in the exact join,
over some of the same rows. Times of rows that are not let in still move the watermark, so lateness is judged
as in the exact join. (Windows that count rows would see fewer, and keep others longer: they are refused.)

Why no result is stale
----------------------
A batch's clock is the largest time seen, in it or before, or the wall clock as it was recorded with the batch
(`Overload(clock="wall")`). A row older than its stream's bound on age is below its floor then: it is not let
in, not found, and neither is an intermediate row that holds it. The clock never goes back, so what is too old
stays so.

Why a retried batch does the same
---------------------------------
Rows are picked by a seeded hash of stream, batch, key and time (and of their contents, where these are
equal), and floors are times: both depend on the rows and the committed state, not on their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from braided.engine.features import Arrivals, Host
from braided.engine.intake import Arrival
from braided.engine.kernels.hashing import first_lot, lots
from braided.engine.overload.state_budget import StateBudget
from braided.engine.sides.keys import content_hashes
from braided.engine.sides.side import BOTTOMLESS_US, Rows
from braided.engine.site import Share
from braided.policies.arrays import Bools, Int64s
from braided.policies.sharing import let_in, whole

_NOTHING = np.zeros(0, np.int64)


class Regulation:
    """Which rows a query's `Overload` lets in, and how old those may be that are found."""

    saved = ("wall_us",)

    def __init__(self, host: Host, state: StateBudget) -> None:
        query, self._host, self._state = host.query, host, state
        self._query, self._overload = query, query.overload
        self._by_wall = self._overload is not None and self._overload.clock == "wall"
        self._freshness_us = [s.freshness_us for s in query.streams]
        self.wall_us: int | None = None  # the recorded clock of the latest batch, if rows are old by that

    def age_clock_us(self, event_us: int) -> int:
        """The clock of a batch by which its rows are old, given the largest time seen."""
        if not self._by_wall:
            return event_us
        known = [us for us in (self.wall_us, self._host.wall_us) if us is not None]
        return max(known, default=event_us)

    def floors_at(self, event_us: int) -> list[int]:
        """The floors of a batch: rows that are too old by its clock are not found either."""
        clock_us = self.age_clock_us(event_us)
        return [
            floor if bound is None else max(floor, clock_us - bound)
            for floor, bound in zip(self._host.floors_us, self._freshness_us, strict=True)
        ]

    def let_in(self, arrivals: Arrivals, share: Share, budget: int | None) -> list[Arrival | None]:
        """The arrivals, with only the rows that are let in: `budget` over all engines (None: all).

        A row below its side's floor comes too late, for memory or for fresh results: whether others in its
        batch met it would depend on whose turn is first.
        """
        batch = self._host.batches
        event_us = self._host.later(arrivals).clock_us
        floors_us = self.floors_at(event_us)
        if self._by_wall:
            self._host.read_us = self.age_clock_us(event_us)  # ages are reported by the same clock
        arrivals = [a and _above(a, floor_us) for a, floor_us in zip(arrivals, floors_us, strict=True)]
        overload = self._overload
        if overload is None or budget is None:
            return list(arrivals)
        if share.copied:
            return self._let_in_everywhere(arrivals, budget)
        budget = share.of_budget(budget)
        rows = [len(a.rows) if a else 0 for a in arrivals]
        if sum(rows) <= budget:
            return list(arrivals)
        seed = self._query.tuning.seed
        draws = [_draws(a, i, batch, seed) if a else _NOTHING for i, a in enumerate(arrivals)]
        if overload.rule == "random":
            quotas = _drawn(draws, budget)
        else:
            wanted = let_in(overload.rule, budget, rows, *self._windows())
            quotas = whole(wanted, budget, turn=batch)
        return [a and _only(a, d, q) for a, d, q in zip(arrivals, draws, quotas, strict=True)]

    def _let_in_everywhere(self, arrivals: Arrivals, budget: int) -> list[Arrival | None]:
        """The same where several engines get the same row: it is let in by all of them, or by none.

        So a row is drawn by a share of all rows of its stream, which every engine knows.
        """
        assert self._overload is not None
        rows = tuple((a.total_rows or 0) if a else 0 for a in arrivals)
        if sum(rows) <= budget:
            return list(arrivals)
        windows = tuple(float(self._query.bounds.retention_us(i)) for i in range(len(rows)))
        wanted = let_in(self._overload.rule, budget, rows, windows)
        shares = [min(1.0, part / max(1, n)) for part, n in zip(wanted, rows, strict=True)]
        batch, seed = self._host.batches, self._query.tuning.seed
        return [a and _part(a, _draws(a, i, batch, seed), shares[i]) for i, a in enumerate(arrivals)]

    def after(self) -> None:
        """A batch is done: floors rise with the clock, and never fall."""
        self._host.floors_us = list(self._host.now_us)
        if self._by_wall:
            self.wall_us = self.age_clock_us(self._host.watermark.clock_us)

    def _windows(self) -> tuple[Sequence[float], Sequence[float]]:
        """Return windows in rows, and the rows they lack, if memory is shared out; else windows in time."""
        streams = range(len(self._query.streams))
        return self._state.targets() or ([float(self._query.bounds.retention_us(i)) for i in streams], ())


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
    return arrival.pick(let_in, shed_rows=arrival.shed_rows + len(rows) - quota)


def _part(arrival: Arrival, draws: Int64s, share: float) -> Arrival:
    """The arrival with this share of its rows, by their draws; copies are not counted."""
    if share >= 1 or not len(draws):
        return arrival
    chosen: Bools = draws.view(np.uint64) < np.uint64(share * (1 << 64))
    return arrival.pick(chosen, shed_rows=arrival.shed_rows + int((~chosen[: arrival.own_rows]).sum()))


def _smallest(rows: Rows, draws: Int64s, quota: int) -> Bools:
    limit = np.partition(draws, quota - 1)[quota - 1]
    chosen: Bools = draws < limit
    tied = np.flatnonzero(draws == limit)
    wanted = quota - int(chosen.sum())
    if wanted < len(tied):  # equal key and time: contents decide, because the order of rows may not
        tied = tied[np.argsort(content_hashes(rows.batch.take(pa.array(tied))), kind="stable")]
    chosen[tied[:wanted]] = True
    return chosen
