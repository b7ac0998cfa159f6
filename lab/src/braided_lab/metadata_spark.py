"""The news streams through `bd.spark.join`: what is held batch by batch, with promises and without.

Both streams come in the same number of files, one of each in a micro-batch. Without promises the punctuations
are left out and every row stays (`window="unbounded"`); the results must be the same.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import braided as bd
from braided.testing.samples.files import add_file
from braided_lab.metadata_claims import COUNTED, at_most
from braided_lab.news import tables, workload
from braided_lab.report import Claim, Report, mean_of, quiet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMAS = {
    "news": "sno long, title string, keyword string",
    "access": "sno long, ipaddr string, punctuation boolean",
}
_SMALL = 0.1


@dataclass(frozen=True)
class Held:
    """A query: results, and the rows held after each micro-batch."""

    results: int
    rows: npt.NDArray[np.float64]


Pairs = list[tuple[Held, Held]]  # with promises and without, by seed


def add(
    report: Report,
    given: Mapping[str, Any],
    size: Mapping[str, Any],
    seed: int,
    say: Callable[[str], object] = quiet,
) -> None:
    """Run it and enter claims, and rows by batch; where there is no Spark, that it was not tested."""
    if importlib.util.find_spec("pyspark") is None:
        report.claims.append(Claim("Spark", "(ours)", "", "not tested", "pyspark is not installed"))
        return
    spark = bd.spark.session("metadata-join", **{"spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("OFF")
    try:
        for stream in size["streams"]:
            pairs: Pairs = []
            for number in range(size["seeds"]):
                say(f"spark, {stream}, seed {seed + number}")
                whole = tables(workload(given, size["access_records"], stream), seed=seed + number)
                pairs.append(both(spark, whole, size["batches"]))
            report.claims += claims(stream, pairs)
            report.rows += list(_rows(stream, pairs))
    finally:
        spark.stop()


def claims(stream: str, pairs: Pairs) -> Iterator[Claim]:
    """What promises do to the state on Spark."""
    peak = mean_of([float(ours.rows.max() / plain.rows.max()) for ours, plain in pairs])
    held = ", ".join(f"{ours.rows.max():,.0f} of {plain.rows.max():,.0f}" for ours, plain in pairs)
    yield Claim(
        f"Spark, {stream}: promises hold at most a tenth of the rows", f"(ours: at most {_SMALL})", f"{peak}",
        at_most(peak, _SMALL, COUNTED), f"most rows held: {held}",
    )  # fmt: skip


def both(spark: SparkSession, whole: Mapping[str, pa.Table], batches: int) -> tuple[Held, Held]:
    """The same rows with promises and without."""
    ours, plain = (_run(spark, whole, batches, promises=promises) for promises in (True, False))
    if ours.results != plain.results:
        raise AssertionError(f"promises changed the result: {ours.results} and {plain.results}")
    return ours, plain


def _run(spark: SparkSession, whole: Mapping[str, pa.Table], batches: int, *, promises: bool) -> Held:
    from braided.view import Journal, follow  # noqa: PLC0415

    said: dict[str, Any] = {"punctuation": "punctuation"} if promises else {"window": "unbounded"}
    news = bd.Stream("news", "sno", window="unbounded", unique=promises)
    query = bd.JoinQuery([news, bd.Stream("access", "sno", **said)])
    with tempfile.TemporaryDirectory(prefix="braided-lab-") as folder:
        root, frames = Path(folder), {}
        for name, table in whole.items():
            ends = [table.num_rows * n // batches for n in range(batches + 1)]
            for n in range(batches):
                add_file(root / name, n, table.slice(ends[n], ends[n + 1] - ends[n]))
            reader = spark.readStream.schema(_SCHEMAS[name]).option("maxFilesPerTrigger", 1)
            frames[name] = reader.parquet(str(root / name))
        if not promises:
            frames["access"] = frames["access"].where("not punctuation").drop("punctuation")
        writer = bd.spark.join(query, frames, buckets=4).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(root / "checkpoint"))
        streaming = writer.trigger(availableNow=True).start()
        follow(streaming, journal=root / "journal.jsonl", show=lambda *_: None, every=0.2)
        if (failed := streaming.exception()) is not None:
            raise RuntimeError(str(failed))
        records = [r for r in Journal(root / "journal.jsonl").read() if r.rows]
    if len(records) != batches:
        raise AssertionError(f"{batches} micro-batches were wanted; {len(records)} were seen")
    held = [sum(s.live_rows for s in record.streams.values()) for record in records]
    return Held(records[-1].total_results, np.array(held, np.float64))


def _rows(stream: str, pairs: Pairs) -> Iterator[dict[str, Any]]:
    """Rows held after each micro-batch, means over seeds."""
    for place, name in enumerate(("with promises", "without")):
        held = np.mean([pair[place].rows for pair in pairs], axis=0)
        for batch, rows in enumerate(held.tolist()):
            yield {"experiment": "spark", "streams": stream, "join": name, "batch": batch, "state_rows": rows}
