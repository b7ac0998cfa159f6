"""Batches out of queues that hold all rows: the "CPU-limited mode" of metadata-join.

A turn reads some rows of one stream's queue. Under value-oriented scheduling it is up to two batches: rows
with keys that another stream has closed by a punctuation, then the *waiting pool*, which is the rest. So the
pool is empty before another stream has its turn. Every row is in exactly one turn, and in one batch of it.

A row's key shows whether it has joined: all other streams have brought it. Windows and `where` are not
asked; it only decides how long a turn is. On Spark nothing of this applies: a micro-batch decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from braided.engine.sides.keys import KeyFormat, key_format, valid_keys
from braided.engine.sides.storable import to_storable
from braided.local.activation import Activation
from braided.policies import queues as policy
from braided.policies.arrays import Bools, Int64s
from braided.query.errors import InvalidType
from braided.query.join_query import JoinQuery
from braided.query.scheduling import Scheduling
from braided.query.stream import Stream


def scheduled(
    query: JoinQuery, whole: Mapping[str, pa.RecordBatch], scheduling: Scheduling
) -> Iterator[Activation]:
    """The batches of a run, each of one stream's rows."""
    if not isinstance(scheduling, Scheduling):
        raise InvalidType(f"run_local: scheduling must be a bd.Scheduling; got {scheduling!r}")
    order = policy.priorities(scheduling, query)
    return _batches(query, [(name, whole[name]) for name in order], scheduling)


def _batches(
    query: JoinQuery, queues: list[tuple[str, pa.RecordBatch]], scheduling: Scheduling
) -> Iterator[Activation]:
    rng = np.random.default_rng(scheduling.seed)
    seen = _Seen(query, queues, scheduling) if query.promises else None
    at, taken = [0] * len(queues), (0,) * len(queues)
    nothing = dict.fromkeys(query.names, 0)
    while any(waiting := [batch.num_rows - at[i] for i, (_, batch) in enumerate(queues)]):
        if scheduling.streams == "random":
            turn = policy.at_random(waiting, scheduling.quota, rng)
        else:
            turn = policy.by_priority(waiting, taken, scheduling.quota)
        i, taken = turn.place, turn.taken
        start, stop = at[i], at[i] + turn.rows
        name, batch = queues[i]
        if seen is None:
            yield Activation({name: batch.slice(start, stop - start)}, nothing)
        else:
            stop = seen.end_of_turn(i, stop)
            for rows in seen.in_order(i, start, stop):
                yield Activation({name: _picked(batch, rows)}, nothing)
        at[i] = stop


def _picked(batch: pa.RecordBatch, rows: Int64s | slice) -> pa.RecordBatch:
    if isinstance(rows, slice):
        return batch.slice(rows.start, rows.stop - rows.start)
    return batch.take(pa.array(rows))


class _Seen:
    """Which keys each stream has brought, and closed by punctuations, in the turns so far.

    Keys are numbered; the last number stands for a key with a null, which nothing closes.
    """

    def __init__(
        self, query: JoinQuery, queues: list[tuple[str, pa.RecordBatch]], scheduling: Scheduling
    ) -> None:
        by_name = {s.name: s for s in query.streams}
        streams = [by_name[name] for name, _ in queues]
        punctuated = any(s.punctuation is not None for s in streams)
        by_value = scheduling.tuples == "value" and punctuated
        by_cluster = scheduling.streams == "priority"
        self._overtakes = [by_value and policy.may_overtake(query, s) for s in streams]
        self._clustered = [by_cluster and policy.stays_in_cluster(s) for s in streams]
        self._streams = streams
        self._used = any(self._overtakes) or any(self._clustered)
        if self._used:
            self._codes, self._upto, keys = _numbered(streams, [batch for _, batch in queues])
            self._flags = [_flags(s, batch) for s, (_, batch) in zip(streams, queues, strict=True)]
            self._brought = np.zeros((len(streams), keys + 1), np.bool_)
            self._closed = np.zeros((len(streams), keys + 1), np.bool_)

    def end_of_turn(self, i: int, stop: int) -> int:
        """Where a turn that would end at `stop` ends: behind the cluster, if the cluster has joined."""
        if not self._clustered[i]:
            return stop
        codes = self._codes[i]
        joined = all(self._brought[j, codes[stop - 1]] for j in range(len(self._streams)) if j != i)
        return policy.cluster_end(codes, stop) if joined else stop

    def in_order(self, i: int, start: int, stop: int) -> Iterator[Int64s | slice]:
        """Split the rows of a turn into one or two parts, and note their keys."""
        if self._used:
            self._note(i, slice(start, stop))
        urgent = self._urgent(i, slice(start, stop)) if self._overtakes[i] else None
        if urgent is None or urgent.all() or not urgent.any():
            yield slice(start, stop)
            return
        for part in policy.urgent_first(urgent):
            yield part + start

    def _urgent(self, i: int, rows: slice) -> Bools:
        """Which rows have keys that another stream has closed by a punctuation."""
        closed = np.zeros(rows.stop - rows.start, np.bool_)
        for j in range(len(self._streams)):
            if j != i:
                closed |= self._closed[j][self._codes[i][rows]]
        return closed

    def _note(self, i: int, rows: slice) -> None:
        codes, flags = self._codes[i][rows], self._flags[i]
        if flags is None:
            self._brought[i, codes] = True
        else:
            self._brought[i, codes[~flags[rows]]] = True
            self._close(i, codes[flags[rows]], rows)
        self._brought[i, -1] = self._closed[i, -1] = False

    def _close(self, i: int, codes: Int64s, rows: slice) -> None:
        upto, flags = self._upto[i], self._flags[i]
        if upto is None:
            self._closed[i, codes] = True
        elif flags is not None and flags[rows].any():
            ends = upto[rows][flags[rows]]
            ends = ends[ends < self._closed.shape[1] - 1]  # without null ones
            self._closed[i, : int(ends.max(initial=-1)) + 1] = True


def _flags(stream: Stream, batch: pa.RecordBatch) -> Bools | None:
    """Which rows are punctuations."""
    if stream.flag is None:
        return None
    flags: npt.NDArray[np.bool_] = batch.column(stream.flag).fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def _numbered(
    streams: list[Stream], batches: list[pa.RecordBatch]
) -> tuple[list[Int64s], list[Int64s | None], int]:
    """The number of each row's key, and of the key it closes up to; in the order of keys, if there is one."""
    queues = list(zip(streams, batches, strict=True))
    places = [
        [(f"{s.name}.{s.key_columns[i]}", b.schema.field(s.key_columns[i]).type) for s, b in queues]
        for i in range(len(streams[0].key_columns))
    ]
    keys = key_format(places)
    named = [(s.key_columns, b) for s, b in queues]
    named += [((s.upto,), b) for s, b in queues if s.upto is not None]
    words = [_words(keys, [to_storable(b.column(c)) for c in columns]) for columns, b in named]
    distinct, numbers = np.unique(np.concatenate([w for w, _ in words]), return_inverse=True)
    parts = np.split(numbers.astype(np.int64), np.cumsum([len(w) for w, _ in words])[:-1])
    for part, (_, valid) in zip(parts, words, strict=True):
        if valid is not None:
            part[~valid] = len(distinct)
    ends = iter(parts[len(streams) :])
    return parts[: len(streams)], [None if s.upto is None else next(ends) for s in streams], len(distinct)


def _words(keys: KeyFormat, columns: list[pa.Array]) -> tuple[Int64s, Bools | None]:
    """A number for each row's key, in the order of keys where they have one; and which are not null."""
    hashes = keys.hashes(columns, len(columns[0]))
    return keys.ranks(hashes) if keys.ordered else hashes, valid_keys(columns)
