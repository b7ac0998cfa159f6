"""Small random joins: seeded tables with ties, duplicates, nulls and bounded disorder."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import braided as bd

BATCH_ROWS = (1, 2, 7, 49, 50, 51, 1000)
LATENESS_US = 12
EPOCH = dt.datetime(2024, 1, 1)

KeyMaker = Callable[[np.ndarray], pa.Array]


def _of(type_: pa.DataType, make: Callable[[int], Any]) -> KeyMaker:
    return lambda numbers: pa.array([make(int(n)) for n in numbers], type_)


KEY_TYPES: dict[str, KeyMaker] = {
    "int64": _of(pa.int64(), lambda n: n - 3),
    "int8": _of(pa.int8(), lambda n: n - 3),
    "uint32": _of(pa.uint32(), lambda n: n),
    "uint64": _of(pa.uint64(), lambda n: n + 2**63),
    "string": _of(pa.string(), lambda n: "" if n == 0 else f"key number {n}"),
    "large_string": _of(pa.large_string(), lambda n: f"ü{n}"),
    "string_view": _of(pa.string_view(), lambda n: f"key number {n}"),
    "binary": _of(pa.binary(), lambda n: bytes([n, 0, n])),
    "fixed_size_binary": _of(pa.binary(3), lambda n: bytes([n, 0, n])),
    "date32": _of(pa.date32(), lambda n: EPOCH.date() + dt.timedelta(days=n)),
    "date64": _of(pa.date64(), lambda n: EPOCH.date() + dt.timedelta(days=n)),
    "timestamp": _of(pa.timestamp("ms", tz="UTC"), lambda n: EPOCH + dt.timedelta(seconds=n)),
    "decimal128": _of(pa.decimal128(12, 2), lambda n: decimal.Decimal(n) / 4),
    "decimal256": _of(pa.decimal256(50, 2), lambda n: decimal.Decimal(n) / 4),
    "boolean": _of(pa.bool_(), lambda n: n % 2 == 0),
    "float64": _of(pa.float64(), lambda n: (float("nan"), 0.0, -0.0, 1.5)[n % 4] if n < 4 else n / 8),
    "float32": _of(pa.float32(), lambda n: (float("nan"), 0.0, -0.0, 1.5)[n % 4] if n < 4 else n / 8),
    "dictionary": lambda numbers: pa.array([f"key {n}" for n in numbers]).dictionary_encode(),
    "duration": _of(pa.duration("s"), lambda n: dt.timedelta(seconds=n)),
    "time32": _of(pa.time32("s"), lambda n: dt.time(n // 3600, n // 60 % 60, n % 60)),
}


def random_table(
    rng: np.random.Generator,
    rows: int,
    *,
    keys: int = 5,
    span_us: int = 200,
    disorder_us: int = LATENESS_US,
    nulls: bool = True,
    key_type: str = "int64",
) -> pa.Table:
    """Rows that come at most `disorder_us` out of order, so none is late by that lateness."""
    times = np.sort(rng.integers(0, span_us, rows))
    times = times[np.argsort(times + rng.uniform(0, disorder_us, rows), kind="stable")]
    numbers = rng.integers(0, keys, rows)
    key = KEY_TYPES[key_type](numbers)
    if nulls and rows:
        missing = pa.array(rng.random(rows) < 0.05)
        key = pa.array(
            [None if m else k for m, k in zip(missing.to_pylist(), key.to_pylist(), strict=True)], key.type
        )
    return pa.table(
        {
            "k": key,
            "t": pa.array(times).cast(pa.timestamp("us")),
            "n": rng.integers(0, 100, rows),
            "s": pa.array([f"text {v}" if v % 7 else None for v in rng.integers(0, 50, rows)], pa.string()),
        }
    )


def random_tables(seed: int, names: list[str], *, rows: int = 60, **options: Any) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    return {name: random_table(rng, int(rng.integers(rows // 2, rows + 1)), **options) for name in names}


def stream(name: str, window: Any = "30 us", **options: Any) -> bd.Stream:
    options.setdefault("lateness", f"{LATENESS_US} us")
    return bd.Stream(name, key="k", time="t", window=window, **options)


def with_odd_names(table: pa.Table) -> pa.Table:
    """The table with columns that are named as some of ours are, or were."""
    ours = ("hashes", "times", "ends", "checks", "born", "number", "linked")
    for name in (*(f"__braided_{n}" for n in ours), *ours, "s0", "s0.n", "blob", ""):
        table = table.append_column(name, pa.array([f"{name} {i}" for i in range(table.num_rows)]))
    return table


def names_of(number: int) -> list[str]:
    return [f"s{i}" for i in range(number)]
