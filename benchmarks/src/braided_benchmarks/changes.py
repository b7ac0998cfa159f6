"""Change a running join again and again, and kill it; at the end nothing may be missing or doubled.

A child process runs a streaming join of three streams into Parquet files, phase by phase: each phase has more
files, and a query that differs from the last in its windows, `within`, `where`, lateness, plan, buckets,
layout or hot keys. A phase ends when all files are joined, or when the query is stopped somewhere. Where that
leaves a batch pending, the child asks for the next query all the same: this is refused (or nothing differs
that matters to the batch), then the batch is finished by the old query. The child is killed (with its JVM)
at random moments, and workers may kill themselves in mid-task.

The truth is DuckDB's, epoch by epoch: a result belongs to the query in whose epoch its oldest row lies. When
all old epochs have passed, the checkpoint must hold what a new one holds after the same last files.

    python -m braided_benchmarks.changes --changes 20 --kills 12 --seed 1 --suicide
    python -m braided_benchmarks.changes --changes 20 --kills 12 --seed 2 --suicide --keys 2
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq

import braided as bd
from braided.testing.samples.files import committed_files
from braided_benchmarks.changes_work import (
    COLUMNS,
    PASSING,
    SCHEMAS,
    Epoch,
    Variant,
    by_epochs,
    files,
    generate,
    variants,
)
from braided_benchmarks.chaos_child import NO_TROUBLE, Trouble, session, streams, troubled
from braided_benchmarks.chaos_work import LAST_KEY
from braided_benchmarks.children import committed, logged, start_child, to_the_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_UNFINISHED = "has not been finished"  # what a refusal must say


@dataclass(frozen=True)
class State:
    """What a checkpoint holds at the end."""

    epochs: int
    results: int
    rows: dict[str, int]


@dataclass(frozen=True)
class Report:
    """What came out of a campaign."""

    changes: int
    kills: int
    starts: int
    refused: int
    epochs: int
    expected: int
    missing: int
    doubled: int
    seconds: float
    state: State
    control: State

    @property
    def right(self) -> bool:
        """Whether the sink and the state hold what they should."""
        same = self.state.rows == self.control.rows and self.state.epochs == self.control.epochs == 1
        return self.missing == self.doubled == 0 and same and self.state.results == self.expected

    def __str__(self) -> str:
        live, wanted = (sum(state.rows.values()) for state in (self.state, self.control))
        return (
            f"{self.changes} changes, {self.epochs} epochs, {self.refused} refused for a pending batch, "
            f"{self.kills} kills, {self.starts} starts of the join, {self.seconds:.0f} s: "
            f"{self.expected:,} results expected, missing {self.missing}, doubled {self.doubled}, "
            f"{self.state.results:,} counted; {self.state.epochs} epoch left, "
            f"live {live:,} rows, {wanted:,} expected"
        )


def campaign(
    root: Path,
    *,
    changes: int,
    kills: int,
    seed: int,
    keys: int = 1,
    trouble: Trouble = NO_TROUBLE,
    master: str = "local[2,4]",
) -> Report:
    """Generate input, run, change and kill until everything is joined, compare."""
    began, rng = time.perf_counter(), random.Random(seed)
    queries = variants(changes, seed, keys)
    ends = generate(root / "coming", len(queries), seed)
    (root / "ends").write_text(json.dumps(ends))
    command = ["-m", "braided_benchmarks.changes", "--child", str(root), "--master", master, *trouble.flags]
    command += ["--changes", str(changes), "--seed", str(seed), "--keys", str(keys)]

    def until(child: Popen[bytes], *, kill: bool) -> None:
        target = committed(root) + rng.randint(1, max(1, 2 * ends[-1] // (kills + 1)))
        while kill and child.poll() is None and committed(root) < target:
            time.sleep(0.05)
        if kill:
            time.sleep(rng.uniform(0, 3))

    log = root / "child.log"
    done = to_the_end(lambda: start_child(command, log), log, kills, until)
    notes = Notes(root).read()
    epochs = [Epoch(since, queries[phase]) for _, (since, phase) in sorted(notes.epochs.items())]
    missing, doubled, expected = compare(root, epochs)
    states = [State(**json.loads((root / name).read_text())) for name in ("state", "control-state")]
    seconds = time.perf_counter() - began
    return Report(
        changes, done, notes.starts, notes.refused, len(epochs), expected, missing, doubled, seconds, *states
    )


def compare(root: Path, epochs: list[Epoch]) -> tuple[int, int, int]:
    """Missing and doubled rows against DuckDB, and how many there should be."""
    got: Counter[Any] = Counter()
    for path in committed_files(root / "out"):
        table = pq.read_table(path, columns=list(COLUMNS))
        got.update(zip(*(table[c].to_pylist() for c in COLUMNS), strict=True))
    with duckdb.connect() as db:
        for name in SCHEMAS:
            db.register(name, pq.read_table(root / name))
        wanted = Counter(db.sql(by_epochs(epochs)).fetchall())
    return (wanted - got).total(), (got - wanted).total(), wanted.total()


class Notes:
    """What children leave behind: the phase they were in, the epochs they saw, refusals, starts.

    An epoch is noted before each start, because a start drops those that have passed.
    """

    def __init__(self, root: Path) -> None:
        self._file = root / "notes"
        self.phase = self.starts = self.refused = 0
        self.epochs: dict[int, tuple[int | None, int]] = {}  # by number: since when, and in which phase

    def read(self) -> Notes:
        """All that was noted."""
        for line in self._file.read_text().splitlines() if self._file.exists() else ():
            note = json.loads(line)
            self.phase = note.get("phase", self.phase)
            self.starts += note.get("start", 0)
            self.refused += "refused" in note
            for number, since_us in note.get("epochs", ()):
                self.epochs.setdefault(number, (since_us, self.phase))
        return self

    def add(self, **note: Any) -> None:
        """One note more, in one write: a killed child leaves no part of a line."""
        self.phase = note.get("phase", self.phase)
        with self._file.open("ab", buffering=0) as file:
            file.write(json.dumps(note).encode() + b"\n")


@dataclass
class Child:
    """Runs the phases from the one that was begun."""

    root: Path
    spark: SparkSession
    queries: list[Variant]
    trouble: Trouble
    rng: random.Random

    def __post_init__(self) -> None:
        self.notes = Notes(self.root).read()
        self.ends: list[int] = json.loads((self.root / "ends").read_text())

    @property
    def checkpoint(self) -> str:
        """Where the query keeps what it knows."""
        return str(self.root / "checkpoint")

    @property
    def pending(self) -> bool:
        """Whether a batch is logged and not committed."""
        return logged(self.root, "offsets") > committed(self.root)

    def run(self) -> None:
        """All phases that are left, then the control."""
        self.note_epochs()
        if self.pending and self.rng.random() < 0.5:  # a batch of the child that was killed
            self.ask_for_the_next()
        while True:
            phase = self.notes.phase
            self.let_come(self.ends[phase])
            drained = phase >= len(self.queries) - 3 or self.rng.random() < 0.5
            self.start(stop=not drained)
            if phase == len(self.queries) - 1:
                break
            self.change()
        (self.root / "state").write_text(json.dumps(asdict(self.state(self.checkpoint))))
        (self.root / "control-state").write_text(json.dumps(asdict(self.control())))

    def change(self) -> None:
        """Go to the next phase; a batch that is pending is finished first, if it matters."""
        while self.pending and not self.ask_for_the_next():
            self.start(once=True)
        if not self.pending:
            self.notes.add(phase=self.notes.phase + 1)

    def ask_for_the_next(self) -> bool:
        """Ask for the next phase's query while a batch is pending; if that is granted, the phase begins."""
        phase = self.notes.phase + 1
        if phase == len(self.queries):
            return False
        try:
            self.join(self.queries[phase])
        except bd.BraidedError as refused:
            if _UNFINISHED not in str(refused):
                raise
            self.notes.add(refused=str(refused))
            return False
        self.notes.add(phase=phase)
        return True

    def join(self, variant: Variant) -> DataFrame:
        """The join, going on with the checkpoint."""
        frames = streams(self.spark, self.root, SCHEMAS)
        options = variant.options()
        joined: DataFrame = bd.spark.join(variant.query(), frames, resume=self.checkpoint, **options)
        return joined

    def start(self, *, stop: bool = False, once: bool = False) -> None:
        """Run the phase's query to the end of its files, or stop it somewhere, or run the pending batch."""
        joined = self.join(self.queries[self.notes.phase])
        self.notes.add(start=1, of=self.notes.phase, batch=committed(self.root))
        if self.trouble.flags:
            joined = joined.mapInArrow(troubled(self.root, self.trouble), joined.schema)
        writer = joined.writeStream.format("parquet").option("path", str(self.root / "out"))
        writer = writer.option("checkpointLocation", self.checkpoint)
        trigger = writer.trigger(once=True) if once else writer.trigger(availableNow=True)
        streaming = trigger.start()
        if stop:
            self.stop_somewhere(streaming)
        streaming.awaitTermination()
        self.note_epochs()

    def stop_somewhere(self, streaming: StreamingQuery) -> None:
        """Stop a query after some batches, most often in the middle of one."""
        target = committed(self.root) + self.rng.randint(0, 4)
        while streaming.isActive and committed(self.root) < target:
            time.sleep(0.05)
        time.sleep(self.rng.uniform(0, 1.5))
        streaming.stop()

    def note_epochs(self) -> None:
        """What the checkpoint knows now belongs to the phase that ran, or to an earlier one."""
        if committed(self.root):
            epochs = bd.spark.inspect_state(self.checkpoint).epochs
            self.notes.add(epochs=[(epoch.number, epoch.since_us) for epoch in epochs])

    def let_come(self, before: int) -> None:
        """Move files to where the streams are read."""
        for name, path in files(self.root / "coming", before):
            (self.root / name).mkdir(exist_ok=True)
            path.rename(self.root / name / path.name)

    def state(self, checkpoint: str) -> State:
        """What a checkpoint holds."""
        found = bd.spark.inspect_state(checkpoint)
        return State(len(found.epochs), found.results, found.rows)

    def control(self) -> State:
        """What a new checkpoint holds after the last files alone: older rows are in no window any more."""
        folder, variant = self.root / "control", self.queries[-1]
        for name, path in files(self.root, self.ends[-1], self.ends[-1] - PASSING):
            (folder / name).mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, folder / name / path.name)
        frames = streams(self.spark, folder, SCHEMAS)
        joined = bd.spark.join(variant.query(), frames, **variant.options())
        writer = joined.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        return self.state(str(folder / "checkpoint"))


def child(root: Path, master: str, queries: list[Variant], trouble: Trouble, seed: int) -> None:
    """Run what is left of a campaign."""
    spark = session(master)
    starts = Notes(root).read().starts
    Child(root, spark, queries, trouble, random.Random(f"{seed} {starts}")).run()
    spark.stop()


def main() -> None:
    """The campaign, from the command line."""
    options = argparse.ArgumentParser(description="Change a running join; nothing may be missing or doubled.")
    options.add_argument("--changes", type=int, default=20)
    options.add_argument("--kills", type=int, default=12)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--keys", type=int, choices=LAST_KEY, default=1, help="two make a grid")
    options.add_argument("--suicide", action="store_true", help="workers kill themselves, too")
    options.add_argument("--master", default="local[2,4]", help="Spark's master")
    options.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    trouble = Trouble(given.suicide)
    if given.child is not None:
        queries = variants(given.changes, given.seed, given.keys)
        child(given.child, given.master, queries, trouble, given.seed)
        return
    run = functools.partial(campaign, changes=given.changes, kills=given.kills, seed=given.seed)
    with tempfile.TemporaryDirectory(prefix="braided-changes-") as folder:
        report = run(Path(folder), keys=given.keys, trouble=trouble, master=given.master)
    print(report)
    sys.exit(0 if report.right else 1)


if __name__ == "__main__":
    main()
