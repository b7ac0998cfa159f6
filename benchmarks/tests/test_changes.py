"""The parts of the campaign of changes that need no Spark: which queries it draws, and its truth in SQL."""

from __future__ import annotations

import itertools
from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from braided.testing import expected
from braided_benchmarks.changes_work import COLUMNS, Epoch, by_epochs, variants
from braided_benchmarks.chaos_work import NAMES


@pytest.mark.parametrize("keys", [1, 2])
def test_every_query_differs_from_the_one_before(keys: int) -> None:
    queries = variants(20, 1, keys)
    assert all(before != later for before, later in itertools.pairwise(queries[:21]))
    assert queries[20] == queries[21] == queries[22]
    for variant in queries:
        assert variant.query().names == NAMES
    drawn = [
        {getattr(variant, part) for variant in queries} for part in ("windows", "where", "buckets", "plan")
    ]
    assert min(map(len, drawn)) > 1


def generated(rng: np.random.Generator) -> pa.Table:
    times = pa.array(np.sort(rng.integers(0, 30_000_000, 40)), pa.timestamp("us", tz="UTC"))
    columns = {name: rng.integers(0, 3, 40) for name in ("k", "m")}
    return pa.table({**columns, "t": times, "v": np.arange(40)})


@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_the_truth_by_epochs(seed: int, keys: int) -> None:
    tables = {name: generated(np.random.default_rng((seed, i))) for i, name in enumerate(NAMES)}
    since = [None, 8_000_000, 15_000_000, 15_000_000, 22_000_000]
    epochs = [Epoch(us, v) for us, v in zip(since, variants(4, seed, keys)[:5], strict=True)]
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        found = Counter(db.sql(by_epochs(epochs)).fetchall())
    wanted: Counter[tuple[int, ...]] = Counter()
    for epoch, later in itertools.pairwise([*epochs, Epoch(1 << 60, epochs[-1].variant)]):
        results = expected(epoch.variant.query(), tables)
        oldest = np.minimum.reduce([results[f"{n}_t"].cast(pa.int64()).to_numpy() for n in NAMES])
        owned = results.filter(pa.array((oldest >= (epoch.since_us or 0)) & (oldest < (later.since_us or 0))))
        wanted.update(zip(*(owned[c].to_pylist() for c in COLUMNS), strict=True))
    assert wanted.total() > 0
    assert found == wanted
