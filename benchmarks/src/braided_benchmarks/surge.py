"""A burst on Spark in real time: ten times the rows for a minute, and a target batch time is to be kept.

Files of three streams, joined by two keys, come in as time passes, whatever the join does meanwhile; a batch
reads what has come. Probes are rationed, or rows are dropped. Printed are the batch times against the target,
what the budget was, whether every result is right and comes once, and since when none is missing.

    python -m braided_benchmarks.surge --shed probes
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import braided as bd
from braided.policies.statistics import Statistics
from braided.spark.measures import metrics_of
from braided.testing.samples.files import add_file, committed_files
from braided_benchmarks.spark_run import session

COLUMNS = {"a": "k long", "b": "k long, m long", "c": "m long"}
ON = [("a.k", "b.k"), ("b.m", "c.m")]
EPOCH_US = 1_700_000_000_000_000
_COLD = 6  # batches that do not count: Spark starts, kernels are loaded


@dataclass(frozen=True)
class Load:
    """Rows a second of each stream: calm, so many times as many, calm again."""

    rows: int
    times: int
    keys: int
    window_s: int = 6
    before_s: int = 45
    burst_s: int = 60
    after_s: int = 45
    files_a_second: int = 2

    def sizes(self) -> Iterator[int]:
        """Rows of each stream's files."""
        parts = ((self.before_s, 1), (self.burst_s, self.times), (self.after_s, 1))
        for seconds, times in parts:
            yield from itertools.repeat(
                self.rows * times // self.files_a_second, seconds * self.files_a_second
            )

    def burst_us(self) -> tuple[int, int]:
        """When the burst begins and ends, by the times of rows."""
        begin = EPOCH_US + self.before_s * 1_000_000
        return begin, begin + self.burst_s * 1_000_000

    def write(self, folder: Path) -> None:
        """Write all files where nobody reads yet."""
        period_us, rng = 1_000_000 // self.files_a_second, np.random.default_rng(1)
        for (name, columns), (number, rows) in itertools.product(COLUMNS.items(), enumerate(self.sizes())):
            times = EPOCH_US + number * period_us + np.sort(rng.integers(0, period_us, rows))
            table = {"t": pa.array(times, pa.timestamp("us", tz="UTC"))}
            table |= {c.split()[0]: rng.integers(0, self.keys, rows) for c in columns.split(", ")}
            table["id"] = np.arange(rows) + number * self.rows * self.times
            add_file(folder / name, number, pa.table(table))


def feed(waiting: Path, read: Path, load: Load) -> None:
    """Move files to where they are read, as time passes."""
    began = time.monotonic()
    for number, _ in enumerate(load.sizes()):
        time.sleep(max(0.0, began + number / load.files_a_second - time.monotonic()))
        for name in COLUMNS:
            file = f"{number:05d}.parquet"
            (waiting / name / file).rename(read / name / file)


def query(load: Load, overload: bd.Overload | None) -> bd.JoinQuery:
    """Three streams by two keys."""
    window = f"{load.window_s} seconds"
    streams = [bd.Stream(n, time="t", window=window, lateness="0 seconds") for n in COLUMNS]
    return bd.JoinQuery(streams, ON, overload=overload, select={n: f"{n}.id" for n in COLUMNS})


def run(spark: SparkSession, load: Load, overload: bd.Overload, folder: Path) -> list[dict[str, Any]]:
    """Join what comes until all has come; what Spark said of every batch."""
    waiting, read = folder / "waiting", folder / "read"
    load.write(waiting)
    for name in COLUMNS:
        (read / name).mkdir(parents=True)
    frames = {
        n: spark.readStream.schema(f"t timestamp, {columns}, id long").parquet(str(read / n))
        for n, columns in COLUMNS.items()
    }
    checkpoint = str(folder / "checkpoint")
    joined = bd.spark.join(query(load, overload), frames, buckets=4, checkpoint=checkpoint)
    writer = joined.writeStream.format("parquet").option("path", str(folder / "out"))
    streaming = writer.option("checkpointLocation", checkpoint).start()
    feeder = threading.Thread(target=feed, args=(waiting, read, load), daemon=True)
    feeder.start()
    while feeder.is_alive():
        feeder.join(1)
        if streaming.exception() is not None:
            raise SystemExit(f"the query failed: {streaming.exception()}")
    streaming.processAllAvailable()
    told = [json.loads(p.json) for p in streaming.recentProgress if p.numInputRows]
    streaming.stop()
    return told


def seen_of(told: dict[str, Any]) -> Statistics:
    """The join's numbers after a batch."""
    return metrics_of([told], query_id="", active=False)


def check(load: Load, folder: Path, since_us: int | None) -> tuple[int, int, int]:
    """Results that came, of these wrong or doubled, and how many with a time after `since_us` are missing."""
    window = load.window_s * 1_000_000
    near = " and ".join(f"abs(epoch_us({x}.t) - epoch_us({y}.t)) <= {window}" for x, y in ("ab", "bc", "ac"))
    joins = f"from b join a on a.k = b.k join c on c.m = b.m where {near}"
    with duckdb.connect() as db:
        for name in COLUMNS:
            files = [str(p) for p in sorted((folder / "read" / name).glob("*.parquet"))]
            db.sql(f"create table {name} as select * from read_parquet({files!r})")
        out = [str(p) for p in committed_files(folder / "out")]
        db.sql(f"create table found as select a, b, c from read_parquet({out!r})")
        met = "found f join a on a.id = f.a join b on b.id = f.b join c on c.id = f.c"
        came = count(db, "found")
        distinct = count(db, "(select distinct * from found)")
        right = count(db, f"({met}) where a.k = b.k and b.m = c.m and {near}")
        missing = 0
        if since_us is not None:
            late = f"greatest(epoch_us(a.t), epoch_us(b.t), epoch_us(c.t)) > {since_us}"
            wanted = f"select a.id, b.id, c.id {joins} and {late}"
            missing = count(db, f"({wanted} except all select * from found)")
    return came, 2 * came - distinct - right, missing


def count(db: duckdb.DuckDBPyConnection, what: str) -> int:
    """How many rows there are."""
    return int(db.sql(f"select count(*) from {what}").fetchall()[0][0])


def report(load: Load, target_s: float, shed: Any, told: list[dict[str, Any]], folder: Path) -> bool:
    """Print what came of it; whether all is as it should be."""
    begin_us, end_us = load.burst_us()
    seen = [seen_of(t) for t in told]
    newest = [max(s.newest_us or 0 for s in one.streams.values()) for one in seen]
    seconds = [t["durationMs"]["triggerExecution"] / 1e3 for t in told]
    burst = [i for i in range(_COLD, len(told)) if begin_us < newest[i] and (newest[i - 1] < end_us)]
    calm = [i for i in range(_COLD, len(told)) if i not in burst]
    over = [seconds[i] / target_s for i in burst]
    inside = sum(o <= 1.5 for o in over) / len(over)
    again = seen[-1].exact_again
    since_us = newest[again - 1] if shed == "probes" and again else None
    came, wrong, missing = check(load, folder, since_us)
    rows = sum(s.rows_in for s in seen[-1].streams.values())
    dropped = sum(s.shed_rows for s in seen[-1].streams.values())
    budgets = [
        s.rationing.budget for i in burst if (s := seen[i]).rationing and s.rationing.budget is not None
    ]
    print(
        f"shed={shed!r}: {len(calm)} calm batches, {statistics.median(seconds[i] for i in calm):.2f} s; "
        f"{len(burst)} in the burst"
    )
    print(
        f"  batch time / target in the burst: median {statistics.median(over):.2f}, worst {max(over):.2f}, "
        f"within 1.5 in {inside:.0%}"
    )
    if budgets:
        print(
            f"  budget in the burst: {min(budgets):,} to {max(budgets):,}; rows dropped: {dropped / rows:.1%}"
        )
    print(f"  {came:,} results, wrong or doubled: {wrong}")
    if shed == "probes":
        until = "never" if since_us is None else f"{(since_us - end_us) / 1e6:+.1f} s of the burst's end"
        print(f"  exact again since {until}; missing from there: {missing}", flush=True)
    print("  times: " + " ".join(f"{s:.1f}" for s in seconds), flush=True)
    return inside >= 0.95 and not wrong and not missing and (shed == "input" or since_us is not None)


def main() -> None:
    """From the command line."""
    options = argparse.ArgumentParser(
        description="Ten times the rows for a minute; does a batch still end in time?"
    )
    options.add_argument("--shed", default="probes", choices=("probes", "input"))
    options.add_argument("--target", type=float, default=2.0, help="seconds")
    options.add_argument("--rows", type=int, default=1_000, help="a second, of each stream, when it is calm")
    options.add_argument("--times", type=int, default=10)
    options.add_argument("--keys", type=int, default=6_000)
    given = options.parse_args()
    load = Load(given.rows, given.times, given.keys)
    overload = bd.Overload(target_batch=f"{given.target} seconds", shed=given.shed)
    with tempfile.TemporaryDirectory(prefix="braided-surge-") as name:
        spark = session("braided")
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
        spark.sparkContext.setLogLevel("OFF")
        told = run(spark, load, overload, Path(name))
        good = report(load, given.target, given.shed, told, Path(name))
        spark.stop()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
