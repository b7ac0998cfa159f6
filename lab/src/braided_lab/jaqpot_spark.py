"""Allocations of rationed probes through `bd.spark.join`: a tree of four streams with several keys.

Every stream comes as files, one of each in a micro-batch, which is a unit of time. Intermediates hold their
newest rows (`intermediate_rows`), rows in results may be 1.5 windows old, and a third of the probes is
allowed. Four allocations join the same files; results are counted, so that a run's speed does not matter. All
use all of their budget, as every allocation does in the product.
"""

from __future__ import annotations

import importlib.util
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import braided as bd
from braided.testing.samples.files import add_file
from braided_lab.jaqpot_engine import run, under
from braided_lab.jaqpot_settings import PLANS, Lab
from braided_lab.jaqpot_workload import Batch, Workload, draw_exact, workload
from braided_lab.report import Claim
from braided_lab.verdicts import COUNTED, between, own, ranking, shown, spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHERE = "Spark, bushy plan, three keys"
POLICIES = ("jaqpot", "greedy-path", "global-productivity", "equal-best")
_PLAN = "bushy"


class Outcome(NamedTuple):
    """Results of the batches that count, and why bounds on age cannot be kept."""

    results: int
    problem: str


Runs = Mapping[str, Sequence[Outcome]]  # by policy, one a setting; "one process" is jaqpot without Spark


def missing() -> str:
    """Why this is not run; nothing if it is."""
    return "" if importlib.util.find_spec("pyspark") else "pyspark is not installed"


def claims(given: Mapping[str, Any], runs: Runs) -> Iterator[Claim]:
    """Who is best, and by how much."""
    results = {p: [float(o.results) for o in outcomes] for p, outcomes in runs.items()}
    others = [p for p in POLICIES if p != "jaqpot"]
    ratios = {
        p: [j / max(1.0, n) for j, n in zip(results["jaqpot"], results[p], strict=True)] for p in others
    }
    verdict, closest = ranking([["jaqpot"], others], results, COUNTED)
    yield Claim(
        f"Figure 7, {WHERE}: jaqpot is best", "jaqpot outperforms the others",
        ", ".join(f"{shown(many, 2)} x {p}" for p, many in ratios.items()), verdict,
        f"all fitted; results {', '.join(f'{n:.0f}' for n in results['jaqpot'])}; {closest} (at least "
        f"{COUNTED:.0%})",
    )  # fmt: skip
    kept = [not o.problem for o in runs["jaqpot"]]
    local = given["spark"]["local"]
    alone = [ours / most if most else 0.0
             for ours, most in zip(results["jaqpot"], results["one process"], strict=True)]  # fmt: skip
    yield Claim(
        f"Ours, {WHERE}: jaqpot yields what it does in one process", f"(ours: at least {1 - local:g})",
        f"{shown(alone, 3)} of it", own(between(spread(alone), 1 - local, math.inf)),
        f"{given['spark']['buckets']} buckets share the budget, and some rows go to both; by what they say, "
        f"bounds of 1.5 windows can be kept in {sum(kept)} of {len(kept)} settings",
    )  # fmt: skip


def measured(lab: Lab, say: Callable[[str], object]) -> dict[str, list[Outcome]]:
    """All settings and policies, in one session."""
    settings = {"spark.ui.enabled": "false", "spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    spark = bd.spark.session("jaqpot", **settings)
    spark.sparkContext.setLogLevel("OFF")
    runs: dict[str, list[Outcome]] = {}
    try:
        for number in range(lab.size["spark_settings"]):
            say(f"Spark, setting {number + 1}")
            for policy, outcome in _setting(spark, lab, number).items():
                runs.setdefault(policy, []).append(outcome)
    finally:
        spark.stop()
    return runs


def rows(runs: Runs) -> list[dict[str, Any]]:
    """For the report."""
    return [
        {"experiment": "spark", "policy": policy, "setting": number, **outcome._asdict()}
        for policy, outcomes in runs.items()
        for number, outcome in enumerate(outcomes)
    ]


def drawn(lab: Lab, number: int) -> tuple[Workload, list[Batch]]:
    """A setting and its batches: those that fill the windows, and those that count."""
    given = lab.given["spark"]
    rng = lab.rng("spark", number)
    work = workload(draw_exact(rng, PLANS[_PLAN], given["range"]), "newest")
    return work, [work.batch(rng, float(at)) for at in range(given["warm_up"] + lab.size["spark_batches"])]


def _setting(spark: SparkSession, lab: Lab, number: int) -> dict[str, Outcome]:
    given = lab.given["spark"]
    work, batches = drawn(lab, number)
    factor, since = lab.given["sweep_freshness"], given["warm_up"]
    probes = given["budget"] * work.setting.saturation
    limits = {p: under(p, probes) for p in POLICIES}
    found = {}
    with tempfile.TemporaryDirectory(prefix="braided-lab-") as name:
        root = Path(name)
        for n, batch in enumerate(batches):
            for stream, table in batch.items():
                add_file(root / stream, n, _with_times(table))
        for policy, limit in limits.items():
            counts, problem = _run(spark, _late(work.query(limit, factor)), root, policy, given["buckets"])
            if len(counts) < len(batches):
                raise AssertionError(f"a micro-batch for each file was wanted; {len(counts)} were seen")
            found[policy] = Outcome(sum(counts[since : len(batches)]), problem)
    alone = run(bd.LocalJoin(work.query(limits["jaqpot"], factor)), batches)
    found["one process"] = Outcome(int(alone.results[since:].sum()), alone.problem)
    return found


def _late(query: bd.JoinQuery) -> bd.JoinQuery:
    """The same with lateness, which a streaming join must state."""
    return replace(query, streams=[replace(s, lateness="1 second") for s in query.streams])


def _with_times(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("t")
    return table.set_column(at, "t", table["t"].cast(pa.timestamp("us", tz="UTC")))


def _run(
    spark: SparkSession, query: bd.JoinQuery, root: Path, policy: str, buckets: int
) -> tuple[list[int], str]:
    """Results of each micro-batch, and why bounds on age cannot be kept."""
    frames = {}
    for stream in query.names:
        schema = spark.read.parquet(str(root / stream)).schema
        read = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        frames[stream] = read.parquet(str(root / stream))
    joined = bd.spark.join(query, frames, buckets=buckets)
    counts: list[int] = []
    writer = joined.writeStream.foreachBatch(lambda batch, _: counts.append(batch.count()))
    writer = writer.option("checkpointLocation", str(root / f"at-{policy}"))
    streaming = writer.trigger(availableNow=True).start()
    streaming.awaitTermination()
    if (failed := streaming.exception()) is not None:
        raise RuntimeError(str(failed))
    seen = bd.spark.metrics(streaming).rationing
    return counts, seen.problem if seen is not None else ""
