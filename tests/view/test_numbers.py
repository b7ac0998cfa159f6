"""A number that is declared comes out everywhere: from the reports of buckets to the page and the docs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import braided as bd
from braided.policies.numbers import Number, declared
from braided.policies.statistics import (
    Adapted,
    HalfJoinStatistics,
    IntermediateStatistics,
    JoinMetrics,
    RationingStatistics,
    Statistics,
    StreamStatistics,
)
from braided.spark import measures
from braided.spark.plan import JoinPlan
from braided.view import Record, record_of
from braided.view.charts import charts_of, table
from braided.view.prometheus import exposition, kind
from braided.view.records import SHOWN
from tests.view.batches import progress

DOCS = Path(__file__).parents[2] / "docs"
STREAMS, PAIRS = ("a", "b", "c"), [("a", "b"), ("b", "a"), ("(a b)", "c"), ("c", "(a b)")]
MEASURED = ("buckets", "state_bytes", "state_chunks", "live_rows", "live_bytes")  # not the engine's


def values(kind: type, seed: int) -> dict[str, Any]:
    """A value for each number, all different, in what a bucket knows."""
    words = {"index": "scan", "adaptations": (Adapted(seed, "why", True, 0),)}
    words |= {"reasons": (f"bucket 0: reason {seed}",)}
    named = enumerate(name for name, number in declared(kind).items() if number.adds)
    return {
        name: words.get(name, f"{name} {seed}" if declared(kind)[name].adds == "words" else seed + i)
        for i, name in named
    }


def seen(seed: int) -> Statistics:
    """What the engine of a bucket has counted."""
    return Statistics(
        **values(Statistics, seed),
        streams={n: StreamStatistics(**values(StreamStatistics, seed)) for n in STREAMS},
        half_joins={p: HalfJoinStatistics(**values(HalfJoinStatistics, seed)) for p in PAIRS},
        intermediates={"(a b)": IntermediateStatistics(**values(IntermediateStatistics, seed))},
        rationing=RationingStatistics(**values(RationingStatistics, seed)),
        driver_streams=("(a b)", "a"),
        probe_orders={"a": ("b",), "(a b)": ("c",)},
    )


@pytest.fixture
def metrics() -> JoinMetrics:
    """The metrics after two buckets have reported, as Spark would carry it."""
    query = bd.JoinQuery([bd.Stream(n, key="k") for n in STREAMS], plan=(("a", "b"), "c"))
    plan = JoinPlan(query, (pa.schema([("k", pa.int64())]),) * 3, 2, "drop")
    reports = [
        measures.report(seen(seed), plan, {}, rows=seed, hottest_key_rows=1, engine_seconds=0.5, rebuilds=1)
        for seed in (100, 300)
    ]
    observed = {"buckets": reports, "streams": list(STREAMS), "plan": json.dumps(query.tree)}
    batch = json.loads(json.dumps({**progress(0), "observedMetrics": {"braided": observed}}))
    return measures.metrics_of([batch], query_id="q", active=True)


@pytest.fixture
def record(metrics: JoinMetrics) -> Record:
    """The batch, after it went through a journal."""
    made = record_of(progress(0), metrics)
    back = Record.from_dict(json.loads(json.dumps(made.to_dict())))
    assert back == made
    return made


def test_every_declared_number_reaches_the_metrics(metrics: JoinMetrics) -> None:
    parts: list[Any] = [metrics, metrics.rationing, *metrics.streams.values()]
    parts += [*metrics.half_joins.values(), *metrics.intermediates.values()]
    assert len(parts) == 2 + 3 + 4 + 1
    for part in parts:
        of = Statistics if part is metrics else type(part)
        one, two = values(of, 100), values(of, 300)
        skipped = MEASURED if part is metrics or of is StreamStatistics else ()
        for name in one.keys() - set(skipped):
            merged = declared(of)[name].merged([one[name], two[name]])
            assert getattr(part, name) == (tuple(merged) if isinstance(merged, list) else merged), name
    assert (metrics.buckets, metrics.rebuilds, metrics.engine_seconds) == (2, 2, 1.0)
    assert metrics.driver_streams == ("(a b)", "a")
    assert metrics.probe_orders == {"a": ("b",), "(a b)": ("c",)}
    assert metrics.hottest_key_share == 1 / 400


def test_every_declared_number_reaches_the_views(metrics: JoinMetrics, record: Record) -> None:
    assert {f.name for f in dataclasses.fields(StreamStatistics)} <= vars(record.streams["a"]).keys()
    text, charts = exposition(record), {chart.title: chart for chart in charts_of([record])}
    for shown in SHOWN:
        number, known = shown.number, record.values(shown)
        if number.prometheus and any(v is not None for v in known.values()):
            assert f"# TYPE {number.prometheus} {kind(number)}\n" in text
            assert text.count(f"\n{number.prometheus}") == len(known), number.prometheus
        if number.plot and any(known.values()):
            assert charts[number.plot.title].series, number.plot.title
        assert not number.column or number.column in table(record)[0]
    assert record.allowances == {f"{a}->{b}": h.allowance for (a, b), h in metrics.half_joins.items()}


def test_how_numbers_add_up() -> None:
    ways = {adds: Number("", adds) for adds in ("sum", "max", "mean", "all", "same", "words")}
    assert {adds: n.merged([3, None, 4]) for adds, n in ways.items()} == {
        "sum": 7,
        "max": 4,
        "mean": 3.5,
        "all": None,
        "same": "mixed",
        "words": 3,
    }
    assert Number("", "list").merged([[1], None, (2, 3)]) == [1, 2, 3]
    assert ways["all"].merged([0, 5]) == 5
    assert ways["same"].merged(["scan", None, "scan"]) == "scan"
    assert ways["words"].merged(["", "why", "not"]) == "why"
    assert ways["words"].merged([""]) == ""
    assert Number("", "sum", default=0).merged([None]) == 0


def test_the_docs_have_every_metric() -> None:
    """The tables in watching.md are these lines; a number that is added adds one."""
    (page,) = DOCS.rglob("watching.md")
    lines = page.read_text(encoding="utf-8").splitlines()
    metrics = [
        f"| `{n.prometheus}{'' if of in ('batch', 'join') else f'{{{of}}}'}` | {kind(n)} | {n.about} |"
        for of, _, n in SHOWN
        if n.prometheus
    ]
    assert [line for line in lines if line.startswith("| `braided_")] == metrics, "\n".join(metrics)
    numbers = [f"| `{name}` | {n.about} |" for name, n in declared(StreamStatistics).items()]
    assert [line for line in lines if line in numbers] == numbers, "\n".join(numbers)
