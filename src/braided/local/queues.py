"""Batches out of queues that hold all rows: the "CPU-limited mode" of metadata-join.

A turn reads some rows of one stream's queue. Under value-oriented scheduling it is up to two batches: rows
with keys that another stream has closed by a punctuation, then the *waiting pool*, which is the rest. So the
pool is empty before another stream has its turn. Every row is in exactly one turn, and in one batch of it.

A row's key shows whether it has joined: all other streams have brought it. Windows and `where` are not
asked; it only decides how long a turn is. On Spark nothing of this applies: a micro-batch decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from braided.engine.intake import closes
from braided.engine.sides.keys import key_format, valid_keys
from braided.engine.sides.storable import to_storable
from braided.policies import queues as policy
from braided.policies.arrays import Bools, Int64s
from braided.query.errors import InvalidType
from braided.query.join_graph import JoinGraph
from braided.query.join_query import JoinQuery
from braided.query.scheduling import Scheduling
from braided.query.stream import Stream

Queues: TypeAlias = list[tuple[Stream, pa.RecordBatch]]


def scheduled(
    query: JoinQuery, whole: Mapping[str, pa.RecordBatch], scheduling: Scheduling
) -> Iterator[dict[str, pa.RecordBatch]]:
    """The batches of a run, each of one stream's rows."""
    if not isinstance(scheduling, Scheduling):
        raise InvalidType(f"run_local: scheduling must be a bd.Scheduling; got {scheduling!r}")
    by_name = {stream.name: stream for stream in query.streams}
    queues = [(by_name[name], whole[name]) for name in policy.priorities(scheduling, query)]
    seen = _seen(query, queues, scheduling)
    rng = np.random.default_rng(scheduling.seed)
    at, taken = [0] * len(queues), (0,) * len(queues)
    while any(waiting := [batch.num_rows - at[i] for i, (_, batch) in enumerate(queues)]):
        if scheduling.streams == "random":
            turn = policy.at_random(waiting, scheduling.quota, rng)
        else:
            turn = policy.by_priority(waiting, taken, scheduling.quota)
        i, taken = turn.place, turn.taken
        start, stop = at[i], at[i] + turn.rows
        stream, batch = queues[i]
        stop = at[i] = stop if seen is None else seen.end_of_turn(i, stop)
        for rows in (None,) if seen is None else seen.in_order(i, start, stop):
            turns = batch.slice(start, stop - start)
            yield {stream.name: turns if rows is None else turns.take(pa.array(rows))}


def _seen(query: JoinQuery, queues: Queues, scheduling: Scheduling) -> _Seen | None:
    """Make what a turn's length and order go by; None if nothing decides them."""
    streams = [stream for stream, _ in queues]
    by_value = scheduling.tuples == "value" and any(s.punctuation is not None for s in streams)
    overtakes = [by_value and policy.may_overtake(query, s) for s in streams]
    clustered = [scheduling.streams == "priority" and policy.stays_in_cluster(s) for s in streams]
    if not query.one_key or not any((*overtakes, *clustered)):
        return None
    return _Seen(query.graph, queues, overtakes, clustered)


class _Seen:
    """Which keys each stream has brought, and closed by punctuations, in the turns so far.

    Keys are numbered; the last number stands for a key with a null, which nothing closes.
    """

    def __init__(
        self, graph: JoinGraph, queues: Queues, overtakes: list[bool], clustered: list[bool]
    ) -> None:
        self._overtakes, self._clustered = overtakes, clustered
        self._others = [[j for j in range(len(queues)) if j != i] for i in range(len(queues))]
        self._flags = [_flags(stream, batch) for stream, batch in queues]
        self._closes = [flags & closes(*queue) for flags, queue in zip(self._flags, queues, strict=True)]
        self._codes, self._upto, self._keys = _numbered(graph, queues)
        self._brought = np.zeros((len(queues), self._keys + 1), np.bool_)
        self._closed = np.zeros_like(self._brought)

    def end_of_turn(self, i: int, stop: int) -> int:
        """Return where a turn that would end at `stop` ends: behind the cluster, if that has joined."""
        codes = self._codes[i]
        joined = self._clustered[i] and self._brought[self._others[i], codes[stop - 1]].all()
        return policy.cluster_end(codes, stop) if joined else stop

    def in_order(self, i: int, start: int, stop: int) -> Iterator[Int64s | None]:
        """Split the rows of a turn into two parts, or (None) into one, and note their keys."""
        codes = self._codes[i][start:stop]
        self._note(i, codes, slice(start, stop))
        urgent = np.asarray(self._closed[:, codes][self._others[i]].any(axis=0))  # closed by another stream
        split = self._overtakes[i] and urgent.any() and not urgent.all()
        yield from policy.urgent_first(urgent) if split else (None,)

    def _note(self, i: int, codes: Int64s, rows: slice) -> None:
        closes, upto = self._closes[i][rows], self._upto[i]
        self._brought[i, codes[~self._flags[i][rows]]] = True
        if upto is None:
            self._closed[i, codes[closes]] = True
        else:
            ends = upto[rows][closes]
            ends = ends[ends < self._keys]  # without null ones
            self._closed[i, : int(ends.max(initial=-1)) + 1] = True
        self._brought[i, -1] = self._closed[i, -1] = False


def _flags(stream: Stream, batch: pa.RecordBatch) -> Bools:
    """Return which rows are punctuations."""
    if stream.flag is None:
        return np.zeros(batch.num_rows, np.bool_)
    return np.asarray(batch.column(stream.flag).fill_null(False))


def _numbered(graph: JoinGraph, queues: Queues) -> tuple[list[Int64s], list[Int64s | None], int]:
    """Number each row's key, and the key it closes up to; in the order of keys, if there is one."""
    named = [(tuple(graph.source(a, s.name)[1] for a in graph.attributes), b) for s, b in queues]
    places = range(len(graph.attributes))
    keys = key_format([[(names[i], b.schema.field(names[i]).type) for names, b in named] for i in places])
    named += [((s.upto,), b) for s, b in queues if s.upto is not None]
    columns = [[to_storable(b.column(name)) for name in names] for names, b in named]
    hashes = [keys.hashes(c, len(c[0])) for c in columns]
    words = np.concatenate([keys.ranks(h) if keys.ordered else h for h in hashes])
    distinct, numbers = np.unique(words, return_inverse=True)
    parts = np.split(numbers.astype(np.int64), np.cumsum([len(h) for h in hashes])[:-1])
    for part, valid in zip(parts, map(valid_keys, columns), strict=True):
        if valid is not None:
            part[~valid] = len(distinct)
    ends = iter(parts[len(queues) :])
    return parts[: len(queues)], [None if s.upto is None else next(ends) for s, _ in queues], len(distinct)
