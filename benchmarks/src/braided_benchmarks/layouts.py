"""What a layout costs and saves on Spark: each line is one run of two contenders, batch for batch by turns.

    python -m braided_benchmarks.layouts               # all lines, about fifteen minutes
    python -m braided_benchmarks.layouts grid buckets  # some of them

The contenders of a line join the same rows in one session; one waits while the other has its turn. Times are
medians of all batches but the first three, and both must find as many results.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import braided as bd
from braided.query.errors import InvalidValue
from braided.testing.samples.files import add_file
from braided_benchmarks.lines import Line
from braided_benchmarks.spark_run import session
from braided_benchmarks.spark_times import stages

_WARM = 3  # batches that do not count
_COLUMNS = "k long, m long, ts timestamp, v double"

Rows = Callable[[np.random.Generator, int, int], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """Two ways to run a join, and how much time one may take against the other."""

    work: str
    bar: float
    query: bd.JoinQuery
    rows: int  # a stream and batch
    keys: Rows  # columns k and m of a stream's rows, by its number
    ours: Mapping[str, Any]  # options of the join
    against: Mapping[str, Any]
    stage: bool = False  # whether the stateful stage counts alone


def _streams(count: int, window: str, **options: Any) -> list[bd.Stream]:
    return [
        bd.Stream(f"s{i}", time="ts", window=window, lateness="0 seconds", **options) for i in range(count)
    ]


def _even(keys: int) -> Rows:
    return lambda rng, stream, rows: {"k": rng.integers(0, keys, rows), "m": rng.integers(0, keys, rows)}


def _hot(rng: np.random.Generator, stream: int, rows: int) -> dict[str, Any]:
    """One key in a fifth of the first stream's rows and two of the others': most results are its own."""
    keys = rng.integers(1, 1_000_000, rows)
    keys[: rows // 5 if stream == 0 else 2] = 0
    return {"k": rng.permutation(keys), "m": np.zeros(rows, np.int64)}


def cases() -> dict[str, Case]:
    """All lines."""
    three = _streams(3, "60 seconds")
    one_key = bd.JoinQuery(_streams(3, "60 seconds", key="k"))
    ordered = bd.JoinQuery(
        _streams(3, "60 seconds", key="k"),
        where="s0.v < s1.v and s1.v < s2.v",
        select={"x": "s0.v", "y": "s1.v"},
    )
    two_keys = bd.JoinQuery(three, on=[("s0.k", "s1.k"), ("s1.m", "s2.m")])
    keyless = bd.JoinQuery(_streams(2, "10 seconds"), where="abs(s0.v - s1.v) < 0.000001")
    return {
        "grid": Case(
            "two keys, 3 x 100,000 rows a batch: grid against stages", 0.8, two_keys, 100_000,
            _even(400_000), {"layout": "grid", "buckets": 4}, {"layout": "stages", "buckets": 4},
        ),
        "hot": Case(
            "a key with 90 % of the results: its stateful stage, spread against not spread", 0.7, ordered,
            100_000, _hot, {"hot_keys": {"s0": {0: 2}}, "buckets": 2}, {"hot_keys": "off", "buckets": 2},
            stage=True,
        ),
        "no key": Case(
            "no key, 2 streams: spread over two cores against one bucket", 0.6, keyless, 15_000,
            _even(10), {"buckets": 2}, {"buckets": 1},
        ),
        "buckets": Case(
            "64 buckets against 8, 3 x 50,000 rows a batch", 1.15, one_key, 50_000, _even(200_000),
            {"buckets": 64}, {"buckets": 8},
        ),
    }  # fmt: skip


def main() -> None:
    """Print a line for each case that was asked for, and first what two cores can do here at best."""
    known = cases()
    print(f"half of a loop's work on each of two cores takes {_halved():.2f} of its time here", flush=True)
    with tempfile.TemporaryDirectory(prefix="braided-layouts-") as folder:
        log = Path(folder) / "events"
        spark = session("where", log)
        spark.sparkContext.setLogLevel("OFF")
        chosen = sys.argv[1:] or list(known)
        turns = {name: _turns(spark, known[name], Path(folder) / name) for name in chosen}
        spark.stop()
        seen = stages(next(path for path in log.iterdir() if path.is_file()))
        for name, timed in turns.items():
            print(_line(known[name], timed, seen), flush=True)


def _halved() -> float:
    """How long half of some work takes on two cores at once, against all of it on one.

    Cores that a machine shares, with others or among themselves, give more than a half.
    """
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(_work, [1, 1], chunksize=1)  # both have started
        alone = statistics.median(pool.map(_work, [2], chunksize=1)[0] for _ in range(3))
        both = statistics.median(max(pool.map(_work, [1, 1], chunksize=1)) for _ in range(3))
    return both / alone


def _work(amount: int) -> float:
    began, total = time.perf_counter(), 0
    for i in range(amount * 3_000_000):
        total += i * i
    return time.perf_counter() - began


Times = dict[str, list[dict[str, Any]]]  # Spark's progress by contender


def _turns(spark: SparkSession, case: Case, folder: Path, batches: int = 14) -> Times:
    """Progress of all batches; a contender waits while the other has its turn."""
    rng = np.random.default_rng(7)
    found: dict[str, int] = defaultdict(int)
    ways = {"ours": case.ours, "against": case.against}
    for way, name in itertools.product(ways, case.query.names):
        (folder / way / name).mkdir(parents=True)
    queries = {way: _start(spark, case, options, folder / way, found) for way, options in ways.items()}
    for n in range(batches):
        tables = [_table(case, rng, i, n) for i in range(len(case.query.names))]
        for way in sorted(ways, reverse=bool(n % 2)):
            for name, table in zip(case.query.names, tables, strict=True):
                add_file(folder / way / name, n, table)
            queries[way].processAllAvailable()
    if len(set(found.values())) > 1:
        raise InvalidValue(f"the contenders disagree on the result: {found}")
    progress = {way: [json.loads(p.json) for p in query.recentProgress] for way, query in queries.items()}
    for query in queries.values():
        query.stop()
    return {way: [p for p in of_way if p["numInputRows"]] for way, of_way in progress.items()}


def _table(case: Case, rng: np.random.Generator, stream: int, batch: int) -> pa.Table:
    """Ten seconds of a stream, in order of time."""
    times = np.sort(rng.integers(batch * 10_000_000, (batch + 1) * 10_000_000, case.rows))
    timed = {"ts": pa.array(times, pa.timestamp("us", tz="UTC")), "v": rng.random(case.rows)}
    return pa.table(case.keys(rng, stream, case.rows) | timed)


def _start(
    spark: SparkSession, case: Case, options: Mapping[str, Any], folder: Path, found: dict[str, int]
) -> StreamingQuery:
    def count(df: DataFrame, _: int) -> None:
        found[folder.name] += df.count()

    frames = {
        name: spark.readStream.schema(_COLUMNS).parquet(str(folder / name)) for name in case.query.names
    }
    writer = bd.spark.join(case.query, frames, **options).writeStream.foreachBatch(count)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def _line(case: Case, turns: Times, seen: Mapping[tuple[str, int], Any]) -> Line:
    def median(way: str) -> float:
        timed = turns[way][_WARM:]
        batches = [p["durationMs"]["triggerExecution"] / 1e3 for p in timed]
        joins = [seen[p["runId"], p["batchId"]][1]["seconds"] for p in timed]
        return float(statistics.median(joins if case.stage else batches))

    ours, against = median("ours"), median("against")
    return Line(case.work, ours / against, case.bar, f"{ours:.2f} s", f"{against:.2f} s")


if __name__ == "__main__":
    main()
