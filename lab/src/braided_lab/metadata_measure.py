"""Running the shipped engine, and XJoin, over the same rows: time, state and operations against results.

The clock (CPU time of this process) runs while a join works and while a schedule decides what is read next;
reading counters is outside. XJoin knows no punctuations: it gets batches without them. A row that can be
dropped on the fly is stored by the engine for the length of its batch; where a batch has rows of one stream
only, so that they can be told, such rows are not counted as inserted and purged. `compared` are rows met
along chains of the index or in a scan, of the key or not; `scanned` is what purging looked at: stored rows,
or keys.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import braided as bd
from braided.engine.engine import Engine
from braided.engine.kernels.tables import LOOKED, PROBES
from braided.engine.promises.feature import Promises
from braided.engine.promises.ledger import Ledger
from braided.engine.sides.by_key import stored_keys
from braided.engine.sides.keys import Keys
from braided.engine.site import Site
from braided.query.tuning import Index
from braided_lab.news import ACCESS, NEWS
from braided_lab.xjoin import XJoin

Batch = dict[str, pa.RecordBatch]
Feed = Callable[[Engine], Iterable[Batch]]  # a schedule asks the engine what is closed
COUNTS = ("probes", "compared", "inserted", "purged")
COLUMNS = ("results", "seconds", "state_rows", *COUNTS, "scanned", "closed")


@dataclass(frozen=True)
class Curve:
    """A run, a line for each batch: all of `COLUMNS`, added up since the start but for what is held."""

    points: npt.NDArray[np.float64]

    @property
    def results(self) -> int:
        """How many there were in the end."""
        return int(self.points[-1, 0])

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """One column, batch by batch."""
        return self.points[:, COLUMNS.index(name)]

    def total(self, name: str) -> float:
        """Of the whole run."""
        return float(self.column(name)[-1])

    @property
    def peak(self) -> float:
        """The most rows of state."""
        return float(self.column("state_rows").max())

    def deciles(self, name: str) -> npt.NDArray[np.float64]:
        """The value when each tenth of the results was there; between batches production is even."""
        reached, first = np.unique(self.column("results"), return_index=True)
        wanted = self.results * np.arange(1, 11) / 10
        return np.interp(wanted, reached, self.column(name)[first])

    def operations(self) -> npt.NDArray[np.float64]:
        """All that was done for each tenth of the results, from the start.

        Without `scanned`: a batch looks each of its keys up once, so a larger one would seem to do less.
        """
        return np.asarray(np.sum([self.deciles(name) for name in COUNTS], axis=0))


def news_query(every: int, index: Index = "auto", *, emit: bool = False) -> bd.JoinQuery:
    """The paper's join, purging after so many punctuations; with `emit` it propagates them."""
    streams = [bd.Stream("news", "sno", unique=True), bd.Stream("access", "sno", punctuation="punctuation")]
    tuning = bd.Tuning(index=index, purge=bd.BatchPurge(every))
    return bd.JoinQuery(streams, tuning=tuning, emit_punctuations=emit)


class KeyedPurge(Promises):
    """The engine's purging, counted: how many keys are looked up."""

    looked = 0

    def settle(self, ledger: Ledger, keys: Keys) -> None:
        """Counted."""
        self.looked += len(keys)
        super().settle(ledger, keys)


class ScanningPurge(KeyedPurge):
    """Purging as in the paper: each time the whole state is scanned for rows that punctuations let go."""

    def in_ranges_since(self, ledger: Ledger, before: list[tuple[int, int]]) -> list[Keys]:
        """And all keys of stored rows that are closed elsewhere."""
        found = super().in_ranges_since(ledger, before)
        for i, name in enumerate(self.host.query.names):
            side = self.host.tree.sides[name]
            keys = stored_keys(side)
            self.looked += len(keys)
            closed = np.zeros(len(keys), np.bool_)
            for j, other in enumerate(ledger.closed):
                if i != j:
                    closed |= other.contains(keys)
            found.append(keys.pick(closed))
        return found


def news_engine(query: bd.JoinQuery, features: Mapping[str, Any] | None = None) -> Engine:
    """An engine that knows both schemas."""
    engine = Engine(query, Site(repeatable=True), features)
    engine.core.learn({"news": NEWS, "access": ACCESS.append(pa.field("punctuation", pa.bool_()))})
    return engine


def run_mjoin(feed: Feed, query: bd.JoinQuery, purge: type[KeyedPurge] = KeyedPurge) -> Curve:
    """The engine over batches of news and access."""
    engine = news_engine(query, {"promises": purge})
    promises = engine.core.features.get("promises")
    before, seconds, inserted, purged = engine.statistics(), 0.0, 0, 0
    points = [np.zeros(len(COLUMNS))]
    batches = iter(feed(engine))
    while True:
        began = time.process_time()
        if (batch := next(batches, None)) is None:
            break
        for _ in engine.step(engine.accept(batch, borrow=True), eager=False):
            pass
        seconds += time.process_time() - began
        now = engine.statistics()
        came, went, dropped = _moved(before, now, batch)
        inserted, purged, before = inserted + came - dropped, purged + went - dropped, now
        points.append(_point(engine, seconds, inserted, purged, promises))
    for _ in itertools.chain.from_iterable(engine.finish()):
        raise AssertionError("nothing waits for the end")
    seconds += time.process_time() - began
    purged += _purged(engine.statistics()) - _purged(before)
    points.append(_point(engine, seconds, inserted, purged, promises))
    return Curve(np.array(points))


def _moved(before: bd.Statistics, now: bd.Statistics, batch: Mapping[str, object]) -> tuple[int, int, int]:
    """Rows that came in a batch, that were purged, and of them those seen to be dropped on the fly."""
    came = sum(s.rows_in for s in now.streams.values()) - sum(s.rows_in for s in before.streams.values())
    went = _purged(now) - _purged(before)
    if len(batch) > 1:
        return came, went, 0
    (name,) = batch
    return came, went, now.streams[name].purged_rows - before.streams[name].purged_rows


def _purged(seen: bd.Statistics) -> int:
    return sum(s.purged_rows for s in seen.streams.values())


def _point(
    engine: Engine, seconds: float, inserted: int, purged: int, promises: KeyedPurge
) -> npt.NDArray[np.float64]:
    learned = [operator.join.learned for operator in engine.tree.operators]
    probes = sum(int(known.tallies[PROBES].sum()) for known in learned)
    compared = sum(int(known.tallies[LOOKED].sum()) for known in learned)
    state = sum(side.live_rows for side in engine.tree.sides.values())
    ledger = promises.ledger
    assert ledger is not None
    closed = sum(map(len, (*ledger.closed, ledger.done, ledger.announced)))
    counted = [probes, compared, inserted, purged, promises.looked]
    return np.array([engine.core.results, seconds, state, *counted, closed], np.float64)


def run_xjoin(batches: Iterable[Batch], memory_rows: int | None = None, folder: Path | None = None) -> Curve:
    """XJoin over the same; the state is what it holds in memory and on disk."""
    join = XJoin(NEWS, ACCESS, "sno", memory_rows, folder)
    points = [np.zeros(len(COLUMNS))]
    seconds = 0.0

    def timed(work: Callable[[], pa.Table]) -> None:
        nonlocal seconds
        began = time.process_time()
        work()
        seconds += time.process_time() - began
        done = join.counters
        held = done.memory_rows + done.disk_rows
        counted = [sum(done.results), seconds, held, done.probes, done.compared, done.inserts, 0, 0, 0]
        points.append(np.array(counted, np.float64))

    waiting = iter(batches)
    while True:
        began = time.process_time()
        if (batch := next(waiting, None)) is None:
            break
        seconds += time.process_time() - began
        news, access = batch.get("news"), _records(batch.get("access"))
        timed(lambda news=news, access=access: join.push(news, access))  # type: ignore[misc]
    timed(join.finish)
    return Curve(np.array(points))


def _records(access: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """Access records without punctuations."""
    if access is None:
        return None
    return access.filter(pc.invert(access.column("punctuation"))).select(ACCESS.names)


def at_punctuations(whole: Mapping[str, pa.RecordBatch], top: int) -> list[Batch]:
    """A batch for each punctuation, which ends it: as one item rolls out, another is posted."""
    flags = whole["access"].column("punctuation").to_numpy(zero_copy_only=False)
    ends = np.flatnonzero(flags) + 1
    starts = np.concatenate([[0], ends[:-1]])
    batches: list[Batch] = []
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        posted = whole["news"].slice(0, top) if i == 0 else whole["news"].slice(top + i - 1, 1)
        batch = {"access": whole["access"].slice(start, end - start)}
        batches.append({"news": posted, **batch} if posted.num_rows else batch)
    return batches
