"""A window of zero: rows with equal times meet. It was refused, though bounds of zero were not."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.jobs import load
from braided.testing import assert_same_bag, expected
from tests.jobs.files import GOOD, write
from tests.promised import batches_of
from tests.seeds import seeds
from tests.spark.test_bucket import Cluster
from tests.workloads import LATENESS_US, names_of

ZERO: tuple[Any, ...] = ("0 seconds", dt.timedelta(0), "0 ms")


def tied_tables(seed: int, names: list[str], rows: int) -> dict[str, pa.Table]:
    """Many rows a time, a little out of order."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, rows // 2, (len(names), rows))) + rng.integers(0, LATENESS_US // 2, rows)
    return {
        name: pa.table({"k": rng.integers(0, 2, rows), "t": times[i], "n": np.arange(rows)})
        for i, name in enumerate(names)
    }


def query_of(seed: int, names: list[str], **options: Any) -> bd.JoinQuery:
    """All windows zero, or one of them longer."""
    windows = [ZERO[(seed + i) % 3] for i in range(len(names))]
    if seed % 2:
        windows[seed % len(names)] = "5 us"
    streams = [
        bd.Stream(n, "k", time="t", window=w, lateness=f"{LATENESS_US} us")
        for n, w in zip(names, windows, strict=True)
    ]
    return bd.JoinQuery(streams, **options)


@pytest.mark.parametrize("seed", seeds(6))
def test_oracle_zero_windows(seed: int) -> None:
    names = names_of(2 + seed % 3)
    options: dict[str, Any] = {"plan": ("mjoin", "linear")[seed // 3 % 2]}
    if seed % 4 == 3:
        options["memory"] = bd.Memory(6_000)
    query, tables = query_of(seed, names, **options), tied_tables(seed, names, 40)
    wanted = expected(query, tables)
    assert wanted.num_rows > 10
    live, found = bd.LocalJoin(query), []
    for number, batch in enumerate(batches_of(tables, 4 + seed)):
        found.append(live.push(batch))
        if number % 3 == 0:
            live = bd.LocalJoin(query).restore(live.snapshot())
    found.append(live.end())
    assert_same_bag(pa.concat_tables(found), wanted)


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_zero_windows_in_buckets(seed: int) -> None:
    names = names_of(2 + seed)
    query, tables = query_of(seed, names), tied_tables(seed, names, 40)
    made = Cluster(query, tables)
    found = [made.push(batch) for batch in batches_of(tables, 7)]
    assert_same_bag(pa.concat_tables(found), expected(query, tables))


@pytest.mark.parametrize("seed", seeds(4))
def test_oracle_bounds_of_zero(seed: int) -> None:
    names = names_of(2 + seed % 2)
    streams = [bd.Stream(n, "k", time="t", lateness=f"{LATENESS_US} us") for n in names]
    bounds: Any = dict.fromkeys(itertools.pairwise(names), "0 seconds")
    query, tables = bd.JoinQuery(streams, within=bounds), tied_tables(seed, names, 60)
    assert_same_bag(bd.run_local(query, tables), expected(query, tables))
    zero = bd.JoinQuery([bd.Stream(n, "k", time="t", window="0 s", lateness="1 ms") for n in names])
    assert_same_bag(bd.run_local(zero, tables), expected(query, tables))


def test_rows_of_a_zero_window_go_when_the_watermark_has_passed_them() -> None:
    live = bd.LocalJoin(bd.JoinQuery([bd.Stream(n, "k", time="t", window="0 seconds") for n in "ab"]))
    for time in range(50):
        table = pa.table({"k": [1, 2], "t": [time, time]})
        assert live.push({"a": table, "b": table}).num_rows == 2
        held = [s.live_rows for s in live.stats().streams.values()]
        assert max(held) <= 4, held
    assert live.push({"a": pa.table({"k": [1], "t": [49]})}).num_rows == 1  # at the watermark, and not late


def test_zero_windows_in_sql_and_job_files(tmp_path: Path) -> None:
    wanted = bd.JoinQuery([bd.Stream(n, "k", time="t", window="0 seconds") for n in "ab"])
    assert wanted == bd.sql(
        "SELECT * FROM a TIME t WINDOW '0 seconds' JOIN b TIME t WINDOW '0 ms' ON a.k = b.k"
    )
    assert bd.JoinQuery.from_dict(wanted.to_dict()) == wanted
    text = GOOD.replace("window: 1 hour", "window: 0 seconds")
    assert text != GOOD
    assert load(write(tmp_path, text)).query.streams[1].window_us == 0
    assert "0 seconds" in wanted.explain()
