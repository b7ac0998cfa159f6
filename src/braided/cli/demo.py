"""`braided demo`: the real thing on Spark, beside Spark's own joins, killed in mid-run, checked by DuckDB."""

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
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from braided.query.errors import InvalidValue, os_reason
from braided.spark.sessions.java import check_java
from braided.view.report import report_of
from braided_lab import shop
from braided_lab.files import add_file, committed_files

BATCHES = 8
_KILLED_AFTER = 3
_LOG = "braided.log"  # is there from the beginning: without it a folder is no demo's
_OURS = (
    "orders", "payments", "shipments", "nothing", "result", "result-*", "checkpoint-*", "*.log",
    "journal.jsonl", "report.html",
)  # fmt: skip
_COLUMNS = ("orders_order_id", "payments_paid_at", "shipments_sent_at")


def demo(orders: int, folder: Path, console: Console) -> None:
    """Join generated orders, payments and shipments on Spark; some three minutes."""
    check_java()
    for needed in ("pyspark", "duckdb"):
        if importlib.util.find_spec(needed) is None:
            raise InvalidValue(f"the demo needs {needed}; install it with: pip install 'braided[all]'")
    _make_room(folder)
    tables = shop.tables(orders)
    rows = _generate(folder, tables)
    console.print(f"{rows:,} rows of orders, payments and shipments in {folder}, {BATCHES} files a stream\n")
    console.print(shop.query().explain(), highlight=False)
    console.print("\nBraided on Spark, killed (SIGKILL) after a few batches:")
    _job("braided", folder, console, kill_after=_KILLED_AFTER)
    console.print("killed; started again on the same checkpoint:")
    ours, end = _job("braided", folder, console)
    console.print("\nand if a source stalls? run once more without a shipment; bd.spark.why said:")
    console.print(f"[italic]{end['why']}[/italic]", highlight=False)
    console.print("\nthe same with Spark's own chain of two joins:")
    theirs, chain_end = _job("chain", folder, console)
    _compare(ours, theirs, end, chain_end, console)
    _check(folder, tables, console)
    _show(folder, console)
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
            for said in _waited_for(_lines(process), f"{job}: Spark is starting", console):
                if "end" in said:
                    end = said
                    continue
                seconds.append(said["seconds"])
                console.print(f"  batch {said['batch']}: {said['rows']:,} rows in {said['seconds']:.1f} s")
                if kill_after is not None and len(seconds) >= kill_after:
                    os.killpg(process.pid, signal.SIGKILL)
                    break
        except BaseException:  # Ctrl-C: the job is in a session of its own, and would go on
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if kill_after is None and process.returncode:
        raise InvalidValue(f"the demo's job failed; see {folder / f'{job}.log'}")
    return seconds, end


def _waited_for(lines: Iterator[dict[str, Any]], what: str, console: Console) -> Iterator[dict[str, Any]]:
    """The lines; until the first one comes, what is waited for is shown."""
    with console.status(what):
        first = next(lines, None)
    if first is not None:
        yield first
        yield from lines


def _lines(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            yield json.loads(line)


def _compare(
    ours: list[float], theirs: list[float], end: dict[str, Any], chain_end: dict[str, Any], console: Console
) -> None:
    mine, chain = statistics.median(ours[1:]), statistics.median(theirs[1:])
    console.print(
        f"\na batch takes {mine:.1f} s with Braided, {chain:.1f} s with the chain; "
        f"state in the checkpoint: {end['bytes'] / 1e6:.1f} MB and {chain_end['bytes'] / 1e6:.1f} MB"
    )


def _check(folder: Path, tables: dict[str, pa.Table], console: Console) -> None:
    """The sink's committed files against DuckDB's join of all input."""
    import duckdb  # noqa: PLC0415

    got: Counter[Any] = Counter()
    for path in committed_files(_result(folder)):
        table = pq.read_table(path, columns=list(_COLUMNS))
        got.update(zip(*(_plain(table[c]) for c in _COLUMNS), strict=True))
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        found = db.sql(
            "select o.order_id, p.paid_at, s.sent_at from orders o join payments p using (order_id) "
            "join shipments s using (order_id) where "
            "abs(epoch_us(p.paid_at) - epoch_us(o.placed_at)) <= 3600000000 "
            "and epoch_us(s.sent_at) - epoch_us(o.placed_at) between -600000000 and 7200000000 "
            "and epoch_us(s.sent_at) - epoch_us(p.paid_at) between -600000000 and 7200000000"
        ).to_arrow_table()
    wanted = Counter(zip(*(_plain(found[c]) for c in found.column_names), strict=True))
    missing, doubled = (wanted - got).total(), (got - wanted).total()
    console.print(
        f"compared with DuckDB's join of all input: {wanted.total():,} results, "
        f"missing {missing}, doubled {doubled}"
    )
    if missing or doubled:
        raise InvalidValue("the result is wrong; this must not happen")


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    return list(column.to_pylist())


def _result(folder: Path) -> Path:
    return folder / "result-braided"


def _show(folder: Path, console: Console) -> None:
    console.print(f"\nfive rows of {_result(folder)}:")
    shown = 0
    for path in committed_files(_result(folder)):
        for row in pq.read_table(path).slice(0, 5 - shown).to_pylist():
            shown += 1
            console.print(f"{shown}. " + ", ".join(f"{name}={value}" for name, value in row.items()))
        if shown >= 5:
            break
