"""Promises about one of several keys, in this process: what is held, how fast, and what a look costs.

Orders of customers and items: customers and items come once, and a batch later it is said of a customer that
it orders no more. Then one look through a large state that cannot be made smaller.

    python -m braided_benchmarks.several_keys --batches 100
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pyarrow as pa

import braided as bd

ON = [("orders.customer", "customers.id"), ("orders.item", "items.id")]
ROWS, ITEMS = 10_000, 1_000


def query(*, promises: bool, purge: Any = "batch") -> bd.JoinQuery:
    """Orders of customers and items."""
    unique: dict[str, Any] = {"unique": promises}
    streams = [
        bd.Stream("orders", "customer", punctuation="over" if promises else None),
        bd.Stream("customers", **unique),
        bd.Stream("items", **unique),
    ]
    return bd.JoinQuery(streams, ON, tuning=bd.Tuning(purge=purge))


def orders(customers: Any, items: Any, ended: Any) -> pa.Table:
    """Orders, and customers that order no more."""
    over = np.repeat([False, True], [len(customers), len(ended)])
    item = pa.array(np.concatenate([items, ended]), mask=over)
    return pa.table({"customer": np.concatenate([customers, ended]), "item": item, "over": over})


def held(live: bd.LocalJoin) -> int:
    """Rows of streams, and rows that were made of them."""
    seen = live.stats()
    return sum(of.live_rows for part in (seen.streams, seen.intermediates) for of in part.values())


def run(batches: int, *, promises: bool, purge: Any = "batch") -> str:
    """Join so many batches; how fast, with how many results, and the most rows that were held."""
    live, rng, results, most = (
        bd.LocalJoin(query(promises=promises, purge=purge)),
        np.random.default_rng(1),
        0,
        0,
    )
    live.push({"items": pa.table({"id": np.arange(ITEMS)})})
    began = time.perf_counter()
    for batch in range(batches):
        new = np.arange(batch, batch + ROWS // 10) + batch * (ROWS // 10 - 1)
        table = orders(
            rng.choice(new, ROWS), rng.integers(0, ITEMS, ROWS), new - ROWS // 10 if promises else new[:0]
        )
        results += live.push({"orders": table, "customers": pa.table({"id": new})}).num_rows
        most = max(most, held(live))
    speed = batches * ROWS / (time.perf_counter() - began)
    said = f"with promises, purge={purge!r}" if promises else "without promises"
    return f"{said}: {results:,} results, {speed:,.0f} orders/s, at most {most:,} rows held"


def look(rows: int) -> str:
    """Look through a state in which one row can go."""
    live, rng = bd.LocalJoin(query(promises=True, purge="immediate")), np.random.default_rng(0)
    table = orders(rng.integers(0, rows, rows), np.arange(rows), np.empty(0, np.int64))
    live.push({"orders": table, "customers": pa.table({"id": np.arange(rows)})})
    seconds = []
    for item in range(3):
        began = time.perf_counter()
        live.push({"items": pa.table({"id": [item]})})
        seconds.append(time.perf_counter() - began)
    rows, best = held(live), min(seconds)
    return f"{rows:,} rows held: {1e3 * best:.0f} ms a look, {1e9 * best / rows:.0f} ns a row"


def main(arguments: list[str] | None = None) -> int:
    """Print what is held, how fast it is, and what a look costs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=100)
    batches = parser.parse_args(arguments).batches
    run(3, promises=True)  # compiled
    for promises, purge in ((False, "batch"), (True, "batch"), (True, "immediate")):
        print(run(batches, promises=promises, purge=purge))
    for rows in (100_000, 1_000_000):
        print(look(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
