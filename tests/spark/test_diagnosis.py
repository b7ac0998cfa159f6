"""`why` in plain sentences, from metrics made by hand."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

import braided as bd
from braided.policies.statistics import HalfJoinStatistics, JoinMetrics, StreamStatistics
from braided.spark import measures
from braided.spark.diagnosis import explain
from braided.spark.plan import JoinPlan


def metrics(
    streams: dict[str, StreamStatistics],
    half_joins: dict[tuple[str, str], HalfJoinStatistics] | None = None,
    **options: Any,
) -> JoinMetrics:
    pairs = {(a, b): HalfJoinStatistics() for a in streams for b in streams if a != b}
    return JoinMetrics(
        results=0,
        batches=3,
        watermark_us=None,
        streams=streams,
        half_joins=pairs | (half_joins or {}),
        **options,
    )


def said(seen: JoinMetrics) -> str:
    return "\n".join(explain(seen))


SOME = StreamStatistics(rows_in=1_000, live_rows=10)


def test_nothing_yet() -> None:
    assert "No batch has been finished" in said(JoinMetrics(0, 0, None, {}, {}))


def test_a_source_that_never_brought_a_row() -> None:
    text = said(metrics({"a": SOME, "b": StreamStatistics()}))
    assert "Stream 'b' has not brought a single row" in text


def test_a_source_that_holds_the_watermark_back() -> None:
    text = said(metrics({"a": SOME, "b": SOME}, lag_us={"a": 0, "b": 7_300_000_000}))
    assert "Stream 'b' is furthest behind: its newest row is 2 hours older" in text
    text = said(metrics({"a": SOME, "b": SOME}, lag_us={"a": 0, "b": 6_400_000_000}))
    assert "its newest row is 106 minutes older" in text


def test_closed_keys_that_outgrow_the_rows() -> None:
    many = StreamStatistics(rows_in=90_000, live_rows=5, closed_keys=20_000, closed_entries=20_000)
    text = said(metrics({"a": many, "b": SOME}))
    assert "Stream 'a' is closed for 20,000 keys; 15 rows are held: a key is remembered" in text
    assert "let the others close theirs (punctuation=), or give a window" in text
    neighbours = dataclasses.replace(many, closed_entries=1)
    assert "is closed for" not in said(metrics({"a": neighbours, "b": SOME}))
    held = dataclasses.replace(many, live_rows=30_000)
    assert "is closed for" not in said(metrics({"a": held, "b": SOME}))


def test_late_rows_null_keys_and_broken_promises() -> None:
    stream = StreamStatistics(rows_in=200, late_rows=50, null_keys=3, null_times=1, violations=2)
    text = said(metrics({"a": stream, "b": SOME}))
    assert "2 rows (1 %) of stream 'a' broke what it promises of its keys" in text
    assert "50 rows (25 %) of stream 'a' came too late" in text
    assert "3 rows (2 %) of stream 'a' have no key" in text
    assert "1 row (under 1 %) of stream 'a' have no time" in text


def test_keys_that_never_overlap_are_told_from_windows_that_exclude() -> None:
    apart = {("a", "b"): HalfJoinStatistics(500, 0), ("b", "a"): HalfJoinStatistics(500, 0)}
    text = said(metrics({"a": SOME, "b": SOME}, apart))
    assert text.count("Keys of 'a' and 'b' never overlap") == 1
    outside = {
        ("a", "b"): HalfJoinStatistics(500, 0, None, 400),
        ("b", "a"): HalfJoinStatistics(500, 20, None, 400),
    }
    text = said(metrics({"a": SOME, "b": SOME}, outside))
    assert "Rows of 'a' find 400 rows of 'b' with their key, but all outside the windows" in text
    assert "never overlap" not in text


def test_rows_that_do_not_fit_into_memory_and_what_waits() -> None:
    cold = StreamStatistics(rows_in=1_000, live_rows=10, spilled_rows=990)
    text = said(metrics({"a": cold, "b": SOME}, owed=1_234, disk_decision="group 3 waits"))
    assert "990 rows do not fit into the memory budget" in text
    assert "about 1,234 combinations wait until they are merged (group 3 waits)." in text


def test_a_query_that_idles_long_keeps_its_numbers() -> None:
    live = bd.LocalJoin(bd.JoinQuery([bd.Stream(name, key="k") for name in "ab"]))
    live.push({name: pa.table({"k": [1] * 7}) for name in "ab"})
    plan = JoinPlan(live.query, (pa.schema([("k", pa.int64())]),) * 2, 1, "drop")
    report = measures.report(live.stats(), plan, {}, rows=14, hottest_key_rows=14)
    told = {"braided": {"buckets": [report], "streams": ["a", "b"], "plan": '["a", "b"]'}}
    idle: dict[str, Any] = {"batchId": 1, "durationMs": {}, "observedMetrics": {}}
    query = SimpleNamespace(id="q", runId="r", isActive=True)
    query.recentProgress = [SimpleNamespace(json=json.dumps({**idle, "observedMetrics": told}))]
    assert measures.metrics(query).results == 49  # type: ignore[arg-type]
    query.recentProgress = [SimpleNamespace(json=json.dumps(idle))] * 100
    assert measures.metrics(query).results == 49  # type: ignore[arg-type]
    query.runId = "another"
    assert measures.metrics(query).results == 0  # type: ignore[arg-type]


def test_rows_that_wait_for_partners_are_counted() -> None:
    waits = "125 rows may still get partners; what comes without one comes once the watermark has passed"
    text = said(metrics({"a": SOME, "b": SOME}, unsettled_rows=125))
    assert f"{waits}." in text
    ends = dataclasses.replace(SOME, punctuations=3)
    text = said(metrics({"a": SOME, "b": ends}, unsettled_rows=125))
    assert f"{waits}, or a stream has closed the key." in text
