"""`braided demo --local`: generate three streams, join them, show what came out and how fast."""

from __future__ import annotations

import time

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import braided as bd
from braided.engine.kernels import warm_up
from braided.testing.samples import shop


def local_demo(orders: int, console: Console) -> None:
    """Join generated orders, payments and shipments in this process."""
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
    _show_counts(held, console)
    rows = sum(t.num_rows for t in tables.values())
    speed = f"{rows:,} rows in {seconds:.2f} s, {rows / seconds:,.0f} a second"
    console.print(f"{result.num_rows:,} results from {speed}; the first five:")
    show_rows(result.slice(0, 5), console)


def _show_counts(seen: bd.Statistics, console: Console) -> None:
    table = Table("stream", "rows in", "late", "null keys", "still held", "expired")
    for name, s in seen.streams.items():
        numbers = (s.rows_in, s.late_rows, s.null_keys, s.live_rows, s.expired_rows)
        table.add_row(name, *(f"{n:,}" for n in numbers))
    console.print(table)


def show_rows(rows: pa.Table, console: Console) -> None:
    """Print one row under the other: a result has more columns than a terminal."""
    for number, row in enumerate(rows.to_pylist(), start=1):
        console.print(f"{number}. " + ", ".join(f"{name}={value}" for name, value in row.items()))
