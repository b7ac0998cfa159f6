"""A memory budget beside windows that count rows by key: the same bag, and rows pushed out of them go."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import braided as bd
from braided.query.errors import InvalidValue
from braided.testing import assert_same_bag, expected
from tests.engine.spill.test_spilling import FLUSHES, small
from tests.promised import batches_of
from tests.seeds import seeds
from tests.workloads import names_of, random_tables


def counted(name: str, rows: int | None, window: str = "unbounded") -> bd.Stream:
    """A stream whose rows are counted by key, or that has another window."""
    kept: Any = window if rows is None else bd.CountWindow(rows)
    return bd.Stream(name, "k", time="t", window=kept, lateness="12 us")


def held(live: bd.LocalJoin) -> int:
    """Rows in memory and on disk."""
    return sum(s.live_rows + s.spilled_rows for s in live.stats().streams.values())


@pytest.mark.parametrize("flush", FLUSHES)
@pytest.mark.parametrize("turn", seeds(3))
def test_oracle_every_flush(flush: Any, turn: int) -> None:
    seed = 5 * turn + FLUSHES.index(flush)
    rng = np.random.default_rng(seed)
    names = names_of(2 + seed % 2)
    tables = random_tables(seed, names, rows=50, keys=(8, 16)[seed % 2], span_us=(200, 40)[seed // 2 % 2])
    sizes = [int(rng.integers(1, 9)), *(None if rng.random() < 0.4 else 2 for _ in names[1:])]
    windows = rng.choice(["unbounded", "20 us"], len(names)).tolist()
    streams = [counted(*of) for of in zip(names, sizes, windows, strict=True)]
    memory = dataclasses.replace(small(seed, flush=flush, defer=(True, False)[seed // 2 % 2]), limit=4096)
    query = bd.JoinQuery(streams, where="s0.n > s1.n" if seed % 3 == 1 else None, memory=memory)
    wanted = expected(query, tables)
    for rows in (3, 11):
        live, found, spilled = bd.LocalJoin(query), [], 0
        for batch in batches_of(tables, rows):
            found.append(live.push(batch))
            spilled = max(spilled, sum(s.spilled_rows for s in live.stats().streams.values()))
            if rng.random() < 0.3:
                found.append(live.push({}))
            if rng.random() < 0.2 and not memory.one_sided:
                live = bd.LocalJoin(query).restore(live.snapshot())
        found.append(live.end())
        assert spilled > 0
        assert_same_bag(pa.concat_tables([t for t in found if t.num_columns]), wanted)


@pytest.mark.parametrize("seed", [*seeds(4), 29])
def test_oracle_rows_that_waited_are_owed_though_a_batch_brings_none(seed: int) -> None:
    """A stream is idle, so the watermark moves: rows that waited are joined, with rows on disk, too."""
    tables = {
        name: table.sort_by("t")
        for name, table in random_tables(seed, names_of(3), rows=80, keys=8, span_us=200).items()
    }
    first = pc.field("t") < pa.scalar(100, pa.int64()).cast(pa.timestamp("us"))
    early, later = ({n: t.filter(which) for n, t in tables.items()} for which in (first, ~first))
    streams = [
        dataclasses.replace(s, idle_after="5 seconds")
        for s in (counted("s0", 1), counted("s1", None, "30 us"), counted("s2", 4))
    ]
    memory = dataclasses.replace(small(seed, flush="adaptive-global", defer=True), limit=4096)
    query, later = bd.JoinQuery(streams, memory=memory), {**later, "s0": later["s0"].slice(0, 0)}
    live = bd.LocalJoin(query)
    found = [live.push(early, now=1000), live.push(later, now=1004)]
    found += [live.push({}, now=1004) for _ in range(9)]  # nothing is owed any more
    assert sum(s.spilled_rows for s in live.stats().streams.values()) > 0
    before = live.stats().watermark_us
    found += [live.push({}, now=1006), live.push({}, now=1007)]
    assert (live.stats().watermark_us or 0) > (before or 0)
    found.append(live.end())
    came = {n: pa.concat_tables([early[n], later[n]]) for n in tables}
    assert_same_bag(pa.concat_tables([t for t in found if t.num_columns]), expected(query, came))


def lasting(
    memory: bd.Memory | None, batches: int, *, silent: range = range(0), keys: int = 60
) -> tuple[bd.LocalJoin, int]:
    """A join after many batches of two streams, of which one is silent for a while, and its results."""
    streams = [counted("a", 3), counted("b", 2)]
    live, rng, results = bd.LocalJoin(bd.JoinQuery(streams, memory=memory)), np.random.default_rng(3), 0
    for number in range(batches):
        batch = {}
        for name in ("a", "b"):
            times = pa.array(np.sort(100 * number + rng.integers(0, 100, 200)), pa.timestamp("us"))
            if name == "a" or number not in silent:
                batch[name] = pa.table({"k": rng.integers(0, keys, 200), "t": times, "v": ["x" * 40] * 200})
        results += live.push(batch).num_rows
    return live, results


@pytest.mark.parametrize("silent", [range(0), range(20, 40)])
@pytest.mark.parametrize("defer", [False, True])
def test_rows_that_newer_ones_push_out_go_from_disk_too(defer: bool, silent: range) -> None:
    without, wanted = lasting(None, 60, silent=silent)
    live, found = lasting(bd.Memory(12_000, defer=defer), 60, silent=silent)
    assert sum(s.spilled_rows for s in live.stats().streams.values()) > 0
    assert held(live) <= 2 * held(without) + 400, (held(live), held(without))  # with a batch's rows
    assert found + live.end().num_rows == wanted + without.end().num_rows


def test_rows_of_one_time_stay_together() -> None:
    times = [1, 3, 3, 7, 7, 7, 9]
    table = pa.table({"k": [1] * 7, "n": range(7), "t": pa.array(times, pa.timestamp("us"))})
    for rows in (1, 2, 3):
        streams = [counted("a", rows), counted("b", None)]
        query = bd.JoinQuery(streams, memory=bd.Memory(4096, defer=False))
        tables = {"a": table, "b": table}
        live = bd.LocalJoin(query)
        found = [live.push({n: t.slice(i, 1) for n, t in tables.items()}) for i in range(7)]
        found.append(live.end())
        assert_same_bag(pa.concat_tables([t for t in found if t.num_columns]), expected(query, tables))


def test_rows_that_wait_count() -> None:
    streams = [bd.Stream(n, "k", time="t", window=bd.CountWindow(3), lateness="1 hour") for n in "ab"]
    live = bd.LocalJoin(bd.JoinQuery(streams, memory=bd.Memory("1 MB")))
    rows = 1000
    table = pa.table(
        {"k": range(rows), "t": pa.array(range(rows), pa.timestamp("us")), "v": ["x" * 40] * rows}
    )
    live.push({"a": table})
    engine = live._engine
    assert engine.core.features.get("spill").room.held > 60 * rows


def test_a_window_of_the_whole_stream_is_refused() -> None:
    streams = [bd.Stream("a", "k", time="t", window=bd.CountWindow(3, per="stream")), counted("b", None)]
    with pytest.raises(
        InvalidValue, match="counts rows by key; one of the stream's holds no more than these"
    ):
        bd.JoinQuery(streams, memory=bd.Memory("1 MB"))
