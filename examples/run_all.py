"""All job files of the examples on Spark, one after the other; how many results each has (`make examples`).

    python examples/run_all.py [FOLDER]

Rows, results and checkpoints go to FOLDER/<example> (build/examples), which is emptied before.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

HERE = Path(__file__).parent
JOBS = (
    "ecommerce/job.yaml",
    "ads/job.yaml",
    "sensors/job.yaml",
    "news/job.yaml",
    "nexmark/job.yaml",
    "nexmark/chain.yaml",
)


def environment(folder: Path) -> dict[str, str]:
    """What the variables of the job files stand for."""
    return {"DATA": str(folder / "data"), "OUT": str(folder / "out")}


def main(folder: Path) -> None:
    """Write the rows of each example, run its jobs, and say how many results there are."""
    jobs, running = importlib.import_module("braided.jobs"), importlib.import_module("braided.jobs.running")
    spark = importlib.import_module("braided.spark").session("examples")
    spark.sparkContext.setLogLevel("OFF")
    said = []
    for name in JOBS:
        place = folder / Path(name).parent
        if place not in {folder / Path(done).parent for done, *_ in said}:
            shutil.rmtree(place, ignore_errors=True)
            importlib.import_module(f"examples.{Path(name).parent}.join").main(place / "data")
        job, began = jobs.load(HERE / name, environment(place)), time.monotonic()
        running.run(job, once=True, session=spark)
        said.append((name, pq.read_table(job.sink.path).num_rows, time.monotonic() - began))
    spark.stop()
    for name, results, seconds in said:
        print(f"{name:20} {results:>8,} results {seconds:6.0f} s")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/examples").absolute())
