"""XJoin (Urhan and Franklin 2000): a pipelined hash join of two streams that moves state to disk.

State is partitioned by hash. Each partition of each stream has a part in memory and a part on disk. When
memory is full, the largest part in memory, of either stream, is flushed. There are three stages:

1. `push`: arriving rows probe the other stream's rows in memory, and are stored;
2. `idle`, while no input comes: rows of one disk portion probe the other stream's rows in memory;
3. `finish`, when both inputs have ended: all that was on disk meets all it has not met.

Why each pair appears exactly once: both rows are in memory at the same time or not. If they are, the later
one finds the earlier one in `push`. If not, the earlier one was on disk when the later one arrived, and so it
is in `finish`, which looks at every pair with a row on disk. Stages 2 and 3 leave out the pairs that the time
stamps say were joined before (see `xjoin_stamps`). No result is remembered.

In memory it runs on the engine's parts (`SideState`, `FlatJoin`), so its times compare with the engine's. Of
the second stage the paper at hand says little; which partition it takes is our reading: the one that promises
most new pairs for a row read, as `DiskPortion.meetings` counts them. A disk portion is read whole, and lies
beside the rows of the budget while it is used. Files are not synced, and may be read from the system's cache:
`written_bytes` and `read_bytes` say what a slower disk would have had to do.

>>> schema = pa.schema([("k", pa.int64())])
>>> join = XJoin(schema, schema, "k")
>>> join.push(pa.record_batch({"k": [1, 2]}), None).num_rows
0
>>> join.push(None, pa.record_batch({"k": [2, 2, 3]})).to_pydict()
{'l_k': [2, 2], 'r_k': [2, 2]}
>>> join.finish().num_rows, join.counters.results
(0, (2, 0, 0))
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from braided.engine.kernels.tables import LOOKED, PROBES
from braided.engine.operators.mjoin import FlatJoin, Positions
from braided.policies.choice import Policies
from braided.query.bounds import INFINITE_US, Bounds
from braided.query.errors import InvalidValue
from braided_lab.xjoin_memory import Portion
from braided_lab.xjoin_stamps import Runs, produced
from braided_lab.xjoin_stream import XStream, key_of

_PIECE_ROWS = 65_536  # as in the engine
_UNBOUNDED = Bounds(((0, INFINITE_US), (INFINITE_US, 0)))
_LEFT, _RIGHT = 0, 1


@dataclass(frozen=True)
class Counters:
    """What was done since the start; `results` of each stage, `compared` rows met along chains."""

    probes: int
    compared: int
    inserts: int
    flushes: int
    memory_rows: int
    memory_bytes: int
    disk_rows: int
    written_bytes: int
    read_bytes: int
    results: tuple[int, int, int]


class XJoin:
    """An equi-join of two streams without windows; `memory_rows` of both in memory at most (None: all).

    Flushed rows go to a folder of its own inside `folder`; `finish` removes it.
    """

    def __init__(
        self,
        left_schema: pa.Schema,
        right_schema: pa.Schema,
        key: str,
        memory_rows: int | None = None,
        folder: Path | None = None,
        partitions: int = 32,
    ) -> None:
        _check(memory_rows, folder, partitions)
        keys = key_of((left_schema, right_schema), key)
        self._left = XStream("left", left_schema, key, keys, partitions)
        self._right = XStream("right", right_schema, key, keys, partitions)
        self._streams = (self._left, self._right)
        self.schema = _result_schema(left_schema, right_schema)
        self._partitions, self._memory_rows = partitions, memory_rows
        self._folder, self._own_folder = folder, Path()
        self._joins = [FlatJoin(_UNBOUNDED, Policies()) for _ in range(3)]  # one for each stage
        self._results = [0, 0, 0]
        self._clock = self._inserts = self._flushes = 0
        self._finished = False

    @property
    def counters(self) -> Counters:
        """What was done until now."""
        learned = [join.learned for join in self._joins]
        disk = [portion for stream in self._streams for portion in stream.disk]
        return Counters(
            probes=sum(int(known.tallies[PROBES].sum()) for known in learned),
            compared=sum(int(known.tallies[LOOKED].sum()) for known in learned),
            inserts=self._inserts,
            flushes=self._flushes,
            memory_rows=self._resident_rows,
            memory_bytes=sum(stream.memory.side.nbytes for stream in self._streams),
            disk_rows=sum(portion.rows for portion in disk),
            written_bytes=sum(portion.written_bytes for portion in disk),
            read_bytes=sum(portion.read_bytes for portion in disk),
            results=(self._results[0], self._results[1], self._results[2]),
        )

    def push(self, left: pa.RecordBatch | None, right: pa.RecordBatch | None) -> pa.Table:
        """Take rows in, and join them with the other stream's rows in memory.

        If memory gets full on the way, both streams' rows come in by turns, in proportion to what waits.
        """
        self._check_open("push")
        batches = self._left.accept(left), self._right.accept(right)
        return self._table(0, self._arrive(batches))

    def idle(self, most_rows: int) -> pa.Table:
        """Join disk portions with rows in memory; stops before it reads more rows, but for the first."""
        self._check_open("idle")
        return self._table(1, self._run_portions(most_rows))

    def finish(self) -> pa.Table:
        """Declare both streams ended; all pairs that were not joined yet."""
        self._check_open("finish")
        table = self._table(2, self._clean_up())
        self._finished = True
        if self._flushes:
            shutil.rmtree(self._own_folder)
        return table

    # the first stage

    def _arrive(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.Table]:
        waiting = [batch.num_rows for batch in batches]
        while any(waiting):
            buffers = []
            for i, rows in enumerate(self._next_rows(waiting)):
                stream, batch = self._streams[i], batches[i]
                start = stream.enter(batch, batch.num_rows - waiting[i], rows, self._clock)
                buffers.append(range(start, start + rows))
                waiting[i] -= rows
                self._clock += rows
                self._inserts += rows
            sides = [stream.memory.side for stream in self._streams]
            for found in self._joins[0].combinations(sides, buffers, _PIECE_ROWS):
                yield self._gathered((self._left.memory, self._right.memory), found)

    def _next_rows(self, waiting: Sequence[int]) -> tuple[int, int]:
        """How many rows of each stream come in next; makes room if there is none."""
        left, right = waiting
        if self._memory_rows is None:
            return left, right
        if self._resident_rows == self._memory_rows:
            self._flush()
        room = self._memory_rows - self._resident_rows
        if room >= left + right:
            return left, right
        share = (2 * room * left + left + right) // (2 * (left + right))
        return share, room - share

    def _flush(self) -> None:
        """Move the largest memory portion to disk."""
        if not self._flushes:
            self._own_folder = Path(tempfile.mkdtemp(prefix="xjoin-", dir=self._folder))
        largest = [stream.memory.largest() for stream in self._streams]
        chosen = max(_LEFT, _RIGHT, key=lambda i: largest[i][0])
        self._streams[chosen].flush(largest[chosen][1], self._tick(), self._own_folder)
        self._flushes += 1

    @property
    def _resident_rows(self) -> int:
        return self._left.memory.rows + self._right.memory.rows

    def _tick(self) -> int:
        """The time of an event: it has it for itself."""
        self._clock += 1
        return self._clock - 1

    # the second stage

    def _run_portions(self, most_rows: int) -> Iterator[pa.Table]:
        read = 0
        for number, partition in self._promising():
            stream, other = self._streams[number], self._streams[1 - number]
            portion = stream.disk[partition]
            if read and read + portion.rows > most_rows:
                return
            read += portion.rows
            on_disk = stream.on_disk(partition, indexed=False)
            pair = (on_disk, other.memory) if number == _LEFT else (other.memory, on_disk)
            yield from self._meet(1, partition, pair, driver=number)
            portion.runs.add(last_departure=portion.last_departure, probed_at=self._tick())

    def _promising(self) -> list[tuple[int, int]]:
        """Disk portions (stream, partition) that can find something new, the best for a row read first."""
        found = []
        for number, stream in enumerate(self._streams):
            if stream.disk:
                arrivals = self._streams[1 - number].memory.arrivals()
                for partition, portion in enumerate(stream.disk):
                    meetings = portion.meetings(arrivals[partition]) if portion.rows else 0
                    if meetings:
                        found.append((meetings / portion.rows, number, partition))
        found.sort(key=lambda promise: -promise[0])
        return [(number, partition) for _, number, partition in found]

    # the third stage

    def _clean_up(self) -> Iterator[pa.Table]:
        for partition in range(self._partitions) if self._flushes else ():
            left = self._left.on_disk(partition, indexed=False)
            right = self._right.on_disk(partition, indexed=True)
            self._inserts += right.side.rows
            yield from self._meet(2, partition, (left, self._right.memory), driver=_LEFT)
            yield from self._meet(2, partition, (self._left.memory, right), driver=_RIGHT)
            yield from self._meet(2, partition, (left, right), driver=_LEFT)

    # of the last two

    def _meet(
        self, stage: int, partition: int, pair: tuple[Portion, Portion], *, driver: int
    ) -> Iterator[pa.Table]:
        """One stream's rows probe the other's; the pairs that were not joined before."""
        sides = [portion.side for portion in pair]
        buffers = [range(s.first if i == driver else s.count, s.count) for i, s in enumerate(sides)]
        for found in self._joins[stage].combinations(sides, buffers, _PIECE_ROWS):
            left, right = pair[0].stamps(found[0]), pair[1].stamps(found[1])
            fresh = ~produced((left, right), (self._runs(_LEFT, partition), self._runs(_RIGHT, partition)))
            if fresh.any():
                yield self._gathered(pair, np.ascontiguousarray(found[:, fresh]))

    def _runs(self, number: int, partition: int) -> Runs:
        disk = self._streams[number].disk
        return disk[partition].runs if disk else Runs()

    # results

    def _gathered(self, pair: tuple[Portion, Portion], found: Positions) -> pa.Table:
        columns: list[pa.Array] = []
        for portion, positions in zip(pair, found, strict=True):
            payload = portion.side.payload
            columns += payload.gather(positions, range(len(payload.schema)))
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _table(self, stage: int, tables: Iterator[pa.Table]) -> pa.Table:
        table = pa.concat_tables([self.schema.empty_table(), *tables])
        self._results[stage] += table.num_rows
        return table

    def _check_open(self, call: str) -> None:
        if self._finished:
            raise InvalidValue(f"{call}: this XJoin has finished; make a new one to join more rows")


def _check(memory_rows: int | None, folder: Path | None, partitions: int) -> None:
    if memory_rows is not None and memory_rows < 1:
        raise InvalidValue(f"XJoin: memory_rows must be at least 1; got {memory_rows}")
    if memory_rows is not None and folder is None:
        raise InvalidValue("XJoin: with memory_rows there must be a folder to flush to; got None")
    if partitions < 1 or partitions & (partitions - 1):
        raise InvalidValue(f"XJoin: partitions must be a power of two; got {partitions}")


def _result_schema(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    sources = (("l", left), ("r", right))
    return pa.schema(
        [(f"{prefix}_{field.name}", field.type) for prefix, schema in sources for field in schema]
    )
