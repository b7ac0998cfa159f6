"""As-of joins in this process: `a` with the newest row of `b`, batch by batch, and by DuckDB all at once.

Printed are the medians of batch times for some ages, and how many rows of `b` are held for them.

    python -m braided_benchmarks.as_of --rows 400000
"""

from __future__ import annotations

import argparse
import statistics
import time

import duckdb
import numpy as np
import pyarrow as pa

import braided as bd

AGES = ("1 second", "10 seconds", "60 seconds")
SECONDS = 10  # that a batch spans
_WARM = 3  # batches that do not count


def generate(rows: int, keys: int, batches: int) -> list[dict[str, pa.Table]]:
    """Batches of both streams."""
    rng = np.random.default_rng(1)

    def table(number: int) -> pa.Table:
        span = SECONDS * 1_000_000
        times = np.sort(rng.integers(number * span, (number + 1) * span, rows))
        values = {"k": rng.integers(0, keys, rows), "v": rng.random(rows)}
        return pa.table({**values, "t": pa.array(times, pa.timestamp("us"))})

    return [{name: table(number) for name in ("a", "b")} for number in range(batches)]


def by_braided(batches: list[dict[str, pa.Table]], age: str) -> tuple[float, int]:
    """The median of batch times, and the rows of `b` held at the end."""
    streams = [
        bd.Stream("a", "k", time="t", window="0 seconds", lateness="0 seconds"),
        bd.Stream("b", "k", time="t", window=bd.AsOf(age), lateness="0 seconds", how="left"),
    ]
    live, seconds = bd.LocalJoin(bd.JoinQuery(streams)), []
    for batch in batches:
        began = time.perf_counter()
        live.push(batch)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[_WARM:]), live.stats().streams["b"].live_rows


def by_duckdb(batches: list[dict[str, pa.Table]]) -> float:
    """Seconds for all of it, without an age."""
    with duckdb.connect() as db:
        for name in ("a", "b"):
            db.register(name, pa.concat_tables([batch[name] for batch in batches]))
        began = time.perf_counter()
        columns = "a.k, a.t, a.v, b.t as b_t, b.v as b_v"
        db.sql(f"create table found as select {columns} from a asof left join b on a.k = b.k and a.t >= b.t")
        return time.perf_counter() - began


def main() -> None:
    """From the command line."""
    options = argparse.ArgumentParser(description="As-of joins, batch by batch, and by DuckDB all at once.")
    options.add_argument("--rows", type=int, default=400_000, help="of each stream in a batch")
    options.add_argument("--keys", type=int, default=5_000)
    options.add_argument("--batches", type=int, default=10)
    given = options.parse_args()
    batches = generate(given.rows, given.keys, given.batches)
    for age in AGES:
        seconds, held = by_braided(batches, age)
        print(f"at most {age} older: {seconds:.2f} s a batch, {held:,} rows held")
    seconds = by_duckdb(batches)
    print(f"DuckDB: {seconds:.2f} s for all, {seconds / given.batches:.2f} s for each batch", flush=True)


if __name__ == "__main__":
    main()
