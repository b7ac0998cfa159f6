"""`braided demo`: the real thing on Spark, beside Spark's own joins, killed in mid-run, checked by Arrow.

With `--local`, the same streams are joined in this process.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import braided as bd
from braided.engine.kernels import warm_up
from braided.query.errors import InvalidValue
from braided.spark.sessions.java import check_java
from braided.testing.samples import shop
from braided.testing.samples.files import add_file, committed_files
from braided.view.follow import each_new
from braided.view.records import JOURNAL, Journal, Record, os_errors
from braided.view.report import report_of

BATCHES = 8
_KILLED_AFTER = 3
_MINUTE_US = 60_000_000
_LOG = "braided.log"  # is there from the beginning: without it a folder is no demo's
_OURS = (
    "orders", "payments", "shipments", "nothing", "result", "result-*", "checkpoint-*", "*.log",
    "*.jsonl", "stalled.txt", "report.html",
)  # fmt: skip
_COLUMNS = ("orders_order_id", "payments_paid_at", "shipments_sent_at")


def spark_demo(orders: int, folder: Path, console: Console) -> None:
    """Join generated orders, payments and shipments on Spark; some three minutes."""
    check_java()
    if importlib.util.find_spec("pyspark") is None:
        raise InvalidValue("the demo needs pyspark; install it with: pip install 'braided[all]'")
    _make_room(folder)
    tables = shop.tables(orders)
    rows = _generate(folder, tables)
    console.print(f"{rows:,} rows of orders, payments and shipments in {folder}, {BATCHES} files a stream\n")
    console.print(shop.query().explain(), highlight=False)
    console.print("\nBraided on Spark, killed (SIGKILL) after a few batches:")
    _job("braided", folder, console, batches=_KILLED_AFTER)
    console.print("killed; started again on the same checkpoint:")
    seconds = _job("braided", folder, console)
    console.print("\nand if a source stalls? run once more without a shipment; bd.spark.why answers:")
    console.print((folder / "stalled.txt").read_text(), style="italic", highlight=False, markup=False)
    console.print("\nthe same with Spark's own chain of two joins:")
    chain_seconds = _job("chain", folder, console)
    console.print(
        f"\na batch takes {statistics.median(seconds[1:]):.1f} s with Braided, "
        f"{statistics.median(chain_seconds[1:]):.1f} s with the chain; state in the checkpoint: "
        f"{_state_bytes(folder, 'braided') / 1e6:.1f} MB and {_state_bytes(folder, 'chain') / 1e6:.1f} MB"
    )
    files = committed_files(folder / "result-braided")
    _check(files, tables, console)
    console.print(f"\nfive rows of {folder / 'result-braided'}:")
    _show_rows(pa.concat_tables(map(pq.read_table, files)).slice(0, 5), console)
    console.print(f"\nthe batches as a report: {report_of(folder)}", markup=False)


def _make_room(folder: Path) -> None:
    """Remove what a demo before left there, and nothing else."""
    with os_errors(lambda why: InvalidValue(f"--out {str(folder)!r} cannot be used ({why}); name another")):
        folder.mkdir(parents=True, exist_ok=True)
        there = sorted(p.name for p in folder.iterdir())
        others = [name for name in there if not any(fnmatch(name, ours) for ours in _OURS)]
        if there and (others or _LOG not in there):
            other = (others or there)[0]
            raise InvalidValue(f"{folder} holds what no demo wrote, such as {other!r}; name another: --out")
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / _LOG).touch()


def _generate(folder: Path, tables: dict[str, pa.Table]) -> int:
    for name, table in tables.items():
        step = -(-table.num_rows // BATCHES)
        for n in range(BATCHES):
            add_file(folder / name, n, table.slice(n * step, step))
    return sum(t.num_rows for t in tables.values())


def _job(job: str, folder: Path, console: Console, *, batches: float = math.inf) -> list[float]:
    """Run a job of the demo, and kill it after some batches; return the seconds of those that it did.

    Its journal says how far it is.
    """

    def done() -> list[Record]:
        return [record for record in journal.read() if record.rows]

    journal = journal_of(folder, job)
    show = each_new(lambda r: console.print(f"  batch {r.batch}: {r.rows:,} rows in {r.seconds:.1f} s"))
    before = len(done())
    show(done(), "")
    command = [sys.executable, "-m", "braided.cli.demo_job", job, str(folder)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with (
        (folder / f"{job}.log").open("wb") as log,
        console.status(f"{job}: Spark is at work"),
        subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment) as process,
    ):
        try:
            while process.poll() is None and len(done()) < batches:
                show(done(), "")
                time.sleep(0.1)
        finally:  # after Ctrl-C, too: the job is in a session of its own, and would go on
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode and len(done()) < batches:
        raise InvalidValue(f"the demo's job failed; see {folder / f'{job}.log'}")
    show(done(), "")
    return [record.seconds for record in done()[before:]]


def journal_of(folder: Path, job: str) -> Journal:
    """The journal of a job of the demo; that of Braided's is the folder's own."""
    return Journal(folder / (JOURNAL if job == "braided" else f"{job}.jsonl"))


def _state_bytes(folder: Path, job: str) -> int:
    files = (folder / f"checkpoint-{job}" / "state").rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def _check(files: Sequence[Path], tables: dict[str, pa.Table], console: Console) -> None:
    """Compare the sink's committed files with Arrow's join of all input."""
    tables_out = (pq.read_table(path, columns=list(_COLUMNS)) for path in files)
    got = Counter(itertools.chain(*(_rows(table, _COLUMNS) for table in tables_out)))
    wanted = Counter(_rows(_joined(tables), ("order_id", "paid_at", "sent_at")))
    missing, doubled = (wanted - got).total(), (got - wanted).total()
    console.print(
        f"compared with Arrow's join of all input: {wanted.total():,} results, "
        f"missing {missing}, doubled {doubled}"
    )
    if missing or doubled:
        raise InvalidValue("the result is wrong; this must not happen")


def _joined(tables: dict[str, pa.Table]) -> pa.Table:
    """All combinations of equal orders, then those within the bounds of `shop.query`."""
    whole = tables["orders"].join(tables["payments"], "order_id", join_type="inner")
    whole = whole.join(tables["shipments"], "order_id", join_type="inner")
    placed, paid, sent = (whole[c].cast(pa.int64()).to_numpy() for c in ("placed_at", "paid_at", "sent_at"))
    inside = np.abs(paid - placed) <= 60 * _MINUTE_US
    for first in (placed, paid):
        inside &= (sent - first >= -10 * _MINUTE_US) & (sent - first <= 120 * _MINUTE_US)
    return whole.filter(pa.array(inside))


def _rows(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[c].cast(pa.int64()).to_pylist() for c in columns), strict=True)


def local_demo(orders: int, console: Console) -> None:
    """Join generated orders, payments and shipments in this process; show what came out and how fast."""
    console.print(f"compiling kernels (once): {warm_up():.1f} s")
    query, tables = shop.query(), shop.tables(orders)
    console.print(query.explain(), highlight=False)
    console.print()
    began = time.perf_counter()
    live = bd.LocalJoin(query, schemas={name: t.schema for name, t in tables.items()})
    batch_rows = max(1, orders // 20)
    results = [
        live.push({name: t.slice(start, batch_rows) for name, t in tables.items()})
        for start in range(0, orders, batch_rows)
    ]
    held = live.stats()
    results.append(live.end())
    seconds = time.perf_counter() - began
    result = pa.concat_tables(results)
    counts = Table("stream", "rows in", "late", "null keys", "still held", "expired")
    for name, s in held.streams.items():
        numbers = (s.rows_in, s.late_rows, s.null_keys, s.live_rows, s.expired_rows)
        counts.add_row(name, *(f"{n:,}" for n in numbers))
    console.print(counts)
    rows = sum(t.num_rows for t in tables.values())
    speed = f"{rows:,} rows in {seconds:.2f} s, {rows / seconds:,.0f} a second"
    console.print(f"{result.num_rows:,} results from {speed}; the first five:")
    _show_rows(result.slice(0, 5), console)


def _show_rows(rows: pa.Table, console: Console) -> None:
    """Print one row under the other: a result has more columns than a terminal."""
    for number, row in enumerate(rows.to_pylist(), start=1):
        console.print(f"{number}. " + ", ".join(f"{name}={value}" for name, value in row.items()))
