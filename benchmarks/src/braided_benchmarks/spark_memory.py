"""The same on Spark: a join whose state is ten times its memory budget, and what its Python workers take.

Each run is a session of its own. Two things are looked at all the time: the memory of the largest worker
(PSS, with the files of the live engine that it has mapped), compared with a run that has hardly any rows; and
how large the files of all live engines are, which is what the limit is for.

    python -m braided_benchmarks.spark_memory --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from braided.testing.samples.files import add_file
from braided_benchmarks.memory import NAMES, pss, random_tables

BATCHES = 20
FEW = 2_000  # rows of a stream in the run that shows what workers take anyway
_REST_S = 0.05
_ROW_BYTES = 24 + 40  # three columns, and what a side keeps of a row


def run(folder: Path, limit: int | None, defer: bool) -> dict[str, Any]:
    """Join the files of a folder in this process's own Spark."""
    import braided as bd  # noqa: PLC0415
    from braided.spark.storage.folders import application_folder  # noqa: PLC0415

    out = folder / f"out-{limit}-{defer}"
    spark = bd.spark.session("memory", **{"spark.ui.enabled": "false", "spark.master": "local[2]"})
    spark.sparkContext.setLogLevel("OFF")
    frames = {
        n: spark.readStream.schema("k long, v long, w double")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / n))
        for n in NAMES
    }
    memory = bd.Memory(limit, defer=defer) if limit else None
    query = bd.JoinQuery([bd.Stream(n, "k", window="unbounded") for n in NAMES], memory=memory)
    peak, over = [0, 0], threading.Event()
    engines = application_folder(spark.sparkContext.applicationId).path
    watcher = threading.Thread(target=_watch, args=(over, peak, engines), daemon=True)
    watcher.start()
    began = time.perf_counter()
    writer = bd.spark.join(query, frames).writeStream.format("parquet").option("path", str(out / "rows"))
    streaming = (
        writer.option("checkpointLocation", str(out / "checkpoint")).trigger(availableNow=True).start()
    )
    streaming.awaitTermination()
    seconds, seen = time.perf_counter() - began, bd.spark.metrics(streaming)
    results = spark.read.parquet(str(out / "rows")).count()
    if memory is not None and memory.defer:
        results += bd.spark.finish(str(out / "checkpoint")).count()
    over.set()
    watcher.join()
    cold = sum(s.spilled_rows for s in seen.streams.values())
    whole = time.perf_counter() - began
    spark.stop()
    times = {"seconds": seconds, "whole": whole}
    return {**times, "worker": peak[0], "files": peak[1], "results": results, "cold": cold}


def _watch(over: threading.Event, peak: list[int], engines: Path) -> None:
    while not over.wait(_REST_S):
        peak[0] = max(peak[0], *map(pss, _workers()), 0)
        peak[1] = max(peak[1], sum(_size(path) for path in engines.rglob("*")))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # gone meanwhile
        return 0


def _workers() -> list[int]:
    """The Python processes below this one's Java."""
    parents, found = {}, []
    for process in Path("/proc").iterdir():
        try:
            name, rest = (process / "stat").read_text().rsplit(")", 1)
            parents[int(process.name)] = (int(rest.split()[1]), "python" in name)
        except (OSError, ValueError, IndexError):
            continue
    for pid, (parent, python) in parents.items():
        at = parent
        while python and at in parents:
            if at == os.getpid():
                found.append(pid)
            at = parents[at][0]
    return found


def _child(folder: Path, limit: int | None, defer: bool) -> dict[str, Any]:
    asked = json.dumps([str(folder), limit, defer])
    command = [sys.executable, "-m", "braided_benchmarks.spark_memory", "--child", asked]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _write(folder: Path, tables: dict[str, pa.Table]) -> int:
    """A file for each batch; a batch's bytes."""
    for name, table in tables.items():
        step = table.num_rows // BATCHES
        for n in range(BATCHES):
            add_file(folder / name, n, table.slice(n * step, step))
    return int(sum(t.nbytes for t in tables.values())) // BATCHES


def main() -> int:
    """Compare three runs with one that has hardly any rows."""
    parser = argparse.ArgumentParser(description="A join on Spark whose state is ten times its budget.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each of three streams")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, limit, defer = json.loads(options.child)
        print(json.dumps(run(Path(folder), limit, defer)))
        return 0
    limit = len(NAMES) * options.rows * _ROW_BYTES // 10
    with tempfile.TemporaryDirectory(prefix="braided-memory-") as folder:
        root = Path(folder)
        _write(root / "few", random_tables(FEW))
        batch = _write(root / "many", random_tables(options.rows))
        few = _child(root / "few", None, False)
        runs = {
            "no limit": _child(root / "many", None, False),
            "defer=True": _child(root / "many", limit, True),
            "defer=False": _child(root / "many", limit, False),
        }
    whole, most = runs["no limit"], 1.5 * limit + batch
    print(f"limit {limit / 1e6:.1f} MB; a worker with hardly any rows {few['worker'] / 1e6:.0f} MB")
    reached = True
    for name, found in runs.items():
        grown = found["worker"] - few["worker"]
        same = found["results"] == whole["results"]
        reached &= same and (found is whole or grown <= most)
        print(
            f"{name}: {found['seconds']:.1f} s ({found['seconds'] / whole['seconds']:.2f}), with the rest "
            f"{found['whole']:.1f} s; the largest worker grew by {grown / 1e6:.1f} MB (1.5 x limit + one "
            f"batch: {most / 1e6:.1f} MB), live engines took {found['files'] / 1e6:.1f} MB; "
            f"{found['cold']:,} rows cold; {found['results']:,} results"
            f"{'' if same else ', NOT the same'}"
        )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
