"""One experiment of early-throughput through `bd.spark.join`: how many results are there, and when?

Three streams whose state is ten times the budget; a file of each in every batch, then the sources are silent
for a while, and `finish` gives what is still owed. State-spill merges nothing before that; the state manager
merges as it decides, and `owed_within` gives it deadlines. Time is real, so runs take turns; the share of
all results that is there when the last file has been joined does not depend on how fast a machine is, but for
deadlines. All runs must give the same number of results.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import braided as bd
from braided.testing.samples.files import add_file
from braided_lab.report import Claim, Mean, Report, Verdict, mean_of

NAMES = ("a", "b", "c")
STATE_SPILL, DEFER, WITHIN = "state-spill", "state manager", "owed within 5 seconds"
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    STATE_SPILL: {"flush": "state-spill", "defer": True},
    DEFER: {"defer": True},
    WITHIN: {"owed_within": "5 seconds"},
}
_ROW_BYTES = 24 + 40  # three columns, and what a side keeps of a row
_SILENT_S = 10.0
_LEAST = 0.05  # of all results: less is no effect


class Outcome(NamedTuple):
    """Shares of all results when the last file was joined, and after the silence; seconds to half."""

    at_input_end: float
    after_silence: float
    half_s: float
    results: int


def add(report: Report, *, rows: int, batches: int, repetitions: int) -> None:
    """Enter rows and claims into the report."""
    found: dict[str, list[Outcome]] = {kind: [] for kind in _OPTIONS}
    spark = bd.spark.session("early-throughput", **{"spark.ui.enabled": "false", "spark.master": "local[2]"})
    try:
        spark.sparkContext.setLogLevel("OFF")
        spark.conf.set("spark.sql.shuffle.partitions", 4)
        with tempfile.TemporaryDirectory(prefix="braided-lab-") as folder:
            for turn in range(repetitions):
                files = Path(folder) / str(turn)
                _write(files, rows, batches, report.seed + turn)
                for kind, outcomes in found.items():
                    outcomes.append(_run(spark, files, kind, rows, batches))
    finally:
        spark.stop()
    for same in zip(*found.values(), strict=True):
        if len({outcome.results for outcome in same}) > 1:
            raise AssertionError(f"the results differ: {same}")
    for kind, runs in found.items():
        means = {k: round(statistics.fmean(getattr(r, k) for r in runs), 3) for k in Outcome._fields}
        report.rows.append({"experiment": "spark", "who": kind, "seeds": repetitions, **means})
        report.notes.append(
            f"\nOn Spark, {kind}: {means['at_input_end']:.1%} of {means['results']:,.0f} results at the end "
            f"of the input, {means['after_silence']:.1%} {_SILENT_S:g} s later; half of them after "
            f"{means['half_s']:.0f} s."
        )
    report.claims += claims(found)


def claims(found: Mapping[str, list[Outcome]]) -> list[Claim]:
    """Merges that are decided on, or have deadlines, against none."""
    said = []
    for kind in (DEFER, WITHIN):
        pairs = list(zip(found[kind], found[STATE_SPILL], strict=True))
        more = mean_of([ours.after_silence - theirs.after_silence for ours, theirs in pairs])
        ends = mean_of([ours.at_input_end - theirs.at_input_end for ours, theirs in pairs])
        said.append(
            Claim(
                f"Ours, on Spark: with {kind} more results are there {_SILENT_S:g} s after the input's end",
                f"(ours: {_LEAST:.0%} of all more than state-spill)",
                f"{more} more; {ends} at the input's end",
                verdict(more, len(pairs)),
                f"{len(pairs)} runs each",
            )
        )
    return said


def verdict(more: Mean, runs: int) -> Verdict:
    """One run shows nothing; a difference must be large enough, and not one of chance."""
    if runs < 2:
        return "not tested"
    return "reproduced" if more.low > 0 and more.value >= _LEAST else "not reproduced"


def _write(folder: Path, rows: int, batches: int, seed: int) -> None:
    """Keys that come back for a while: every batch moves on by a sixth of the keys it draws from."""
    rng, step = np.random.default_rng(seed), rows // batches
    for name in NAMES:
        for n in range(batches):
            keys = rng.integers(n * step // 3, n * step // 3 + 2 * step, step)
            add_file(folder / name, n, pa.table({"k": keys, "n": np.full(step, n), "w": rng.random(step)}))


def _run(spark: Any, folder: Path, kind: str, rows: int, batches: int) -> Outcome:
    memory = bd.Memory(len(NAMES) * rows * _ROW_BYTES // 10, **_OPTIONS[kind])
    query = bd.JoinQuery([bd.Stream(n, "k", window="unbounded") for n in NAMES], memory=memory)
    read = spark.readStream.schema("k long, n long, w double").option("maxFilesPerTrigger", 1)
    joined = bd.spark.join(query, {n: read.parquet(str(folder / n)) for n in NAMES})
    came: list[tuple[float, int, int]] = []  # seconds, results, the newest file among them

    def take(batch: Any, _: int) -> None:
        counted = batch.selectExpr("count(*)", "coalesce(max(greatest(a_n, b_n, c_n)), -1)").collect()[0]
        came.append((time.monotonic() - began, *counted))

    began = time.monotonic()
    checkpoint = str(folder / kind.replace(" ", "-"))
    writer = joined.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
    streaming = writer.start()
    try:
        while streaming.isActive and not any(newest == batches - 1 for *_, newest in came):
            time.sleep(0.2)
        time.sleep(_SILENT_S)
    finally:
        streaming.stop()
    if failed := streaming.exception():
        raise failed
    rest = bd.spark.finish(checkpoint).count()
    so_far = np.cumsum([n for _, n, _ in came])
    total = int(so_far[-1]) + rest
    end = next(i for i, (*_, newest) in enumerate(came) if newest == batches - 1)
    half = int(np.searchsorted(so_far, total / 2))
    half_s = came[half][0] if half < len(came) else float(time.monotonic() - began)
    return Outcome(int(so_far[end]) / total, int(so_far[-1]) / total, half_s, total)
