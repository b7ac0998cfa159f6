"""Promises about one of several keys on Spark, where a cell of the grid sees a part of a stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import braided as bd
from braided.query.checks import streaming_problems
from braided.query.errors import BrokenPromise
from braided.query.layout import choose, explain_layout, layout_lines
from braided.spark.storage import folders
from braided.testing import assert_same_bag
from braided.testing.samples.files import add_file
from tests.engine.promises.test_several_keys import SHAPES, STAR, columns_of, run, the_oracle, workload
from tests.promised import KINDS, batches_of, plainly
from tests.seeds import seeds
from tests.spark.test_bucket import Cluster
from tests.spark.test_promises import stored_rows


@pytest.fixture(autouse=True)
def own_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    return tmp_path / "arenas"


@pytest.mark.parametrize("arena", [True, False], ids=["kept", "rebuilt"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", seeds(2))
def test_oracle_cells_of_a_grid_give_the_same_bag(seed: int, shape: str, arena: bool) -> None:
    key_type = "string" if seed % 4 == 3 else "int64"
    query, tables = workload(seed, SHAPES[shape], key_type=key_type, tuning=bd.Tuning(purge="immediate"))
    made = Cluster(query, tables, arena=arena)
    found = [made.push_twice(batch) for batch in batches_of(tables, 3)]
    assert_same_bag(pa.concat_tables(found), the_oracle(query, tables))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", seeds(1))
def test_oracle_cells_go_on_with_another_plan(seed: int, shape: str) -> None:
    query, tables = workload(seed + 50, SHAPES[shape], tuning=bd.Tuning(purge="immediate"))
    both = [Cluster(dataclasses.replace(query, plan=plan), tables) for plan in ("mjoin", "linear")]
    found = []
    for at, batch in enumerate(batches_of(tables, 3)):
        both[at % 2].states = both[at % 2 - 1].states
        found.append(both[at % 2].push(batch))
    assert_same_bag(pa.concat_tables(found), the_oracle(query, tables))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", seeds(2))
def test_cells_hold_no_more_than_one_engine_would(seed: int, shape: str) -> None:
    """But for ordered streams: a cell knows the largest key among its own."""
    rng, on = np.random.default_rng(seed), SHAPES[shape]
    allowed = [kind for kind in KINDS if kind not in ("ordered", "descending")]
    kinds = {name: str(rng.choice(allowed)) for name in columns_of(on)}
    query, tables = workload(seed, on, kinds=kinds, tuning=bd.Tuning(purge="immediate"))
    made = Cluster(query, tables)
    for batch in batches_of(tables, 3):
        made.push(batch)
    _, alone = run(query, tables, 3)
    held = stored_rows(made)
    for name, of_stream in alone.stats().streams.items():
        assert held[name] <= of_stream.live_rows * made.plan.grid.copies(name)


@pytest.mark.parametrize("kind", ["clustered", "unique"])
def test_what_a_cell_does_not_get_it_is_told(kind: str) -> None:
    """Rows of a value go to cells by another column, too: none must think that they are over, all must know.

    Of b, clustered by x, the rows of x = 1 go to other cells in every batch.
    """
    unique = kind == "unique"
    streams = [
        bd.Stream("a", punctuation="p"),
        bd.Stream("b", "x", unique=unique, arrival="any" if unique else "clustered"),
        bd.Stream("c", punctuation="p"),
    ]
    query = bd.JoinQuery(streams, [("a.x", "b.x"), ("b.y", "c.y")], tuning=bd.Tuning(purge="immediate"))

    def batch(
        b: Sequence[tuple[int, int]] = (), a: Sequence[int] = (), c: Sequence[int] = (), *, over: bool = False
    ) -> dict[str, pa.Table]:
        columns = {"x": [x for x, _ in b], "y": [y for _, y in b]}
        return {
            "a": pa.table({"x": pa.array(a, pa.int64()), "p": pa.array([False] * len(a), pa.bool_())}),
            "b": pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}),
            "c": pa.table({"y": pa.array(c, pa.int64()), "p": pa.array([over] * len(c), pa.bool_())}),
        }

    made, ys = Cluster(query, batch()), range(12)
    assert made.plan.grid.tells("b", query.promised(query.streams[1]))
    made.push(batch(a=[1, 2], c=ys))
    made.push(batch(c=ys, over=True))
    for y in [3] if unique else ys:
        assert made.push(batch([(1, y)])).num_rows == 1
    if not unique:
        made.push(batch([(2, 0)]))  # so x = 1 is over, in all cells
    copies = made.plan.grid.copies("a")
    assert copies > 1
    assert stored_rows(made)["a"] == copies  # a's row with x = 1 has gone everywhere
    for y in ys:
        with pytest.raises(BrokenPromise, match="stream 'b': a row with key 1 came"):
            made.push(batch([(1, y)]))


def test_punctuations_reach_every_cell_of_their_value() -> None:
    names = ("a", "b", "c")
    streams = [bd.Stream(n, "x" if n == "b" else None, punctuation="p") for n in names]
    query = bd.JoinQuery(streams, [("a.x", "b.x"), ("b.y", "c.y")], tuning=bd.Tuning(purge="immediate"))
    keys = list(range(20))
    nothing, no = pa.nulls(20, pa.int64()), [False] * 20
    rows = {
        "a": pa.table({"x": keys, "p": no}),
        "b": pa.table({"x": keys, "y": keys[::-1], "p": no}),
        "c": pa.table({"y": keys, "p": no}),
    }
    over = {
        "a": pa.table({"x": keys, "p": [True] * 20}),
        "b": pa.table({"x": keys, "y": nothing, "p": [True] * 20}),
        "c": pa.table({"y": keys, "p": [True] * 20}),
    }
    made = Cluster(query, rows)
    assert made.push(rows).num_rows == 20
    made.push(over)
    assert stored_rows(made) == {"a": 0, "b": 0, "c": 20 * made.plan.grid.copies("c")}
    made.reports.clear()
    made.beat()
    assert {n: s.punctuations for n, s in made.seen().streams.items()} == dict.fromkeys(names, 20)


def test_stages_use_no_promise_about_one_of_several_keys_and_say_so() -> None:
    streams = [bd.Stream("a", punctuation="p"), bd.Stream("b"), bd.Stream("c")]
    query = bd.JoinQuery(streams, [("a.x", "b.x"), ("b.y", "c.y")])
    layout = choose(query, 8)
    assert "  what streams promise is not used in stages" in layout_lines(query, layout, True)
    assert "a grid (" in next(explain_layout(query, 64))
    assert [wrong.stream for wrong in streaming_problems(query)] == ["b", "c"]
    assert [wrong.stream for wrong in streaming_problems(query, staged=True)] == ["a", "b", "c"]


def test_a_streaming_join_of_several_keys_forgets_what_is_complete(spark: Any, tmp_path: Path) -> None:
    """Orders of customers and items over two runs of one checkpoint: exact, and only items stay."""
    streams = [
        bd.Stream("orders", "customer", punctuation="over"),
        bd.Stream("customers", unique=True, window="unbounded"),
        bd.Stream("items", punctuation="over"),
    ]
    query = bd.JoinQuery(streams, STAR)
    types = {"orders": "customer long, item long, over boolean", "customers": "id long"}
    everything: dict[str, list[pa.Table]] = {name: [] for name in query.names}
    items = np.arange(50)
    for batch in range(4):
        customers = np.arange(batch * 100, batch * 100 + 100)
        flags = np.repeat([False, True], [200, 100])
        ordered = np.concatenate([np.repeat(customers, 2), customers - 100])
        item = pa.array(np.concatenate([np.tile(items, 4), np.zeros(100, np.int64)]), mask=flags)
        sold = np.repeat([batch > 0], 50)
        tables = {
            "orders": pa.table({"customer": ordered, "item": item, "over": flags}),
            "customers": pa.table({"id": customers}),
            "items": pa.table({"id": items, "over": sold}),
        }
        for name, table in tables.items():
            everything[name].append(table)
            (tmp_path / name).mkdir(exist_ok=True)
            add_file(tmp_path / name, batch, table)
        if batch % 2:
            frames = {
                name: spark.readStream.schema(types.get(name, "id long, over boolean"))
                .option("maxFilesPerTrigger", 1)
                .parquet(str(tmp_path / name))
                for name in query.names
            }
            streaming = (
                bd.spark.join(query, frames, buckets=4)
                .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(tmp_path / "out"), format="parquet")
            )
            streaming.awaitTermination()
            seen = bd.spark.metrics(streaming)
    found = spark.read.parquet(str(tmp_path / "out")).toArrow()
    whole = {name: pa.concat_tables(parts) for name, parts in everything.items()}
    assert found.num_rows == 800
    data = {n: t if n == "customers" else t.filter(pc.invert(t["over"])) for n, t in whole.items()}
    assert_same_bag(
        found,
        bd.run_local(
            plainly(query), {n: t.select([c for c in t.column_names if c != "over"]) for n, t in data.items()}
        ),
    )
    at_once = bd.spark.join(query, {n: spark.createDataFrame(t) for n, t in whole.items()}).toArrow()
    assert_same_bag(at_once, found)
    assert seen.streams["orders"].punctuations == 400
    stored = bd.spark.inspect_state(str(tmp_path / "checkpoint")).rows
    assert stored["orders"] <= 400
    assert stored["customers"] <= 600
    assert seen.streams["orders"].purged_rows >= 400
