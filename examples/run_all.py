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

from braided import jobs
from braided.jobs import running

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


def write(folder: Path) -> None:
    """Rows of all examples, each in a folder of its own."""
    for example in dict.fromkeys(Path(name).parent.name for name in JOBS):
        print(f"{example}, in this process")
        shutil.rmtree(folder / example, ignore_errors=True)
        importlib.import_module(f"examples.{example}.join").main(folder / example / "data")


def run(name: str, folder: Path) -> str:
    """Run one job file; how many results there are, in words."""
    job, began = jobs.load(HERE / name, environment(folder / Path(name).parent)), time.monotonic()
    print(f"{name}, on Spark")
    running.run(job, once=True)
    results = pq.read_table(job.sink.path).num_rows
    return f"{name:20} {results:>8,} results {time.monotonic() - began:6.0f} s"


def main(folder: Path) -> None:
    """Write all rows, run all jobs, and say how many results there are."""
    write(folder)
    said = [run(name, folder) for name in JOBS]
    print(*said, sep="\n")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/examples").absolute())
