"""`braided demo`: the real thing on Spark, beside Spark's own joins, killed in mid-run, checked by Arrow."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from braided.cli.local_demo import show_rows
from braided.query.errors import InvalidValue, os_reason
from braided.spark.sessions.java import check_java
from braided.testing.samples import shop
from braided.testing.samples.files import add_file, committed_files
from braided.view.report import report_of

BATCHES = 8
_KILLED_AFTER = 3
_MINUTE_US = 60_000_000
_LOG = "braided.log"  # is there from the beginning: without it a folder is no demo's
_OURS = (
    "orders", "payments", "shipments", "nothing", "result", "result-*", "checkpoint-*", "*.log",
    "journal.jsonl", "report.html",
)  # fmt: skip
_COLUMNS = ("orders_order_id", "payments_paid_at", "shipments_sent_at")


def demo(orders: int, folder: Path, console: Console) -> None:
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
    _job("braided", folder, console, kill_after=_KILLED_AFTER)
    console.print("killed; started again on the same checkpoint:")
    seconds, end = _job("braided", folder, console)
    console.print("\nand if a source stalls? run once more without a shipment; bd.spark.why said:")
    console.print(f"[italic]{end['why']}[/italic]", highlight=False)
    console.print("\nthe same with Spark's own chain of two joins:")
    chain_seconds, chain_end = _job("chain", folder, console)
    console.print(
        f"\na batch takes {statistics.median(seconds[1:]):.1f} s with Braided, "
        f"{statistics.median(chain_seconds[1:]):.1f} s with the chain; "
        f"state in the checkpoint: {end['bytes'] / 1e6:.1f} MB and {chain_end['bytes'] / 1e6:.1f} MB"
    )
    files = committed_files(folder / "result-braided")
    _check(files, tables, console)
    console.print(f"\nfive rows of {folder / 'result-braided'}:")
    show_rows(pa.concat_tables(map(pq.read_table, files)).slice(0, 5), console)
    console.print(f"\nthe batches as a report: {report_of(folder)}", markup=False)


def _make_room(folder: Path) -> None:
    """Remove what a demo before left there, and nothing else."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = sorted(p.name for p in folder.iterdir())
        others = [name for name in there if not any(fnmatch(name, ours) for ours in _OURS)]
        if there and (others or _LOG not in there):
            other = (others or there)[0]
            raise InvalidValue(f"{folder} holds what no demo wrote, such as {other!r}; name another: --out")
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / _LOG).touch()
    except OSError as wrong:
        raise InvalidValue(
            f"--out {str(folder)!r} cannot be used ({os_reason(wrong)}); name another"
        ) from None


def _generate(folder: Path, tables: dict[str, pa.Table]) -> int:
    for name, table in tables.items():
        step = -(-table.num_rows // BATCHES)
        for n in range(BATCHES):
            add_file(folder / name, n, table.slice(n * step, step))
    return sum(t.num_rows for t in tables.values())


def _job(
    job: str, folder: Path, console: Console, *, kill_after: int | None = None
) -> tuple[list[float], dict[str, Any]]:
    """Run a job of the demo; the seconds of its batches, and its last words."""
    command = [sys.executable, "-m", "braided.cli.demo_job", job, str(folder)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with (
        (folder / f"{job}.log").open("wb") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, start_new_session=True, env=environment, text=True
        ) as process,
    ):
        seconds: list[float] = []
        end: dict[str, Any] = {}
        try:
            for line in _lines(process, f"{job}: Spark is starting", console):
                if "end" in line:
                    end = line
                    continue
                seconds.append(line["seconds"])
                console.print(f"  batch {line['batch']}: {line['rows']:,} rows in {line['seconds']:.1f} s")
                if kill_after is not None and len(seconds) >= kill_after:
                    os.killpg(process.pid, signal.SIGKILL)
                    break
        except BaseException:  # Ctrl-C: the job is in a session of its own, and would go on
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if kill_after is None and process.returncode:
        raise InvalidValue(f"the demo's job failed; see {folder / f'{job}.log'}")
    return seconds, end


def _lines(process: subprocess.Popen[str], what: str, console: Console) -> Iterator[dict[str, Any]]:
    """What the job says; until it says something, show what is waited for."""
    assert process.stdout is not None
    lines = (json.loads(line) for line in process.stdout if line.startswith("{"))
    with console.status(what):
        first = next(lines, None)
    if first is not None:
        yield first
        yield from lines


def _check(files: Sequence[Path], tables: dict[str, pa.Table], console: Console) -> None:
    """Compare the sink's committed files with Arrow's join of all input."""
    got: Counter[Any] = Counter()
    for path in files:
        got.update(_rows(pq.read_table(path, columns=list(_COLUMNS)), _COLUMNS))
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
