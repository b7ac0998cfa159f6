"""Driver-stream policies side by side: what a batch costs under each, as a ratio to the default's.

Three streams with a window of five batches. *Fan-out* f: a row meets f rows of each partner on average (the
geometric mean over streams), so f squared results; `rare` is 0.1, `low` 1, `high` 5. *Rates* are equal, or
1 : 10 : 100. In every round all policies join the same rows by turns, and each is compared with the default
of the same round: the median of rounds, and the least and the most.

    python -m braided_benchmarks.drivers            # CPU seconds of LocalJoin.push
    python -m braided_benchmarks.drivers --spark    # through bd.spark.join: a micro-batch, and its engines
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa

import braided as bd
from braided.query.tuning import DriverStream
from braided.testing.samples.files import add_file

NAMES = ("a", "b", "c")
POLICIES: tuple[str, ...] = get_args(DriverStream)
DEFAULT = bd.Tuning().driver_stream
FAN_OUTS = {"rare": 0.1, "low": 1.0, "high": 5.0}
RATES = {"equal": (1, 1, 1), "1:10:100": (1, 10, 100)}
WINDOW_BATCHES = 5
SPARK_BATCHES = 4  # measured, once the window is full
_MICROSECONDS = 1_000_000  # a batch lasts a second
_SMALL = 20_000  # rows of a batch up to which many are measured
_SCHEMA = "k long, t timestamp, v double"

Tables = list[dict[str, pa.Table]]


@dataclass(frozen=True)
class Work:
    """What is joined: rows of a batch in all, how many of each partner a row meets, and at which rates."""

    rows: int
    fan_out: str
    rates: str

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.fan_out} fan-out, {self.rates}"

    def batches(self, number: int, seed: int) -> Tables:
        """Draw keys at random, at steady rates."""
        rng, rates = np.random.default_rng(seed), RATES[self.rates]
        sizes = [max(1, self.rows * rate // sum(rates)) for rate in rates]
        stored = math.prod(WINDOW_BATCHES * size for size in sizes) ** (1 / len(sizes))
        keys = max(1, round(stored / FAN_OUTS[self.fan_out]))
        return [
            {name: _table(rng, size, keys, n) for name, size in zip(NAMES, sizes, strict=True)}
            for n in range(number)
        ]


def _table(rng: np.random.Generator, rows: int, keys: int, batch: int) -> pa.Table:
    times = batch * _MICROSECONDS + np.sort(rng.integers(0, _MICROSECONDS, rows))
    at = pa.array(times, pa.timestamp("us", tz="UTC"))
    return pa.table({"k": rng.integers(0, keys, rows), "t": at, "v": rng.random(rows)})


def query(policy: str) -> bd.JoinQuery:
    """Three streams on one key."""
    window = f"{WINDOW_BATCHES} seconds"
    streams = [bd.Stream(n, key="k", time="t", window=window, lateness="0 seconds") for n in NAMES]
    return bd.JoinQuery(streams, tuning=bd.Tuning(policy))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Ratio:
    """Seconds of a policy against the default's: the median of rounds, the least, and the most."""

    middle: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.least:.2f} to {self.most:.2f})"


Seconds = Mapping[str, Sequence[float]]  # by policy, one number a round
Table = dict[Work, dict[str, Ratio]]


def ratios(seconds: Seconds) -> dict[str, Ratio]:
    """Compare every policy with the default, round by round."""
    found = {}
    for policy, own in seconds.items():
        each = [ours / base for ours, base in zip(own, seconds[DEFAULT], strict=True)]
        found[policy] = Ratio(statistics.median(each), min(each), max(each))
    return found


def in_process(work: Work, rounds: int, seed: int = 1) -> dict[str, list[float]]:
    """CPU seconds of a batch once the window is full, by policy and round; all take turns in every batch."""
    measured = WINDOW_BATCHES if work.rows > _SMALL else 8 * WINDOW_BATCHES
    seconds: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    for turn in range(rounds):
        lives = {policy: bd.LocalJoin(query(policy)) for policy in POLICIES}
        taken: dict[str, list[float]] = {policy: [] for policy in POLICIES}
        for n, batch in enumerate(work.batches(WINDOW_BATCHES + measured, seed + turn)):
            for policy in _rotated(turn + n):
                began = time.process_time()
                lives[policy].push(batch)
                taken[policy].append(time.process_time() - began)
        for policy, of_batches in taken.items():
            seconds[policy].append(statistics.median(of_batches[WINDOW_BATCHES:]))
        _agree(work, {live.stats().results for live in lives.values()})
    return seconds


def on_spark(spark: Any, work: Work, rounds: int, seed: int = 1) -> tuple[Any, Any]:
    """Seconds of a micro-batch once the window is full, and of all engines in it, by policy and round."""
    number = WINDOW_BATCHES + SPARK_BATCHES
    whole: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    engines: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    for turn in range(rounds):
        with tempfile.TemporaryDirectory(prefix="braided-drivers-") as folder:
            for n, batch in enumerate(work.batches(number, seed + turn)):
                for name, table in batch.items():
                    add_file(Path(folder) / name, n, table)
            counted = set()
            for policy in _rotated(turn):
                records = _stream(spark, Path(folder), policy)[-SPARK_BATCHES:]
                whole[policy].append(statistics.median(r.seconds for r in records))
                engines[policy].append(statistics.median(r.numbers["engine_seconds"] for r in records))
                counted.add(records[-1].total_results)
            _agree(work, counted)
    return whole, engines


def _stream(spark: Any, folder: Path, policy: str) -> list[Any]:
    from braided.view import Journal, follow  # noqa: PLC0415

    read = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
    joined = bd.spark.join(query(policy), {n: read.parquet(str(folder / n)) for n in NAMES}, buckets=2)
    writer = joined.writeStream.format("noop").option("checkpointLocation", str(folder / f"at-{policy}"))
    streaming = writer.trigger(availableNow=True).start()
    journal = folder / f"{policy}.jsonl"
    follow(streaming, journal=journal, show=lambda *_: None, every=0.2)
    if (failed := streaming.exception()) is not None:
        raise RuntimeError(str(failed))
    return [record for record in Journal(journal).read() if record.rows]


def _rotated(turn: int) -> tuple[str, ...]:
    turn %= len(POLICIES)
    return POLICIES[turn:] + POLICIES[:turn]


def _agree(work: Work, counted: set[int]) -> None:
    if len(counted) != 1:
        raise AssertionError(f"policies disagree on the results of {work}: {counted}")


def lines(title: str, table: Table, seconds: Mapping[Work, float]) -> Iterator[str]:
    """The ratios as Markdown; last the geometric mean over all work, and the worst."""
    yield f"| {title} | seconds, {DEFAULT} | {' | '.join(POLICIES)} |"
    yield "| --- " * (len(POLICIES) + 2) + "|"
    for work, found in table.items():
        yield f"| {work} | {seconds[work]:.4f} | {' | '.join(str(found[p]) for p in POLICIES)} |"
    for name, of in (("geometric mean", statistics.geometric_mean), ("worst", max)):
        summed = [of([found[p].middle for found in table.values()]) for p in POLICIES]
        yield f"| {name} | | {' | '.join(f'{value:.3f}' for value in summed)} |"


def local(works: Sequence[Work], rounds: int, say: Callable[[str], object]) -> None:
    """Print the table of this process."""
    in_process(Work(300, "high", "equal"), 1)  # compiled
    table: Table = {}
    seconds = {}
    for work in works:
        found = in_process(work, rounds)
        table[work], seconds[work] = ratios(found), statistics.median(found[DEFAULT])
    for line in lines("in this process: CPU time of a batch", table, seconds):
        say(line)


def spark(works: Sequence[Work], rounds: int, say: Callable[[str], object]) -> None:
    """Print the tables of Spark."""
    settings = {"spark.ui.enabled": "false", "spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    session = bd.spark.session("drivers", **settings)
    session.sparkContext.setLogLevel("OFF")
    kinds = ("micro-batch", "engines")
    tables: dict[str, Table] = {kind: {} for kind in kinds}
    seconds: dict[str, dict[Work, float]] = {kind: {} for kind in kinds}
    try:
        on_spark(session, Work(300, "low", "equal"), 1)  # warm
        for work in works:
            for kind, found in zip(kinds, on_spark(session, work, rounds), strict=True):
                tables[kind][work], seconds[kind][work] = ratios(found), statistics.median(found[DEFAULT])
    finally:
        session.stop()
    for kind in kinds:
        for line in lines(f"on Spark: {kind}", tables[kind], seconds[kind]):
            say(line)
        say("")


_IN_PROCESS = local, 5, (300, 3_000, 30_000), tuple(FAN_OUTS)
_ON_SPARK = spark, 3, (3_000, 100_000), ("low", "high")


def main(arguments: list[str] | None = None, say: Callable[[str], object] = print) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spark", action="store_true", help="through bd.spark.join")
    parser.add_argument("--rounds", type=int, help="5, on Spark 3")
    parser.add_argument("--rows", type=int, nargs="+", help="rows of a batch, all streams together")
    parser.add_argument("--fan-outs", nargs="+", choices=FAN_OUTS, help="all; on Spark low and high")
    parser.add_argument("--rates", nargs="+", choices=RATES, default=list(RATES), help="both")
    options = parser.parse_args(arguments)
    run, rounds, rows, fan_outs = _ON_SPARK if options.spark else _IN_PROCESS
    asked = options.rows or rows, options.fan_outs or fan_outs, options.rates
    run([Work(*of) for of in itertools.product(*asked)], options.rounds or rounds, say)
    return 0


if __name__ == "__main__":
    sys.exit(main())
