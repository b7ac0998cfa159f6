"""Figure 8 of the window-join paper through `bd.spark.join`: rows let in by five rules.

Both streams come as files, one of each in a micro-batch, which is a unit of time. The budget is shared over
the buckets, each sheds for itself, and what is let in is what every rule says of the whole. Results are
counted, so that a run's speed does not matter.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import braided as bd
from braided.testing.samples.files import add_file
from braided_lab.report import Claim, Report, quiet
from braided_lab.window_overload import Pair
from braided_lab.window_overload_claims import Outputs, order, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WHERE = "Figure 8, on Spark"


def add(
    report: Report,
    given: Mapping[str, Any],
    *,
    quick: bool,
    seed: int,
    say: Callable[[str], object] = quiet,
) -> None:
    """Run it and enter rows and claims; where there is no Spark, that it was not tested."""
    if importlib.util.find_spec("pyspark") is None:
        report.claims.append(Claim(_WHERE, "", "", "not tested", "pyspark is not installed"))
        return
    size = given["spark"]["quick" if quick else "full"]
    spark = bd.spark.session("window-join", **{"spark.ui.enabled": "false", "spark.master": "local[2]"})
    spark.sparkContext.setLogLevel("OFF")
    try:
        outputs: Outputs = {}
        for number in range(seed, seed + size["seeds"]):
            say(f"figure 8 on Spark, seed {number}")
            for rule, found in measured(spark, given, size["units"], number).items():
                outputs.setdefault(rule, []).append(found)
    finally:
        spark.stop()
    report.rows += [
        {"experiment": "spark", "figure": 8, "rule": r, "measured": v} for r, v in outputs.items()
    ]
    report.claims += claims(given, outputs)


def claims(given: Mapping[str, Any], outputs: Outputs) -> list[Claim]:
    """The winner, and the values of Eq. 10."""
    figure, scale = given["overload"]["figure_8"], given["spark"]["scale"]
    within = given["overload"]["formula_within"]
    return [
        order(f"{_WHERE}: equal rates give most results", "equal is the winner", figure["ranking"], outputs),
        values(
            f"{_WHERE}: results per unit are what Eq. 10 says", figure["paper"], outputs, within, scale**2
        ),
    ]


def measured(spark: SparkSession, given: Mapping[str, Any], units: int, seed: int) -> dict[str, float]:
    """Results per unit by rule, over the same files."""
    figure, how = given["overload"]["figure_8"], given["spark"]
    rates = [rate * how["scale"] for rate in figure["rates"]]
    pair = Pair((rates[0], rates[1]), tuple(figure["keys"]), tuple(figure["windows"]))
    with tempfile.TemporaryDirectory(prefix="braided-lab-") as folder:
        rng, root = np.random.default_rng(seed), Path(folder)
        for unit in range(how["warm_up"] + units):
            for name, table in pair.batch(rng, unit).items():
                add_file(root / name, unit, table)
        found = {}
        for rule in figure["rules"]:
            overload = bd.Overload(figure["budget"] * how["scale"], shed="input", allocation=rule)
            counts = _results(spark, pair.query(overload), root, rule, how["buckets"])
            if len(counts) < how["warm_up"] + units:
                raise AssertionError(f"a micro-batch for each file was wanted; {len(counts)} were seen")
            found[rule] = sum(counts[how["warm_up"] : how["warm_up"] + units]) / units
    return found


def _results(spark: SparkSession, query: bd.JoinQuery, root: Path, rule: str, buckets: int) -> list[int]:
    """Results of each micro-batch."""
    read = spark.readStream.schema("k long, t timestamp").option("maxFilesPerTrigger", 1)
    joined = bd.spark.join(query, {n: read.parquet(str(root / n)) for n in "ab"}, buckets=buckets)
    counts: list[int] = []
    writer = joined.writeStream.foreachBatch(lambda batch, _: counts.append(batch.count()))
    writer = writer.option("checkpointLocation", str(root / f"checkpoint-{rule}"))
    streaming = writer.trigger(availableNow=True).start()
    streaming.awaitTermination()
    if (failed := streaming.exception()) is not None:
        raise RuntimeError(str(failed))
    return counts
