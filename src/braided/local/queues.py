"""Turns at queues that hold rows: the "CPU-limited mode" of metadata-join.

A turn reads some rows of one stream's queue. Under value-oriented scheduling it is up to two batches: rows
with keys that another stream has closed by a punctuation, then the *waiting pool*, which is the rest. So the
pool is empty before another stream has its turn. Every row is in exactly one turn, and in one batch of it.

The engine knows which keys are closed, and whether a cluster has joined (all other streams hold its key). So
each batch must be processed before the next is taken, and a restored state goes on as before. This decides
the order of rows and the length of turns, never a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from braided.engine.engine import Engine
from braided.engine.promises.feature import Promises
from braided.engine.sides.by_key import holds
from braided.engine.sides.keys import Keys
from braided.policies import queues as policy
from braided.policies.arrays import Bools, Int64s
from braided.query.errors import InvalidType
from braided.query.join_query import JoinQuery
from braided.query.scheduling import Scheduling


def check_scheduling(call: str, scheduling: object, query: JoinQuery) -> None:
    """Raise unless it is one, and names streams of the query only."""
    if not isinstance(scheduling, Scheduling):
        raise InvalidType(f"{call}: scheduling must be a bd.Scheduling; got {scheduling!r}")
    policy.priorities(scheduling, query)


def scheduled(
    engine: Engine, whole: Mapping[str, pa.RecordBatch], scheduling: Scheduling
) -> Iterator[tuple[dict[str, pa.RecordBatch], bool]]:
    """The batches, each of one stream's rows, and whether it is the last; the engine knows all schemas."""
    names = [name for name in policy.priorities(scheduling, engine.query) if name in whole]
    queues = [_Queue(engine, name, whole[name], scheduling) for name in names]
    rng = np.random.default_rng(scheduling.seed)
    taken = (0,) * len(queues)
    while any(waiting := [queue.waiting for queue in queues]):
        if scheduling.streams == "random":
            turn = policy.at_random(waiting, scheduling.quota, rng)
        else:
            turn = policy.by_priority(waiting, taken, scheduling.quota)
        taken = turn.taken
        parts = queues[turn.place].take(turn.rows)
        ended = not any(queue.waiting for queue in queues)
        for i, part in enumerate(parts, 1):
            yield {names[turn.place]: part}, ended and i == len(parts)


class _Queue:
    """The rows of one stream, and how far they have been read."""

    def __init__(self, engine: Engine, name: str, rows: pa.RecordBatch, scheduling: Scheduling) -> None:
        self._engine, self._rows, self._at = engine, rows, 0
        self._number, streams = engine.query.names.index(name), engine.query.streams
        stream = streams[self._number]
        promises = engine.core.features.get("promises")
        self._promises = promises if isinstance(promises, Promises) else None  # one key is in all streams
        self._closing = [j for j, s in enumerate(streams) if s is not stream and s.punctuation is not None]
        known = self._promises is not None and self._promises.ledger is not None
        by_value = scheduling.tuples == "value" and bool(self._closing)
        self._overtakes = known and by_value and policy.may_overtake(engine.query, stream)
        self._clustered = known and scheduling.streams == "priority" and policy.stays_in_cluster(stream)
        intake = engine.core.streams[self._number]
        self._keys = intake.keys_in(rows) if intake and (self._overtakes or self._clustered) else None

    @property
    def waiting(self) -> int:
        """How many rows have not been read."""
        return int(self._rows.num_rows) - self._at

    def take(self, rows: int) -> list[pa.RecordBatch]:
        """Read some rows, or a few more: as one part, or those that come first and the others."""
        start, stop = self._at, self._end_of_turn(self._at + rows)
        self._at = stop
        turn = self._rows.slice(start, stop - start)
        urgent = self._urgent(start, stop)
        if urgent is None or urgent.all() or not urgent.any():
            return [turn]
        return [turn.take(pa.array(places)) for places in policy.urgent_first(urgent)]

    def _end_of_turn(self, stop: int) -> int:
        """Return where a turn that would end at `stop` ends: behind the cluster, if that has joined."""
        if not self._clustered or self._keys is None:
            return stop
        last, sides = self._some_keys(stop - 1, stop), self._engine.tree.sides
        others = [sides.get(name) for i, name in enumerate(self._engine.query.names) if i != self._number]
        joined = all(side is not None and holds(side, last)[0] for side in others)
        return policy.cluster_end(self._keys.hashes, stop) if joined else stop

    def _urgent(self, start: int, stop: int) -> Bools | None:
        """Which rows have keys that another stream, one that punctuates, has closed; None: order decides."""
        ledger = None if self._promises is None else self._promises.ledger
        if not self._overtakes or ledger is None:
            return None
        keys = self._some_keys(start, stop)
        closed: Bools = np.any([ledger.is_closed(j, keys) for j in self._closing], axis=0)
        return closed

    def _some_keys(self, start: int, stop: int) -> Keys:
        assert self._keys is not None
        checks: Int64s | None = self._keys.checks
        return Keys(self._keys.hashes[start:stop], None if checks is None else checks[start:stop])
