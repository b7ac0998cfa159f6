"""What a checkpoint owes when nothing more arrives, without Spark: from grids, hot keys and every epoch."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.operators.layout import key_format_of
from braided.query.layout import HotKey, Layout, choose
from braided.spark import epochs
from braided.spark.plan import JoinPlan
from braided.spark.storage.cold import cold_pieces
from braided.spark.wire import blobs
from braided.spark.wire.pack import pack
from braided.spark.wire.packed import packed_rows
from tests.spark.simulator import Simulator

SCHEMA = pa.schema([(c, pa.int64()) for c in ("k", "m", "id")] + [("t", pa.timestamp("us"))])
NAMES = ("a", "b", "c")


def query(window: str = "500 us", on: Any = None) -> bd.JoinQuery:
    key = "k" if on is None else None
    streams = [bd.Stream(n, key, time="t", window=window, lateness="5 us") for n in NAMES]
    return bd.JoinQuery(streams, on, memory=bd.Memory(4096, defer=True, groups=4, disk_rate=3e5))


def tables(rng: np.random.Generator, since: int, rows: int = 60) -> dict[str, pa.Table]:
    return {
        name: pa.table(
            {
                "k": rng.integers(0, 20, rows), "m": rng.integers(0, 20, rows),
                "id": np.arange(rows) + 1000 * since, "t": since + rng.integers(0, 50, rows),
            }
        ).cast(SCHEMA)
        for name in NAMES
    }  # fmt: skip


def spread(asked: bd.JoinQuery) -> Layout:
    layout = choose(asked, 4)
    plan = JoinPlan(asked, (SCHEMA,) * 3, 4, "flag", layout=layout)
    (hash_,) = key_format_of(layout.dimensions[0].key, plan.layouts).hashes([pa.array([3])], 1).tolist()
    return dataclasses.replace(layout, hot_keys=(HotKey(hash_, "a", 3),))


@pytest.mark.parametrize("what", ["a grid", "hot keys", "epochs"])
def test_what_is_owed_comes_out_whatever_the_layout_and_epoch(what: str) -> None:
    """`finish` asked whether the state was that of a first start with the default layout, and refused."""
    rng = np.random.default_rng(1)
    asked = query(on=[("a.k", "b.k"), ("b.m", "c.m")]) if what == "a grid" else query()
    layout = spread(asked) if what == "hot keys" else choose(asked, 4, {"a": 1, "b": 1, "c": 99})
    simulator = Simulator(rng, dict.fromkeys(NAMES, SCHEMA), calm=True)
    simulator.start(asked, 4, layout)
    for since in (1, 40):
        simulator.batch(tables(rng, since))
    if what == "epochs":
        simulator.start(query("300 us"), 4)
        for since in (80, 560, 620):  # the new one begins at 591
            simulator.batch(tables(rng, since))
        assert simulator.plan is not None
        assert len(simulator.plan.live) == 2
    assert sum(table.num_rows for table in simulator.owed()) > 0
    simulator.check()
    if what == "epochs":  # time passes the old one, which goes only once it owes nothing
        simulator.batch(tables(rng, 5000))
        simulator.start(query("300 us"), 4)
        simulator.batch(tables(rng, 5010))
        simulator.check()


@pytest.mark.parametrize(
    "memory", [None, bd.Memory(4096, defer=False, groups=4), bd.Memory(4096, defer=True)]
)
def test_rows_that_wait_in_count_windows_come_out_at_the_end(memory: bd.Memory | None) -> None:
    rng = np.random.default_rng(2)
    streams = [bd.Stream(n, "k", time="t", window=bd.CountWindow(2), lateness="40 us") for n in NAMES]
    simulator = Simulator(rng, dict.fromkeys(NAMES, SCHEMA), calm=True)
    simulator.start(bd.JoinQuery(streams, memory=memory), 4)
    for since in range(1, 200, 20):
        simulator.batch(tables(rng, since, rows=40))
    assert sum(table.num_rows for table in simulator.owed()) > 0
    assert bool(memory) == any(cold_pieces(meta) for meta in simulator.metas().values())
    assert sum(simulator.held().values()) <= 2 * 3 * (20 * 2 + 5 * 40)  # twice what is inside, and what waits
    simulator.check()


def test_rows_of_a_hot_key_go_to_the_same_cells_in_whatever_order_they_are_packed() -> None:
    """Buckets may read what different attempts at packing wrote."""
    rng = np.random.default_rng(1)
    asked = query()
    plan = JoinPlan(asked, (SCHEMA,) * 3, 4, "flag", layout=spread(asked))
    rows = tables(rng, 1)["a"].set_column(0, "k", pa.array([3] * 60))

    def cells(table: pa.Table) -> dict[int, set[int]]:
        packed = [row for row in packed_rows(pack(plan, 0, iter(table.to_batches()))) if row.blob is not None]
        return {row.bucket: set(blobs.decode(row.blob or b"")["id"].to_pylist()) for row in packed}

    assert len(cells(rows)) == 3
    assert cells(rows) == cells(rows.take(rng.permutation(60)))


def test_a_hot_key_that_was_found_and_one_that_is_declared_plan_the_same_batches() -> None:
    asked = query()
    plans = []
    for text in ("3", ""):
        layout = spread(asked)
        hot = tuple(dataclasses.replace(key, text=text) for key in layout.hot_keys)
        layout = dataclasses.replace(layout, hot_keys=hot)
        plans.append(JoinPlan(asked, (SCHEMA,) * 3, 4, "flag", layout=layout))
    assert len({epochs.fingerprint(plan) for plan in plans}) == 1
    assert epochs.fingerprint(JoinPlan(asked, (SCHEMA,) * 3, 4, "flag")) != epochs.fingerprint(plans[0])
