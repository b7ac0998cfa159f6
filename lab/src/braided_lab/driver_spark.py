"""Two data sets of driver-selection through `bd.spark.join`: initial-output-size against timestamp.

A period of the paper is a micro-batch: a file of each stream. Both policies join the same files by turns, in
one session. The first fifth of the batches is left out, as in the paper. The paper's running time is that of
the join, so its claim is held against the time in engines; what a user waits for is the whole micro-batch.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import braided as bd
from braided.testing.samples.files import add_file
from braided_lab.driver_claims import BASE, LEAST_TIME, PERIODS, TABLE_4, mean, verdict
from braided_lab.driver_datasets import NAMES, dataset, query
from braided_lab.driver_sentences import INITIAL, at_least
from braided_lab.measure import by_period
from braided_lab.report import Claim, Report, quiet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_IN_UTC = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us", tz="UTC"))])


class Outcome(NamedTuple):
    """A run: seconds in engines, and of whole micro-batches, of those that count; and all results."""

    engine_s: float
    batch_s: float
    results: int


Runs = Mapping[str, list[Outcome]]  # by policy, one a repetition


def add(
    report: Report,
    given: Mapping[str, Any],
    size: Mapping[str, Any],
    seed: int,
    say: Callable[[str], object] = quiet,
) -> None:
    """Run it and enter claims and rows; where there is no Spark, that it was not tested."""
    if importlib.util.find_spec("pyspark") is None:
        report.claims.append(Claim("Spark", "(ours)", "", "not tested", "pyspark is not installed"))
        return
    settings = {"spark.ui.enabled": "false", "spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    spark = bd.spark.session("driver-selection", **settings)
    spark.sparkContext.setLogLevel("OFF")
    try:
        for name in size["data_sets"]:
            say(f"Spark, data set {name}")
            runs = measured(spark, given, size, name, seed)
            report.claims += claims(name, runs)
            report.rows += list(_rows(name, runs))
    finally:
        spark.stop()


def claims(name: str, runs: Runs) -> Iterator[Claim]:
    """Time in engines as the paper has it, and whether a user notices."""
    pair = TABLE_4[INITIAL][NAMES.index(name)]
    assert pair is not None
    paper = pair[PERIODS.index("1M")]
    pairs = list(zip(runs[INITIAL], runs[BASE], strict=True))
    engines = mean([ours.engine_s / base.engine_s for ours, base in pairs])
    effect = mean([ours.engine_s / base.engine_s - 1 for ours, base in pairs])
    yield Claim(
        f"Spark, data set {name}, 1M: time in engines of {INITIAL} against timestamp", f"{paper:g}",
        str(engines), verdict(paper, engines, (paper - 1, effect), LEAST_TIME), f"{len(pairs)} runs each",
    )  # fmt: skip
    saved = mean([1 - ours.batch_s / base.batch_s for ours, base in pairs])
    part = mean([base.engine_s / base.batch_s for _, base in pairs])
    yield Claim(
        f"Spark, data set {name}, 1M: {INITIAL} saves time of a micro-batch",
        f"(ours: at least {LEAST_TIME:.0%})", f"{saved} saved", at_least(saved, LEAST_TIME, LEAST_TIME),
        f"engines take {part.value:.2f} core-seconds a second of timestamp's micro-batch",
    )  # fmt: skip


def measured(
    spark: SparkSession, given: Mapping[str, Any], size: Mapping[str, Any], name: str, seed: int
) -> dict[str, list[Outcome]]:
    """Both policies over the same files, so many times; they must agree on the results."""
    runs: dict[str, list[Outcome]] = {BASE: [], INITIAL: []}
    for number in range(size["repetitions"]):
        tables = dataset(name, size["rows"], given, seed=seed + number)
        periods = by_period(tables, size["batches"], size["rows"] * given["units_per_row"])
        with tempfile.TemporaryDirectory(prefix="braided-lab-") as folder:
            for n, batch in enumerate(periods):
                for stream, table in batch.items():
                    add_file(Path(folder) / stream, n, table.cast(_IN_UTC))
            for policy in list(runs)[:: -1 if number % 2 else 1]:
                runs[policy].append(_run(spark, Path(folder), policy, given, size["batches"]))
        if len({of[-1].results for of in runs.values()}) > 1:
            raise AssertionError(f"policies disagree on the result of data set {name}")
    return runs


def _run(spark: SparkSession, folder: Path, policy: str, given: Mapping[str, Any], batches: int) -> Outcome:
    from braided.view import Journal, follow  # noqa: PLC0415

    names = tuple(sorted(p.name for p in folder.iterdir() if not p.name.startswith("at-") and p.is_dir()))
    read = spark.readStream.schema("k long, t timestamp").option("maxFilesPerTrigger", 1)
    frames = {n: read.parquet(str(folder / n)) for n in names}
    tuning = bd.Tuning(policy, given["probe_order"])  # type: ignore[arg-type]
    joined = bd.spark.join(query(names, tuning), frames, buckets=2)
    writer = joined.writeStream.format("noop").option("checkpointLocation", str(folder / f"at-{policy}"))
    streaming = writer.trigger(availableNow=True).start()
    journal = folder / f"{policy}.jsonl"
    follow(streaming, journal=journal, show=lambda *_: None, every=0.2)
    if (failed := streaming.exception()) is not None:
        raise RuntimeError(str(failed))
    records = [record for record in Journal(journal).read() if record.rows]
    if len(records) != batches:
        raise AssertionError(f"{batches} micro-batches were wanted; {len(records)} were seen")
    counted = records[round(given["left_out_share"] * batches) :]
    engines = sum(record.numbers["engine_seconds"] for record in counted)
    return Outcome(engines, sum(record.seconds for record in counted), records[-1].total_results)


def _rows(name: str, runs: Runs) -> Iterator[dict[str, Any]]:
    for policy, outcomes in runs.items():
        for number, outcome in enumerate(outcomes):
            yield {"experiment": "spark", "data set": name, "policy": policy, "repetition": number,
                   **outcome._asdict()}  # fmt: skip
