"""The engine under a memory budget in virtual time: when is the k-th result there?

A clock that only this file moves. Rows wait until the engine takes what has arrived, once in `batch_s`; in
between it merges groups as long as its disk phase wants to. Every step takes the time that a cost model gives
its work: probes, stored rows and results on the CPU, bytes and seeks on the disk. The disk is a `Spill` that
moves the clock, so the engine measures how fast merges are just as it would measure a real one. Results of a
step come evenly while it lasts.

Rows on disk are really written and read; only the time is not real. Every run must give exactly the rows that
a count by NumPy expects.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import braided as bd
from braided.engine.engine import Engine
from braided.engine.features import Host
from braided.engine.sides.side import Rows
from braided.engine.site import Site
from braided.engine.spill.feature import Spilling
from braided.engine.spill.files import Piece, Spill
from braided.policies.arrays import Int64s
from braided.policies.flush.question import ChooseFlush
from braided.query.memory import LIVE_SHARE
from braided_lab.early_arrivals import KEY, ROW_ID, Floats, Source, expected

STORED_BYTES = 40  # of a row, besides its columns


@dataclass(frozen=True)
class Costs:
    """Seconds for a probe, a row that is stored, a result and a seek; bytes a second of the disk."""

    probe_s: float
    store_s: float
    result_s: float
    seek_s: float
    disk_bytes_s: float

    def scaled(self, scale: float) -> Costs:
        """Where a row stands for 1 / scale rows."""
        return Costs(
            self.probe_s / scale, self.store_s / scale, self.result_s / scale, self.seek_s,
            self.disk_bytes_s * scale,
        )  # fmt: skip

    def slower_disk(self, times: float) -> Costs:
        """With a disk that takes so many times as long for everything."""
        return dataclasses.replace(self, seek_s=self.seek_s * times, disk_bytes_s=self.disk_bytes_s / times)


class Clock:
    """Seconds that pass only when someone says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Now."""
        return self.now

    def move(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds


class PacedSpill(Spill):
    """Real files, and a disk whose time is virtual: a seek wherever it does not just go on."""

    def __init__(self, directory: str | None, clock: Clock, costs: Costs) -> None:
        super().__init__(directory)
        self._clock, self._costs = clock, costs
        self.seconds = 0.0
        self.flushes = 0

    def write(self, parts: Iterable[tuple[Rows, Int64s, Int64s | None]]) -> list[list[Piece]]:
        """As it is; the file is written at one go."""
        found = super().write(parts)
        self.flushes += 1
        self._takes(1, sum(p.size for of_input in found for p in of_input))
        return found

    def read(self, pieces: Iterable[Piece]) -> dict[Piece, Rows]:
        """As it is, in the order of files and places."""
        wanted = sorted(pieces, key=lambda p: (str(p.file.home.folder.path), p.file.name, p.start))
        found = super().read(wanted)
        together = sum(
            a.file is b.file and a.start + a.size == b.start for a, b in itertools.pairwise(wanted)
        )
        self._takes(len(wanted) - together, sum(p.size for p in wanted))
        return found

    def _takes(self, seeks: int, size: int) -> None:
        seconds = seeks * self._costs.seek_s + size / self._costs.disk_bytes_s
        self.seconds += seconds
        self._clock.move(seconds)


class PacedSpilling(Spilling):
    """What is on disk, with such a disk; another may choose what is flushed."""

    def __init__(self, host: Host, choose: Callable[[PacedSpilling], ChooseFlush] | None = None) -> None:
        super().__init__(host)
        if choose is not None:
            self.room.choose = choose(self)
        self.stored = 0  # rows that arrived at any operator
        self.came: Counter[str] = Counter()  # and by source

    def arrived(self, operator: int, place: int, rows: Rows) -> None:
        """Counted."""
        self.stored += len(rows)
        if isinstance(source := self.tree.operators[operator].node[place], str):
            self.came[source] += len(rows)
        super().arrived(operator, place, rows)


@dataclass(frozen=True)
class Setting:
    """Who runs, and how; `chooses` is who chooses what is flushed in place of `flush`."""

    flush: str = "adaptive-global"
    state_manager: bool = True
    take_along: bool = True
    chooses: Literal["state-spill", "hindsight"] | None = None
    memory_share: float | None = None  # of the input; None: as the others
    options: Mapping[str, Any] = field(default_factory=dict)  # of Memory


@dataclass(frozen=True)
class Run:
    """When results came, and what was done: `curve` has lines of seconds and results so far."""

    curve: Floats
    counts: dict[str, float]

    @property
    def results(self) -> int:
        """How many there were in the end."""
        return int(self.curve[-1, 1])

    def seconds_to(self, results: float) -> float:
        """When the k-th result was there; infinite if there are not as many."""
        at = int(np.searchsorted(self.curve[:, 1], results))
        if at == len(self.curve):
            return float("inf")
        (t0, n0), (t1, n1) = self.curve[max(at - 1, 0)], self.curve[at]
        return float(t1 if n1 == n0 else t0 + (t1 - t0) * (results - n0) / (n1 - n0))

    def results_by(self, seconds: float) -> float:
        """How many results there were by then."""
        return float(np.interp(seconds, self.curve[:, 0], self.curve[:, 1]))


def limit_bytes(rows: int, tuple_bytes: int, share: float) -> int:
    """A limit whose part for rows that are found holds so many of the input's rows."""
    return round(share * rows * (tuple_bytes + STORED_BYTES) / LIVE_SHARE)


def group_bits(limit: int) -> int:
    """How many partition groups there are, as a power of two: 64 at a tenth of the paper's size."""
    return min(8, max(3, (limit >> 16).bit_length()))


def query_of(
    names: Sequence[str], setting: Setting, limit: int, directory: str | None = None
) -> bd.JoinQuery:
    """The join of all sources by one key, one after the other."""
    flush: Any = setting.flush
    options = {"groups": 1 << group_bits(limit)} | dict(setting.options)
    memory = bd.Memory(
        limit, flush=flush, state_manager=setting.state_manager, take_along=setting.take_along,
        directory=directory, **options,
    )  # fmt: skip
    tuning = bd.Tuning("initial-output-size", index="hash")
    return bd.JoinQuery([bd.Stream(n, KEY) for n in names], plan="linear", memory=memory, tuning=tuning)


class VirtualRun:
    """One run over rows with arrival times; time passes as the cost model says."""

    def __init__(
        self,
        query: bd.JoinQuery,
        sources: Mapping[str, Source],
        costs: Costs,
        choose: Callable[[PacedSpilling], ChooseFlush] | None = None,
    ) -> None:
        assert query.memory is not None
        self.clock, self._costs, self._sources = Clock(), costs, sources
        self._disk = PacedSpill(query.memory.directory, self.clock, costs)
        site = Site(clock=self.clock, repeatable=True, store=self._disk)
        engine = self._engine = Engine(query, site, {"spill": lambda host: PacedSpilling(host, choose)})
        self.spilling: PacedSpilling = engine.core.features.get("spill")
        engine.core.learn({name: s.rows.schema for name, s in sources.items()})
        self._curve = [(0.0, 0)]
        self._sums = dict.fromkeys(sources, 0)
        self._held = 0
        self._done = (0, 0)  # rows stored and read so far
        self._cpu_s = 0.0

    def run(self, batch_s: float) -> Run:
        """All rows, and then what is left."""
        turn, taken = 0, dict.fromkeys(self._sources, 0)
        while any(taken[name] < s.rows.num_rows for name, s in self._sources.items()):
            turn = max(turn + 1, int(np.ceil(self.clock.now / batch_s)))
            self._merge_until(turn * batch_s)
            batch = self._arrived(taken)
            self._step(self._engine.step(self._engine.accept(batch, borrow=True), eager=False))
            self._held = max(self._held, self.spilling.room.held)
        counts = self._counts()
        for step in self._engine.finish():
            self._step(step)
        self._check()
        return Run(np.array(self._curve), {**counts, "end_s": round(self.clock.now, 2)})

    def _merge_until(self, seconds: float) -> None:
        while self.clock.now < seconds:
            if not list(map(self._step, self._engine.before())):
                self.clock.now = seconds

    def _arrived(self, taken: dict[str, int]) -> dict[str, pa.RecordBatch]:
        batch, now = {}, self.clock.now
        for name, source in self._sources.items():
            low, high = taken[name], int(np.searchsorted(source.times, now, side="right"))
            batch[name] = source.rows.slice(low, high - low)
            taken[name] = high
        return batch

    def _step(self, step: Iterator[pa.Table]) -> None:
        began, results = self.clock.now, 0
        for table in step:
            results += table.num_rows
            for name in self._sums:
                self._sums[name] += pc.sum(table.column(f"{name}_{ROW_ID}")).as_py() or 0
        self._worked(results)
        if results:
            so_far = self._curve[-1][1]
            self._curve += [(began, so_far), (self.clock.now, so_far + results)]

    def _check(self) -> None:
        found, wanted = (self._curve[-1][1], self._sums), expected(self._sources)
        if found != wanted:
            raise AssertionError(f"the result is not exact: {found} instead of {wanted}")

    def _worked(self, results: int) -> None:
        """A step is over: what the CPU did takes its time."""
        before, self._done = self._done, (self.spilling.stored, self.spilling.read_rows)
        stored, read = (now - then for now, then in zip(self._done, before, strict=True))
        costs, probes = self._costs, self._engine.probes + read
        seconds = probes * costs.probe_s + (stored + read) * costs.store_s + results * costs.result_s
        self._cpu_s += seconds
        self.clock.move(seconds)

    def _counts(self) -> dict[str, float]:
        """When the last row has been taken."""
        return {
            "input_end_s": round(self.clock.now, 2),
            "results_at_input_end": self._curve[-1][1],
            "flushed_rows": self.spilling.disk.flushed_rows,
            "read_rows": self.spilling.read_rows,
            "merges": self.spilling.phase.merges,
            "peak_bytes": self._held,
            "disk_s": round(self._disk.seconds, 2),
            "cpu_s": round(self._cpu_s, 2),
            "flushes": self._disk.flushes,
            "stored_rows": self.spilling.stored,
        }
