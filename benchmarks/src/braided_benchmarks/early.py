"""Early results on Spark: when the k-th result comes, with a memory budget in all its modes, and by Spark.

Three streams without windows whose state is many times the budget; a file of each in every batch, then the
sources are silent. Every result tells which batch brought its last row, so it is known how long it was owed.

    python -m braided_benchmarks.early --rows 200000 --within 15
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from braided.testing.samples.files import add_file

NAMES = ("a", "b", "c")
BATCHES = 20
SHARES = (0.01, 0.1, 0.5, 0.9, 1.0)
_ROW_BYTES = 24 + 40  # three columns, and what a side keeps of a row
_IN_TIME = 0.95  # of the owed results
_REST_S = 0.5

Found = list[
    tuple[float, dict[int, int]]
]  # when a batch was over, and its results by the batch of their last row


def write(folder: Path, rows: int) -> None:
    """Keys that come back for a while: every batch moves on by a sixth of the keys it draws from."""
    rng = np.random.default_rng(1)
    step = rows // BATCHES
    for name in NAMES:
        for n in range(BATCHES):
            keys = rng.integers(n * step // 3, n * step // 3 + 2 * step, step)
            columns = {"k": keys, "n": np.full(step, n), "w": rng.random(step)}
            add_file(folder / name, n, pa.table(columns))


def run(folder: Path, kind: str, limit: int, within: float) -> dict[str, Any]:
    """Join the files of a folder in this process's own Spark until all results are there."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    import braided as bd  # noqa: PLC0415

    spark = bd.spark.session("early", **{"spark.ui.enabled": "false", "spark.master": "local[2]"})
    spark.sparkContext.setLogLevel("OFF")
    spark.conf.set("spark.sql.shuffle.partitions", 8)
    read = spark.readStream.schema("k long, n long, w double").option("maxFilesPerTrigger", 1)
    frames = {n: read.parquet(str(folder / n)) for n in NAMES}
    memory = {
        "no limit": None,
        "default": bd.Memory(limit),
        "defer": bd.Memory(limit, defer=True),
        "owed_within": bd.Memory(limit, owed_within=f"{within:g} seconds"),
    }
    if kind == "Spark's joins":
        a, b, c = (f.select("k", F.col("n").alias(f"{n}_n")) for n, f in frames.items())
        joined = a.join(b, "k").join(c, "k")
    else:
        query = bd.JoinQuery([bd.Stream(n, "k", window="unbounded") for n in NAMES], memory=memory[kind])
        joined = bd.spark.join(query, frames)
    found: Found = []

    def take(batch: Any, _: int) -> None:
        newest = F.greatest(*(f"{n}_n" for n in NAMES)).alias("n")
        counts = {row["n"]: row["count"] for row in batch.groupBy(newest).count().collect()}
        found.append((time.time(), counts))

    began = time.time()
    writer = joined.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / f"at {kind}"))
    streaming = writer.start()
    _wait(streaming, found, within)
    streaming.stop()
    spark.stop()
    return {"began": began, "found": found}


def _wait(streaming: Any, found: Found, within: float) -> None:
    """Until nothing has come for as long as anything may take."""
    latest = time.time()
    count = 0
    while streaming.isActive and time.time() < latest + 2 * within + 10:
        time.sleep(_REST_S)
        if (now := sum(sum(counts.values()) for _, counts in found)) > count:
            latest, count = time.time(), now
    if failed := streaming.exception():
        raise failed


def measured(made: dict[str, Any]) -> tuple[list[float], Any, int]:
    """When shares of all results were there, how long each result was owed, and how many there are."""
    found: Found = [(at, {int(n): c for n, c in counts.items()}) for at, counts in made["found"]]
    ends = [at for at, _ in found]  # batch n reads file n
    total = np.cumsum([sum(counts.values()) for _, counts in found])
    at = [ends[int(np.searchsorted(total, share * total[-1]))] - made["began"] for share in SHARES]
    delays = [(end - ends[n], count) for end, counts in found for n, count in counts.items()]
    owed = np.repeat([d for d, _ in delays], [c for _, c in delays])
    return at, owed[owed > 0], int(total[-1])


def _child(folder: Path, *asked: Any) -> dict[str, Any]:
    command = [sys.executable, "-m", "braided_benchmarks.early", "--child", json.dumps([str(folder), *asked])]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(say: Callable[[str], object] = print) -> int:
    """One run of each kind."""
    parser = argparse.ArgumentParser(description="When the k-th result comes, on Spark.")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of each of three streams")
    parser.add_argument("--within", type=float, default=15.0, help="seconds that owed results may wait")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, kind, limit, within = json.loads(options.child)
        print(json.dumps(run(Path(folder), kind, limit, within)))
        return 0
    limit = len(NAMES) * options.rows * _ROW_BYTES // 10
    kinds = ("no limit", "default", "defer", "owed_within", "Spark's joins")
    totals, kept = set(), True
    with tempfile.TemporaryDirectory(prefix="braided-early-") as folder:
        write(Path(folder), options.rows)
        for kind in kinds:
            at, owed, total = measured(_child(Path(folder), kind, limit, options.within))
            totals.add(total)
            when = ", ".join(f"{share:.0%} at {s:.1f} s" for share, s in zip(SHARES, at, strict=True))
            late = ""
            if len(owed):
                in_time = float((owed <= options.within).mean())
                kept &= kind != "owed_within" or in_time >= _IN_TIME
                late = (
                    f"; {len(owed) / total:.0%} were owed, {in_time:.1%} of them within {options.within:g} s"
                )
                late += f", the last after {owed.max():.1f} s"
            say(f"{kind}: {total:,} results, {when}{late}")
    say(f"the same results: {len(totals) == 1}; {_IN_TIME:.0%} in time: {kept}")
    return 0 if len(totals) == 1 and kept else 1


if __name__ == "__main__":
    sys.exit(main())
