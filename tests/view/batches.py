"""Records made by hand, and reports as Spark gives them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from braided.policies.statistics import (
    Adapted,
    HalfJoinStatistics,
    JoinMetrics,
    RationingStatistics,
    StreamStatistics,
)
from braided.view import Record, StreamRecord

EVIL = "<script>alert(1)</script>"


def record(batch: int, name: str = "orders", *, without: Sequence[str] = (), **options: Any) -> Record:
    """A batch of two streams; every field has something in it, but for numbers that are left out."""
    streams = {
        name: StreamRecord(
            rows=1_000,
            rows_in=1_000 * (batch + 1),
            late_rows=3,
            newest_us=5_000_000,
            lag_us=0,
            live_rows=500,
            live_bytes=40_000,
            spilled_rows=20,
        ),
        "payments": StreamRecord(
            rows=500,
            rows_in=500 * (batch + 1),
            newest_us=2_000_000,
            lag_us=3_000_000,
            live_rows=100,
            live_bytes=8_000,
            index="scan",
        ),
    }
    numbers: dict[str, Any] = {
        "results": 300 * (batch + 1),
        "batches": batch + 1,
        "watermark_us": 1_699_999_000_000_000,
        "spilled_bytes": 1_000_000,
        "memory_limit": 64_000_000,
        "budget": 1_000,
        "freshness_share": 0.25,
    }
    values: dict[str, Any] = {
        "query": "q",
        "batch": batch,
        "when": 1_700_000_000.0 + 2 * batch,
        "seconds": 1.5,
        "latency": 3.0,
        "rows": 1_500,
        "results": 300,
        "numbers": {n: v for n, v in numbers.items() if n not in without},
        "streams": streams,
        "intermediates": {f"({name} payments)": {"live_rows": 10, "live_bytes": 2_000}},
        "half_joins": {f"{name}->payments": {"allowance": 700}},
        "driver_streams": (name, "payments"),
        "adaptations": (f"driver streams payments > {name} became {name} > payments",),
    }
    return Record(**{**values, **options})


def progress(batch: int, *, rows: int = 30, executed: bool = True) -> dict[str, Any]:
    """Spark's report of a batch; one of an idle query has no `addBatch`."""
    took = {"triggerExecution": 1_500, **({"addBatch": 1_200} if executed else {})}
    return {
        "batchId": batch,
        "timestamp": f"2024-01-01T00:00:{batch:02d}.000Z",
        "numInputRows": rows,
        "durationMs": took,
    }


def metrics(batches: int, **options: Any) -> JoinMetrics:
    """After so many batches of 20 rows of a and 10 of b, 7 results each."""
    streams = {
        "a": StreamStatistics(rows_in=20 * batches, live_rows=5, live_bytes=100, late_rows=batches),
        "b": StreamStatistics(rows_in=10 * batches, live_rows=2, live_bytes=50, spilled_rows=4),
    }
    values: dict[str, Any] = {
        "results": 7 * batches,
        "batches": batches,
        "watermark_us": 9,
        "streams": streams,
        "half_joins": {("a", "b"): HalfJoinStatistics(allowance=3), ("b", "a"): HalfJoinStatistics()},
        "driver_streams": ("a", "b"),
        "query_id": "q",
        "lag_us": {"a": 0, "b": 2_000_000},
    }
    return JoinMetrics(**{**values, **options})


def rationing(*adapted: Adapted) -> RationingStatistics:
    return RationingStatistics(5, 0.5, 0, "", adapted)


class Report:
    """A progress report of pyspark: it has `json`."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.json = json.dumps(report)
