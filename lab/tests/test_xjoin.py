"""XJoin against the plain join: no pair doubled, none missing, whatever is flushed and when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.policies.arrays import Bools, Int64s
from braided.query.errors import BraidedError
from braided_lab.xjoin import XJoin
from braided_lab.xjoin_stamps import NEVER, Runs, Stamps, produced

SCHEMA = pa.schema([("k", pa.int64()), ("id", pa.int64())])
BATCH_ROWS = (0, 1, 2, 7, 49, 50, 51)


def keys(rng: np.random.Generator, rows: int, skewed: bool) -> Int64s:
    drawn = rng.zipf(1.5, rows) if skewed else rng.integers(0, 60, rows)
    return np.minimum(drawn, 200).astype(np.int64)


def rows_of(ks: Int64s) -> pa.RecordBatch:
    return pa.record_batch({"k": ks, "id": np.arange(len(ks))}, schema=SCHEMA)


def cut(rng: np.random.Generator, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch | None]:
    """In batches of all sizes; sometimes there is none."""
    at = 0
    while at < batch.num_rows:
        rows = int(rng.choice(BATCH_ROWS))
        yield batch.slice(at, rows) if rows or rng.random() < 0.5 else None
        at += rows


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(table["l_id"].to_pylist(), table["r_id"].to_pylist(), strict=True))


def plain_join(left: Int64s, right: Int64s) -> list[tuple[int, int]]:
    return sorted(zip(*(ids.tolist() for ids in np.nonzero(left[:, None] == right[None, :])), strict=True))


def xjoin(memory_rows: int | None, folder: Path | None, partitions: int = 8) -> XJoin:
    return XJoin(SCHEMA, SCHEMA, "k", memory_rows, folder, partitions)


def run(join: XJoin, parts: tuple[list[pa.RecordBatch | None], ...], rng: np.random.Generator) -> pa.Table:
    """Push all batches, now of both streams, now of one; with idle times at any moment."""
    found, (left, right) = [], parts
    while left or right:
        which = rng.integers(0, 3)
        found.append(
            join.push(left.pop(0) if left and which != 1 else None, right.pop(0) if right and which else None)
        )
        while rng.random() < 0.4:
            found.append(join.idle(int(rng.choice([1, 20, 1000]))))
    return pa.concat_tables([*found, join.finish()])


@pytest.mark.parametrize("memory_rows", [None, 1, 7, 50, 150, 10_000])
@pytest.mark.parametrize("skewed", [False, True])
def test_oracle_every_budget_and_order_gives_the_plain_join(
    memory_rows: int | None, skewed: bool, tmp_path: Path
) -> None:
    for seed in range(12):
        rng = np.random.default_rng([seed, skewed, memory_rows or 0])
        ks = keys(rng, int(rng.integers(0, 200)), skewed), keys(rng, int(rng.integers(1, 200)), skewed)
        join = xjoin(memory_rows, tmp_path, partitions=int(rng.choice([1, 2, 8, 32])))
        parts = tuple(list(cut(rng, rows_of(k))) for k in ks)
        assert pairs(run(join, parts, rng)) == plain_join(*ks), seed
    assert not list(tmp_path.iterdir())


def test_every_stage_finds_some_and_the_budget_is_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    ks = keys(rng, 900, False), keys(rng, 900, False)
    join, found = xjoin(100, tmp_path), []
    for start in range(0, 900, 90):
        found.append(join.push(*(rows_of(k).slice(start, 90) for k in ks)))
        found.append(join.idle(50))
        counted = join.counters
        assert counted.memory_rows <= 100
        assert counted.memory_rows + counted.disk_rows == 2 * (start + 90)
        assert join._left.memory.side.rows + join._right.memory.side.rows <= 140
    found.append(join.finish())
    assert pairs(pa.concat_tables(found)) == plain_join(*ks)
    done = join.counters
    assert min(done.results) > 0
    assert sum(done.results) == sum(t.num_rows for t in found)
    assert done.written_bytes > done.disk_rows * 24
    assert done.read_bytes > done.written_bytes  # some portions were read by idle, all of them by finish
    assert done.compared >= sum(done.results)


def test_idle_finds_no_pair_twice_and_reads_nothing_without_promise(tmp_path: Path) -> None:
    join = xjoin(4, tmp_path, partitions=1)
    ones = rows_of(np.ones(4, np.int64))
    join.push(ones, None)
    join.push(None, ones.slice(0, 3))  # the left rows are flushed; these arrive after that
    assert join.idle(100).num_rows == 12
    read = join.counters.read_bytes
    assert join.idle(100).num_rows == 0
    assert join.counters.read_bytes == read
    join.push(None, ones.slice(3))
    assert join.idle(100).num_rows == 4  # only the new row is to be met
    assert join.finish().num_rows == 0


def test_idle_reads_no_more_rows_than_it_may_but_for_the_first_portion(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    join = xjoin(60, tmp_path)
    join.push(rows_of(keys(rng, 200, False)), rows_of(keys(rng, 200, False)))
    before = join.counters.read_bytes
    join.idle(0)
    one = join.counters.read_bytes - before
    assert 0 < one < join.counters.written_bytes / 4
    join.idle(10_000)
    assert join.counters.read_bytes - before > 2 * one


def test_the_largest_portion_of_either_stream_is_flushed(tmp_path: Path) -> None:
    join = xjoin(10, tmp_path)
    join.push(rows_of(np.arange(3)), rows_of(np.full(7, 5)))
    join.push(rows_of(np.arange(1)), None)
    assert join.counters.disk_rows == 7
    assert join._left.memory.rows == 4


@pytest.mark.parametrize("memory_rows", [None, 1_000])
def test_in_memory_it_does_the_engines_work_and_touches_no_file(
    memory_rows: int | None, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    ks = keys(rng, 400, True), keys(rng, 400, True)
    join = xjoin(memory_rows, tmp_path)
    query = bd.JoinQuery([bd.Stream("l", key="k"), bd.Stream("r", key="k")], tuning=bd.Tuning(index="hash"))
    engine = bd.LocalJoin(query)
    for start in range(0, 400, 50):
        left, right = (rows_of(k).slice(start, 50) for k in ks)
        assert pairs(join.push(left, right)) == pairs(engine.push({"l": left, "r": right}))
    assert join.counters.probes == sum(h.probes for h in engine.stats().half_joins.values())
    assert join.counters.inserts == 800
    assert join.counters.flushes == join.idle(100).num_rows == join.finish().num_rows == 0
    assert not list(tmp_path.iterdir())


def test_columns_of_all_kinds_and_null_keys_survive_the_disk(tmp_path: Path) -> None:
    left = pa.record_batch({"k": [1, 2, None, 3], "a": ["x", None, "z", ""], "b": [True, None, False, True]})
    right = pa.record_batch({"k": pa.array([3, None, 2, 1], pa.int16()), "c": [[1], None, [2, 3], []]})
    for memory_rows in (None, 1, 3):
        join = XJoin(left.schema, right.schema, "k", memory_rows, tmp_path, 2)
        found = pa.concat_tables([join.push(left, None), join.push(None, right), join.finish()])
        assert found.sort_by("l_k").to_pydict() == {
            "l_k": [1, 2, 3], "l_a": ["x", None, ""], "l_b": [True, None, True],
            "r_k": [1, 2, 3], "r_c": [[], [2, 3], [1]],
        }  # fmt: skip


def naively_produced(left: Stamps, right: Stamps, runs: tuple[Runs, Runs]) -> Bools:
    """The rule as it is written, for each pair."""

    def one(a: tuple[int, int], b: tuple[int, int]) -> bool:
        stage_1 = a[0] < b[1] and b[0] < a[1]
        stage_2 = (
            x[1] <= last and y[0] <= probed < y[1]
            for x, y, own in ((a, b, runs[0]), (b, a, runs[1]))
            for last, probed in zip(own.last_departures, own.probed_at, strict=True)
        )
        return stage_1 or any(stage_2)

    stamps = [list(zip(s.arrived.tolist(), s.departed.tolist(), strict=True)) for s in (left, right)]
    return np.array([one(a, b) for a, b in zip(*stamps, strict=True)])


def test_differential_the_rule_by_columns_is_the_rule_by_pairs() -> None:
    rng = np.random.default_rng(3)

    def stamps() -> Stamps:
        arrived = rng.integers(0, 50, 200)
        departed = arrived + rng.integers(1, 40, 200)
        return Stamps(arrived, np.where(rng.random(200) < 0.3, NEVER, departed))

    def some_runs() -> Runs:
        runs, many = Runs(), int(rng.integers(0, 6))
        probed = np.sort(rng.choice(100, many, replace=False))
        for last, at in zip(np.sort(rng.integers(0, 90, many)), probed, strict=True):
            runs.add(last_departure=int(min(last, at)), probed_at=int(at))
        return runs

    for _ in range(100):
        left, right, runs = stamps(), stamps(), (some_runs(), some_runs())
        assert (produced((left, right), runs) == naively_produced(left, right, runs)).all()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"memory_rows": 0}, "memory_rows must be at least 1; got 0"),
        ({"folder": None}, "must be a folder"),
        ({"partitions": 3}, "power of two; got 3"),
        ({"key": "kk"}, "did you mean 'k'"),
        ({"left_schema": pa.schema([("k", pa.string())])}, "must be an integer; got string"),
        ({"left_schema": SCHEMA.append(pa.field("v", pa.string_view()))}, "'v' has type string_view"),
    ],
)
def test_what_cannot_be_meant_is_said_at_once(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "left_schema": SCHEMA,
        "right_schema": SCHEMA,
        "key": "k",
        "memory_rows": 5,
        "folder": tmp_path,
    }
    with pytest.raises(BraidedError, match=said):
        XJoin(**{**given, **changed})


def test_batches_of_another_schema_and_calls_after_the_end_raise(tmp_path: Path) -> None:
    join = xjoin(5, tmp_path)
    with pytest.raises(BraidedError, match="left must have the schema"):
        join.push(pa.record_batch({"k": [1]}), None)
    join.finish()
    for call, given in ((join.push, (None, None)), (join.idle, (1,)), (join.finish, ())):
        with pytest.raises(BraidedError, match="has finished"):
            call(*given)
