"""One bucket's share of a micro-batch: its packed rows in, blobs of results out, state written.

What a bucket emits, and the rows its state holds afterwards, depend only on the committed state and the
rows of the batch. No clock, no task number and no order of arrival decides anything, so any attempt's
output may be paired with any attempt's state, and a retried batch gives the same bag.

In a query of several stages a bucket belongs to one of them. It stores the newest times of all streams, so it
judges by the same watermark as the others; what it learns of them in a batch counts from the next one on.
Rows that a lower stage made are never judged: their last component was accepted in this very batch.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from braided.engine.engine import Engine
from braided.engine.intake import Arrival
from braided.engine.stopwatch import Stopwatch
from braided.spark import decisions, hot_keys, measures
from braided.spark.plan import LATE_COLUMN, JoinPlan
from braided.spark.storage.arena import Arena, open_arena
from braided.spark.storage.bucket_state import BucketState
from braided.spark.storage.store import Meta, State
from braided.spark.wire import blobs
from braided.spark.wire.packed import Emitted, Packed, gathered, packed_rows, schema, to_arrow
from braided.spark.wire.received import Received


class Bucket:
    """Processes one bucket's part of one micro-batch."""

    def __init__(
        self, plan: JoinPlan, number: int, state: State | None, query_id: str = "", ahead_seconds: float = 0.0
    ) -> None:
        """Without a state the rows of one batch are all there are.

        `ahead_seconds` is what buckets before this one took that budgets explain, in this batch and task.
        """
        self._plan, self._number, self._state, self._query_id = plan, number, state, query_id
        self._ahead_seconds = ahead_seconds
        self.paced_seconds = 0.0

    def run(self, packed: Sequence[Packed]) -> Iterator[Emitted]:
        """Blobs of results, and at the end one row of metrics; the state is written in between.

        Without a state there is nothing to come: results that wait are handed out.
        """
        arena = open_arena(self._plan, self._query_id, self._number)
        with contextlib.nullcontext() if arena is None else contextlib.closing(arena):
            yield from self._run(Received(self._plan, packed), arena)

    def owed(self) -> Iterator[bytes]:
        """Blobs of all results that wait, if nothing more arrives; the state is as good as gone then."""
        return self._waiting(BucketState(self._plan, self._number, self._state).engine(None))

    def _waiting(self, engine: Engine) -> Iterator[bytes]:
        for table in itertools.chain.from_iterable(engine.finish()):
            yield from self._blobs(table)

    def _run(self, received: Received, arena: Arena | None) -> Iterator[Emitted]:
        watch = Stopwatch()
        with watch.on("state"):
            stored = BucketState(self._plan, self._number, self._state)
            meta, engine = stored.meta, stored.engine(arena)
        with watch.on("engine"):
            received.check_complete(engine.core.watermark.newest_us)
            arrivals = engine.accept(
                received.incoming(),
                borrow=True,
                share=received.share,
                cores=self._plan.cores,
                clock=received.clock,
            )
        handed, began = received.handed(engine.tree), time.perf_counter_ns()
        before_us = watch.us("engine")
        for table in watch.each("engine", engine.step(arrivals, eager=False, handed=handed)):
            yield from map(Emitted, self._blobs(table))
        out_us = (time.perf_counter_ns() - began) // 1000 - (watch.us("engine") - before_us)
        for blob in itertools.chain(self._late(arrivals), received.passing):
            yield Emitted(blob, late=True)
        if self._state is None:
            yield from map(Emitted, self._waiting(engine))
            return
        self._measure(meta, engine, received, out_us / 1e6)
        sampled = hot_keys.samples(self._plan, arrivals)
        meta.heavy = hot_keys.observed(meta.heavy, self._plan, arrivals, sampled)
        engine.make_room(arrivals)  # any attempt may, as it likes: the results of this batch are out
        previous, meta.token = meta.token, secrets.token_hex(16)
        if stored.rebuilds and (self._plan.query.promises or self._plan.query.memory is not None):
            previous = ""  # chunks that are not committed say where rows lie now
        with watch.on("state"):
            stored.write(engine, arrivals)
            if arena is not None:
                arena.save(engine, meta.token, previous)
        measured: dict[str, Any] = {f"{part}_seconds": watch.us(part) / 1e6 for part in ("engine", "state")}
        measured |= {"rebuilds": stored.rebuilds, "arena_hits": stored.hits}
        measured["rows"] = sum(a.offered_rows + a.cut_rows + a.violations for a in arrivals if a)
        measured["heavy"] = meta.heavy
        measured["hottest_key_rows"] = hot_keys.hottest_rows(sampled)
        seen = engine.statistics()
        measured["shared"] = decisions.said(self._plan, self._number, seen, received.sent, arrivals)
        report = measures.report(seen, self._plan, meta.by_input(), number=self._number, **measured)
        yield Emitted(report=report, leaves_us=engine.core.watermark.newest_us)

    def _measure(self, meta: Meta, engine: Engine, received: Received, out_seconds: float) -> None:
        """How long the batch takes, for the budget of the next; no result of this one depends on it.

        Handing results out, to whom is slower than this, is what a budget buys, too.
        """
        self.paced_seconds = engine.paced_seconds + out_seconds
        if received.began_us is None:
            return
        seconds = meta.clock.seconds(received.began_us, time.time_ns() // 1000)
        if not received.idle:
            engine.measured(seconds, self._ahead_seconds, out_seconds)

    def _blobs(self, table: pa.Table) -> Iterator[bytes]:
        if self._plan.late == "flag" and self._plan.last:
            table = table.append_column(LATE_COLUMN, pa.nulls(table.num_rows, pa.string()))
        for batch in table.to_batches():
            yield from blobs.encoded(batch)

    def _late(self, arrivals: Sequence[Arrival | None]) -> Iterator[bytes]:
        """Late rows in the result's columns: those of the other streams are null."""
        plan = self._plan
        for i, arrival in enumerate(arrivals if plan.late == "flag" else ()):
            if arrival is None or arrival.late is None:
                continue
            rows, stream = arrival.late.num_rows, plan.query.names[i]
            sources = plan.output.sources.items()
            known = {name: arrival.late.column(column) for name, (s, column) in sources if s == stream}
            known[LATE_COLUMN] = pa.array([stream] * rows)
            arrays = [known.get(f.name, pa.nulls(rows, f.type)).cast(f.type) for f in plan.schema]
            yield from blobs.encoded(pa.RecordBatch.from_arrays(arrays, schema=plan.schema))


def batch_join(plan: JoinPlan, *, whole: bool) -> Callable[..., Any]:
    """A function that joins all rows of one bucket of a batch query, without state, into blobs of results.

    With `whole` it goes from table to table: Spark 4.0 knows no other way.
    """

    def join_bucket(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from map(to_arrow, gathered(Bucket(plan, 0, None).run(packed_rows(batches))))

    def join_whole_bucket(table: pa.Table) -> pa.Table:
        return pa.Table.from_batches(join_bucket(iter(table.to_batches())), schema(Emitted))

    return join_whole_bucket if whole else join_bucket
