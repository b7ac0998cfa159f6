"""Between stages: rows reach the bucket of their next key, and every bucket hears of every leaf stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.spark.plan import JoinPlan
from braided.spark.wire import blobs, bucketing
from braided.spark.wire.labels import labels
from braided.spark.wire.pack import pack, repack, tell
from braided.spark.wire.packed import Emitted, packed_rows, to_arrow
from braided.testing import bag
from tests.workloads import names_of, random_tables, stream

BUCKETS = 4
NAMES = names_of(2)


def plan_of(tables: dict[str, pa.Table]) -> JoinPlan:
    query = bd.JoinQuery([stream(n) for n in NAMES])
    return JoinPlan(query, tuple(tables[n].schema for n in NAMES), BUCKETS, "drop")


def handed_on(tables: list[pa.Table], newest: list[list[int | None] | None]) -> list[pa.RecordBatch]:
    """What a task of a stage hands on: blobs, and what its buckets know."""
    rows = [Emitted(blobs.encode(b)) for t in tables for b in t.to_batches()]
    return [to_arrow([*rows, *(Emitted(leaves_us=n) for n in newest)])]


def rows_of(packed: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row._asdict() for row in packed_rows(packed)]


@pytest.mark.parametrize("key_type", ["int64", "string"])
@pytest.mark.parametrize("flush", [1, 64 << 20])
def test_a_row_goes_where_a_leaf_streams_row_with_its_key_goes(
    key_type: str, flush: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucketing, "_FLUSH_BYTES", flush)
    tables = random_tables(1, NAMES, rows=200, key_type=key_type, nulls=False)
    plan = plan_of(tables)
    parts = [tables["s0"].slice(0, 90), tables["s0"].slice(90)]
    again = rows_of(list(repack(plan, 0, iter(handed_on(parts, [[1, 2, 3]])))))
    packed = rows_of(list(pack(plan, 0, iter(tables["s0"].to_batches()))))
    for label in labels(BUCKETS):
        found = [
            pa.Table.from_batches(
                [blobs.decode(r["blob"]) for r in rows if r["bucket"] == label and r["blob"]]
            )
            for rows in (again, packed)
        ]
        assert bag(found[0]) == bag(found[1])
    assert [r["seq"] for r in again if r["blob"]] == list(range(sum(r["blob"] is not None for r in again)))


def test_control_rows_count_and_tell_the_newest_times_of_all_buckets() -> None:
    tables = random_tables(1, NAMES, rows=100, nulls=False)
    plan = plan_of(tables)
    newest: list[list[int | None] | None] = [[5, None, 9], [5, 0, 9]]
    packed = rows_of(list(repack(plan, 0, iter(handed_on([tables["s0"]], newest)))))
    control = [r for r in packed if r["blob"] is None]
    assert [r["bucket"] for r in control] == list(labels(BUCKETS))
    assert all(r["leaves_us"] == [5, 0, 9] for r in control)
    assert sum(r["rows_in"] for r in control) == tables["s0"].num_rows
    assert all(r["rows_total"] == tables["s0"].num_rows for r in control)
    for r in control:
        sent = [blobs.decode(p["blob"]).num_rows for p in packed if p["blob"] and p["bucket"] == r["bucket"]]
        assert r["rows_upto"] - r["rows_before"] == sum(sent)


def test_a_task_that_found_nothing_still_tells_every_bucket() -> None:
    plan = plan_of(random_tables(1, NAMES))
    told = rows_of(list(repack(plan, 0, iter(handed_on([], [[7, None, None]])))))
    assert [r["leaves_us"] for r in told] == [[7, None, None]] * BUCKETS
    assert list(repack(plan, 0, iter([]))) == []  # no bucket had input: there is no batch to tell of


def test_the_newest_time_of_a_stream_that_another_stage_joins() -> None:
    times = np.array([3, 0, 8, 5]) + 1_000
    rows = pa.table({"t": pa.array(times, pa.timestamp("us", tz="UTC"))})
    plan = plan_of(random_tables(1, NAMES))
    told = rows_of(list(tell(plan, 1, iter(rows.to_batches(max_chunksize=3)))))
    assert [r["newest_us"] for r in told] == [1_008] * BUCKETS
    assert {(r["stream"], r["blob"], r["rows_total"], r["leaves_us"]) for r in told} == {(1, None, 0, None)}
    assert list(tell(plan, 1, iter([]))) == []
