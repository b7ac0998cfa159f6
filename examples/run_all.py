"""All examples on Spark, as job files and from Python (`make examples`), with the results of this process.

    python examples/run_all.py [FOLDER]

Rows, results and checkpoints go to FOLDER/<example> (build/examples), which is emptied before.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import braided as bd
from braided import jobs
from braided.jobs import running
from braided.testing import assert_same_bag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
JOBS: dict[str, tuple[str, ...]] = {  # and which query it is, where a script has several
    "ecommerce/job.yaml": ("shipped",),
    "ecommerce/unpaid.yaml": ("unpaid",),
    "ads/job.yaml": ("attributed",),
    "ads/unclicked.yaml": ("unclicked",),
    "sensors/job.yaml": (),
    "news/job.yaml": (),
    "nexmark/q3.yaml": ("q3",),
    "nexmark/q8.yaml": ("q8",),
    "nexmark/job.yaml": ("q23",),
    "nexmark/chain.yaml": ("chain",),
}


def environment(folder: Path) -> dict[str, str]:
    """What the variables of the job files stand for."""
    return {"DATA": str(folder / "data"), "OUT": str(folder / "out")}


def in_process(folder: Path) -> dict[str, pa.Table]:
    """Write the rows of all examples, each in a folder of its own; what is found of them, by job file."""
    found = {}
    for example in dict.fromkeys(Path(name).parent.name for name in JOBS):
        print(f"{example}, in this process")
        shutil.rmtree(folder / example, ignore_errors=True)
        found[example] = importlib.import_module(f"examples.{example}.join").main(folder / example / "data")
    return {
        name: found[Path(name).parent.name][asked[0]] if asked else found[Path(name).parent.name]
        for name, asked in JOBS.items()
    }


def as_job(name: str, folder: Path) -> pa.Table:
    """Run a job file; its results."""
    job = jobs.load(HERE / name, environment(folder / Path(name).parent))
    running.run(job, once=True)
    return pq.read_table(job.sink.path)


def in_python(name: str, folder: Path, spark: SparkSession) -> pa.Table:
    """The same by the example's script; its results."""
    here, asked = folder / Path(name).parent, JOBS[name]
    out = here.joinpath("out", "python", *asked)
    example = importlib.import_module(f"examples.{Path(name).parent.name}.join")
    example.on_spark(spark, here / "data", out, *asked)
    return pq.read_table(out / "results")


def compared(name: str, wanted: pa.Table, run: Callable[..., pa.Table], *given: Any) -> str:
    """Run it; how many results there are and how long it took, in words. Raise if others are wanted."""
    began = time.monotonic()
    found = run(name, *given)
    columns = [column for column in found.column_names if column != "batch"]  # the folder, with two sinks
    wanted = wanted.select(columns)  # a job may write some of them
    assert_same_bag(found.select(columns).cast(wanted.schema), wanted)
    return f"{name:20} {run.__name__:10} {found.num_rows:>8,} results {time.monotonic() - began:6.0f} s"


def main(folder: Path) -> None:
    """Write all rows, run everything, and say how many results there are."""
    wanted = in_process(folder)
    said = [compared(name, wanted[name], as_job, folder) for name in JOBS]
    spark = bd.spark.session("examples")
    said += [compared(name, wanted[name], in_python, folder, spark) for name in JOBS]
    spark.stop()
    print(*said, "all as in this process", sep="\n")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/examples").absolute())
