"""The Spark benchmark: Braided and Spark's own chain of joins on the same files, in one run.

Each contender runs in a fresh process. Steady state is the median of all batches but the first two.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from braided.query.errors import InvalidValue
from braided.testing.samples.files import add_file
from braided_benchmarks.lines import Line, quiet

STEPS = 10  # runs of all contenders


@dataclass(frozen=True)
class Size:
    """How much is joined: streams, batches, rows a stream and batch."""

    streams: int
    batches: int
    rows: int


def run(scale: float, batches: int, say: Callable[[str], object] = quiet) -> list[Line]:
    """All lines; `batches` bounds the long runs (the RocksDB chain takes about a minute a batch)."""
    folder = Path(tempfile.mkdtemp(prefix="braided-bench-"))
    try:
        large = _compare(folder / "large", Size(3, batches, int(400_000 * scale)), (4.0, 20.0), say)
        small = _compare(folder / "small", Size(3, 2 * batches, int(50_000 * scale)), (1.8, 5.0), say)
        four = _four(folder / "four", Size(4, batches, int(400_000 * scale)), say)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [*large, *small, four]


def _four(folder: Path, size: Size, say: Callable[[str], object]) -> Line:
    """One stream more: the chain keeps one intermediate result more, Braided none."""
    _generate(folder, size)
    ours, theirs = (_run(c, folder, size, say) for c in ("braided", "rocksdb"))
    if ours["rows"] != theirs["rows"]:
        raise InvalidValue(f"the contenders disagree on the result: {ours['rows']} and {theirs['rows']}")
    return Line(
        f"4 streams x {size.rows:,} rows a batch: times faster than the rocksdb chain",
        _steady(theirs) / _steady(ours), None, f"{_steady(ours):.2f} s", f"{_steady(theirs):.2f} s",
        more_is_better=True,
    )  # fmt: skip


def _compare(folder: Path, size: Size, bars: tuple[float, float], say: Callable[[str], object]) -> list[Line]:
    _generate(folder, size)
    runs = {c: _run(c, folder, size, say) for c in ("braided", "heap", "rocksdb")}
    rows = {c: r["rows"] for c, r in runs.items()}
    if len(set(rows.values())) > 1:
        raise InvalidValue(f"the contenders disagree on the result: {rows}")
    label = f"{size.streams} streams x {size.rows:,} rows a batch"
    ours = _steady(runs["braided"])
    lines = []
    for contender, bar in zip(("heap", "rocksdb"), bars, strict=True):
        theirs = _steady(runs[contender])
        lines.append(
            Line(f"{label}: times faster than the {contender} chain", theirs / ours, bar, f"{ours:.2f} s",
                 f"{theirs:.2f} s", more_is_better=True)
        )  # fmt: skip
    first = runs["braided"]["batches"][0] / runs["heap"]["batches"][0]
    state = runs["braided"]["state_bytes"] / runs["rocksdb"]["state_bytes"]
    lines.append(
        Line(f"{label}: first batch, against the chain's", first, 1.5 if size.rows < 100_000 else None,
             f"{runs['braided']['batches'][0]:.1f} s", f"{runs['heap']['batches'][0]:.1f} s")
    )  # fmt: skip
    lines.append(
        Line(f"{label}: checkpoint's state bytes, against the RocksDB chain's", state, 1 / 3,
             f"{runs['braided']['state_bytes']:,}", f"{runs['rocksdb']['state_bytes']:,}")
    )  # fmt: skip
    return [*lines, *_where_time_goes(label, _run("where", folder, size, say))]


def _where_time_goes(label: str, run_: dict[str, Any]) -> list[Line]:
    """The parts of a batch, each as a share of it."""
    batch = sum(run_["where"].values())
    return [
        Line(
            f"{label}: {part}, share of a batch", seconds / batch, None, f"{seconds:.2f} s", f"{batch:.2f} s"
        )
        for part, seconds in run_["where"].items()
    ]


def _steady(run_: dict[str, Any]) -> float:
    return float(statistics.median(run_["batches"][2:]))


def _run(contender: str, folder: Path, size: Size, say: Callable[[str], object]) -> dict[str, Any]:
    say(f"{contender}, {size.streams} streams x {size.rows:,} rows")
    checkpoint = folder / f"checkpoint-{contender}"
    command = [sys.executable, "-m", "braided_benchmarks.spark_run", contender, str(folder), str(checkpoint)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, str(size.streams)], env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise InvalidValue(f"the {contender} run failed: {done.stderr[-2000:]}")
    shutil.rmtree(checkpoint, ignore_errors=True)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def _generate(folder: Path, size: Size) -> None:
    """Rows a millisecond apart on average, a million keys, in order of time."""
    rng = np.random.default_rng(7)
    rows = size.rows * size.batches
    for i in range(size.streams):
        times = np.sort(rng.integers(0, rows * 1_000, rows))
        table = pa.table(
            {
                "k": rng.integers(0, 1_000_000, rows),
                "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
                "v": rng.random(rows),
            }
        )
        for n in range(size.batches):
            add_file(folder / f"s{i}", n, table.slice(n * size.rows, size.rows))
