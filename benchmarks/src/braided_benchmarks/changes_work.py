"""What a campaign of changes joins: generated streams, queries, and in SQL what must come out.

One key is heavy. A *phase* is a query and the files that come while it runs. Each query differs from the one
before it in one to three of its parts. The last three phases have the same query: in the first of them the
last change begins, in the second all older epochs pass, and at the start of the third they go.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import braided as bd
from braided.testing.samples.files import add_file
from braided_benchmarks.chaos_work import LAST_KEY, NAMES

SCHEMAS = dict.fromkeys(NAMES, "k long, t timestamp, v long, m long")
COLUMNS = ("a_v", "b_v", "c_v")
HEAVY = 7  # the key that a third of stream a's rows have
FILE_S = 3  # of event time
DISORDER_US = 1_000_000  # no lateness is less
PASSING = 12  # files, in which the longest windows pass twice

_WHERE = (None, "a.v % 3 <> b.v % 3", "b.m % 2 = c.m % 2", "a.v + 500 > c.v", "a.m < b.m or b.m < c.m")
_PLANS = ("mjoin", "linear", (("a", "b"), "c"), (("b", "c"), "a"))
_RATES = (None, (1.0, 1.0, 100.0), (100.0, 1.0, 1.0), (1.0, 100.0, 1.0))


@dataclass(frozen=True)
class Variant:
    """One of the queries, and how it is spread; `hot` are the cells of the heavy key, or "auto" or "off"."""

    keys: int = 1
    windows: tuple[int, int, int] = (5, 5, 5)  # seconds
    within: int | None = None  # seconds between a and b
    where: str | None = None
    lateness: int = 1  # seconds
    plan: Any = "mjoin"
    buckets: int = 4
    hot: int | str = "off"
    rates: tuple[float, float, float] | None = None

    def query(self) -> bd.JoinQuery:
        """The join, on one key or two."""
        streams = [
            bd.Stream(name, key="k", time="t", window=f"{s} seconds", lateness=f"{self.lateness} seconds")
            for name, s in zip(NAMES, self.windows, strict=True)
        ]
        on = None if self.keys == 1 else [("a.k", "b.k"), LAST_KEY[self.keys]]
        within = None if self.within is None else {("a", "b"): f"{self.within} seconds"}
        return bd.JoinQuery(streams, on=on, within=within, where=self.where, plan=self.plan)

    def options(self) -> dict[str, Any]:
        """What `bd.spark.join` is asked for."""
        hot_keys = self.hot if isinstance(self.hot, str) else {"a": {HEAVY: self.hot}}
        rates = None if self.rates is None else dict(zip(NAMES, self.rates, strict=True))
        return {"buckets": self.buckets, "hot_keys": hot_keys, "rates": rates, "layout": "grid"}

    def wanted(self, since_us: int | None, until_us: int | None) -> str:
        """SQL: the results whose oldest row lies in a span of time; None: it is open there."""
        longest_us = max(self.windows) * 1_000_000
        near = [f"abs(epoch_us(a.t) - epoch_us({n}.t)) <= {longest_us}" for n in ("b", "c")]
        newest, oldest = (f"epoch_us({which}(a.t, b.t, c.t))" for which in ("greatest", "least"))
        tests = [
            f"{newest} - epoch_us({name}.t) <= {s * 1_000_000}"
            for name, s in zip(NAMES, self.windows, strict=True)
        ]
        tests += [] if self.where is None else [f"({self.where})"]
        if self.within is not None:
            tests.append(f"abs(epoch_us(a.t) - epoch_us(b.t)) <= {self.within * 1_000_000}")
        tests += [] if since_us is None else [f"{oldest} >= {since_us}"]
        tests += [] if until_us is None else [f"{oldest} < {until_us}"]
        a, b, c = (_part(name, since_us, until_us, longest_us) for name in NAMES)
        last = " = ".join(LAST_KEY[self.keys])
        return (
            f"select a.v, b.v, c.v from {a} join {b} on a.k = b.k and {near[0]} "
            f"join {c} on {last} and {near[1]} where {' and '.join(tests)}"
        )


def _part(name: str, since_us: int | None, until_us: int | None, longest_us: int) -> str:
    """The rows of a stream that can be of a result of a span, so that DuckDB need not pair all rows."""
    tests = ["true"] if since_us is None else [f"epoch_us(t) >= {since_us}"]
    tests += [] if until_us is None else [f"epoch_us(t) < {until_us + longest_us}"]
    return f"(select * from {name} where {' and '.join(tests)}) as {name}"


@dataclass(frozen=True)
class Epoch:
    """When an epoch began, and the query it began with."""

    since_us: int | None
    variant: Variant


def by_epochs(epochs: Sequence[Epoch]) -> str:
    """SQL: what all epochs together must have found; they are in order."""
    ends = [epoch.since_us for epoch in epochs[1:]]
    spans = zip(epochs, [*ends, None], strict=True)
    return " union all ".join(epoch.variant.wanted(epoch.since_us, end) for epoch, end in spans)


def variants(changes: int, seed: int, keys: int = 1) -> list[Variant]:
    """The queries of all phases; the last does not look for hot keys, which would change it by itself."""
    rng = random.Random(f"{seed} {keys} variants")
    found = [Variant(keys)]
    while len(found) <= changes:
        later = found[-1]
        for part in rng.sample(_parts(keys), rng.choice((1, 1, 2, 3))):
            later = dataclasses.replace(later, **_drawn(rng, part, later))
        if isinstance(later.hot, int):
            later = dataclasses.replace(later, hot=min(later.hot, later.buckets))
        if later != found[-1] and not (len(found) == changes and later.hot == "auto"):
            found.append(later)
    return [*found, found[-1], found[-1]]


def _parts(keys: int) -> list[str]:
    return ["windows", "within", "where", "lateness", "plan", "buckets", "hot" if keys == 1 else "rates"]


def _drawn(rng: random.Random, part: str, now: Variant) -> dict[str, Any]:
    """Another value of a part, at random."""
    choices: dict[str, Sequence[Any]] = {
        "windows": [tuple(rng.randint(1, 6) for _ in NAMES) for _ in range(9)],
        "within": [None, 1, 2, 3],
        "where": _WHERE,
        "lateness": [1, 2, 3],
        "plan": _PLANS,
        "buckets": [2, 4, 8],
        "hot": ["auto", "off", 2, now.buckets],
        "rates": _RATES,
    }
    return {part: rng.choice([value for value in choices[part] if value != getattr(now, part)])}


def generate(folder: Path, phases: int, seed: int) -> list[int]:
    """A folder for each stream, with files numbered as they come; how many there are by each phase's end."""
    rng = np.random.default_rng((seed, 5))
    ends = list(itertools.accumulate([*rng.integers(1, 8, phases - 2).tolist(), PASSING, 1]))
    for name in NAMES:
        sizes = rng.integers(1, 1_200, ends[-1])
        times = np.sort(rng.integers(0, ends[-1] * FILE_S * 1_000_000, sizes.sum()))
        times = times[np.argsort(times + rng.integers(0, DISORDER_US, len(times)), kind="stable")]
        keys = rng.integers(0, 300, len(times))
        heavy = rng.random(len(times)) < (0.35 if name == "a" else 0.0)
        table = pa.table(
            {
                "k": np.where(heavy, HEAVY, keys),
                "t": pa.array(times + 1_700_000_000_000_000, pa.timestamp("us", tz="UTC")),
                "v": np.arange(len(times)),
                "m": rng.integers(0, 300, len(times)),
            }
        )
        for n, (start, size) in enumerate(zip(np.cumsum(sizes) - sizes, sizes, strict=True)):
            add_file(folder / name, n, table.slice(start, size))
    return ends


def files(folder: Path, before: int, since: int = 0) -> Iterator[tuple[str, Path]]:
    """The generated files of all streams up to a number, as far as they are still there, in order."""
    for name in NAMES:
        for path in sorted((folder / name).glob("*.parquet")):
            if since <= int(path.stem) < before:
                yield name, path
