"""Joins without windows, on Spark: what is left in the state store when keys are punctuated.

Three streams bring new keys in every batch, and a batch later a punctuation for each. After all batches the
live rows are read back from the state store, against all rows seen; beside it what Spark's own chain of two
joins holds, which cannot know that a key is complete.

    python -m braided_benchmarks.forgetting --batches 50
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import braided as bd
from braided.testing.samples.files import add_file

NAMES = ("a", "b", "c")
KEYS, ROWS_A_KEY = 1_000, 3
BAR = 0.05


@dataclass(frozen=True)
class Report:
    """Rows seen, rows live in the state store, and results, of Braided and of the chain."""

    seen: int
    live: int
    results: int
    chain_live: int
    chain_results: int

    def __str__(self) -> str:
        return (
            f"{self.seen:,} rows seen; Braided holds {self.live:,} "
            f"({self.live / self.seen:.1%}, bar {BAR:.0%}), Spark's chain {self.chain_live:,} "
            f"({self.chain_live / self.seen:.1%}); "
            f"{self.results:,} and {self.chain_results:,} results"
        )

    @property
    def reached(self) -> bool:
        """Whether the state is small, and the results are as many as the chain's."""
        return self.live < BAR * self.seen and self.results == self.chain_results


def run(batches: int) -> Report:
    """Join so many files of each stream, both ways."""
    with tempfile.TemporaryDirectory(prefix="braided-forgetting-") as folder:
        root = Path(folder)
        seen = generate(root, batches)
        spark = bd.spark.session("forgetting", **{"spark.ui.enabled": "false"})
        spark.sparkContext.setLogLevel("OFF")
        query = bd.JoinQuery([bd.Stream(n, "k", punctuation="p") for n in NAMES])
        frames = _frames(spark, root)
        _finish(bd.spark.join(query, frames), root / "ours")
        live = sum(bd.spark.inspect_state(str(root / "ours" / "checkpoint")).rows.values())
        data = {n: frame.where("not p").select("k", f"v_{n}") for n, frame in frames.items()}
        progress = _finish(data["a"].join(data["b"], "k").join(data["c"], "k"), root / "chain")
        chain_live = sum(operator["numRowsTotal"] for operator in progress["stateOperators"])
        found = [spark.read.parquet(str(root / n / "out")).count() for n in ("ours", "chain")]
        spark.stop()
    return Report(seen, live, found[0], chain_live, found[1])


def generate(root: Path, batches: int) -> int:
    """Files of new keys, and punctuations of the batch before; how many rows are data."""
    rng = np.random.default_rng(1)
    for batch in range(batches):
        keys = np.arange(batch * KEYS, (batch + 1) * KEYS)
        for name in NAMES:
            data = rng.permutation(np.repeat(keys, ROWS_A_KEY))
            closed = keys - KEYS if batch else keys[:0]
            flags = np.repeat([False, True], [len(data), len(closed)])
            values = pa.array(rng.integers(0, 1 << 40, len(flags)), mask=flags)
            table = pa.table({"k": np.concatenate([data, closed]), f"v_{name}": values, "p": flags})
            (root / name).mkdir(exist_ok=True)
            add_file(root / name, batch, table)
    return batches * KEYS * ROWS_A_KEY * len(NAMES)


def _frames(spark: SparkSession, root: Path) -> dict[str, DataFrame]:
    return {
        n: spark.readStream.schema(f"k long, v_{n} long, p boolean")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(root / n))
        for n in NAMES
    }


def _finish(joined: DataFrame, folder: Path) -> dict[str, Any]:
    """Run to the end of the files; the latest progress."""
    streaming = (
        joined.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"), format="parquet")
    )
    streaming.awaitTermination()
    if streaming.exception() is not None:
        raise RuntimeError(str(streaming.exception()))
    return dict(streaming.lastProgress)  # type: ignore[arg-type]


def main() -> int:
    """Run it and say whether the bar is reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=50)
    report = run(parser.parse_args().batches)
    print(report)
    return 0 if report.reached else 1


if __name__ == "__main__":
    sys.exit(main())
