"""Decisions that all buckets of a join have in common, recorded before the batch in which they hold.

    buckets report -> Spark's progress -> this, on the driver: a file
    the file -> the heartbeat's offset, which Spark logs -> tasks that pack read the log, buckets are told

So an attempt that is repeated, and a restart, read the same decision. What is decided, and why, is in
`policies.recorded`: which part of a budget of probes each bucket gets, which rows are dropped before they are
sent, and how many rows all let in where several get the same one.

Only batches with rows are decided by, and small changes are none: else an idle join would not come to rest.
What is recorded already is known by the batch's own offset, so nothing old stays after a restart.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import SparkSession

from braided.engine.intake import Arrival
from braided.policies.recorded import Curve, Decision, Keep, Rows, keep, moved, parts
from braided.policies.statistics import Statistics
from braided.spark import measures
from braided.spark.plan import JoinPlan
from braided.spark.sources.decided import DECIDED, beat_in
from braided.spark.wire.early import budget_of

_log = logging.getLogger("braided")
_LOOK_EVERY_S = 0.1
_MOST_BUCKETS = 256  # of which each is told its part


def decides(plan: JoinPlan) -> bool:
    """Whether anything of a join is decided for all buckets together."""
    overload = plan.query.overload
    if overload is None or len(plan.stages()) > 1:
        return False
    return overload.drops_input or (overload.rations and 1 < plan.part(0).total <= _MOST_BUCKETS)


def said(
    plan: JoinPlan,
    number: int,
    seen: Statistics,
    sent: Sequence[tuple[int, int, int]],
    arrivals: Sequence[Arrival | None],
) -> dict[str, Any]:
    """What a bucket says of a batch, to be decided by."""
    if not decides(plan) or seen.rationing is None:
        return {}
    if not _drops(plan):
        curve = [[round(x, 1), round(y, 2)] for x, y in seen.rationing.curve]
        return {"label": plan.labels[number], "curve": curve}
    entered = [0 if a is None else a.own_rows for a in arrivals]
    shed = [0 if a is None else a.shed_rows for a in arrivals]
    return {"sent": sent, "entered": entered, "shed": shed, "rows": seen.rationing.rows_of_all}


def decided(plan: JoinPlan, reports: Sequence[Mapping[str, Any]]) -> Decision:
    """What is decided by what the buckets said of a batch."""
    of = budget_of(plan.query.overload)
    if not _drops(plan):
        return Decision(of, parts=_parts(plan, reports))
    most = sorted(r["rows"] for r in reports if r["rows"] is not None)
    rows = most[len(most) // 2] if most else None
    copied = any(live.grid.copies(name) > 1 for live in plan.live for name in plan.query.names)
    timed = plan.query.overload is not None and plan.query.overload.target_batch is not None
    return Decision(of, keep=_keep(plan, reports, rows), rows=rows if copied and timed else None)


def _parts(plan: JoinPlan, reports: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """Each bucket's part of the probes; one that has no rows, so nothing to expect, gets the average."""
    curves = {r["label"]: Curve(tuple(map(tuple, r["curve"]))) for r in reports if r["curve"]}
    if len(curves) < 2:
        return {}
    average = 1 / len(plan.labels)
    known = parts(curves, sum(curve.points[1][0] for curve in curves.values()))
    return {n: known[n] * average * len(curves) if n in known else average for n in plan.labels if known}


def _keep(plan: JoinPlan, reports: Sequence[Mapping[str, Any]], most: int | None) -> dict[str, Keep]:
    """What tasks send of the streams of which they do not send all, if `most` rows are let in."""
    shed = [sum(of_stream) for of_stream in zip(*(r["shed"] for r in reports), strict=True)]
    left = 0 if most is None else max(0, most - sum(sum(r["entered"]) for r in reports))
    kept = {}
    for name, (came, went, tasks), dropped in zip(plan.query.names, reports[0]["sent"], shed, strict=True):
        in_buckets = max(0, dropped - (came - went))  # the rest was dropped early, and is counted by one
        if (found := keep(Rows(came, went, in_buckets, tasks), left)) is not None:
            kept[name] = found
    return kept


def news(plan: JoinPlan, progress: Mapping[str, Any], last: Decision | None) -> Decision | None:
    """What is decided by a batch's progress, if it had rows, and that moves what was decided before.

    That is what this process has decided `last`, or what the batch's own offset says.
    """
    loads = [load for _, load in measures.read(progress["observedMetrics"][measures.OBSERVED]["buckets"])]
    told = [load.shared for load in loads if load.shared]
    if not told or not any(load.rows for load in loads):
        return None
    now = decided(plan, told)
    return now if moved(last or recorded_in(progress), now) else None


def offsets_of(plan: JoinPlan, checkpoint: str | None) -> str | None:
    """Spark's log of a checkpoint, if tasks need it and it is a folder that they may be able to read."""
    if checkpoint is None or not decides(plan) or not _drops(plan):
        return None
    url = urlparse(checkpoint)
    if url.scheme not in ("", "file"):
        return None
    return str(Path(unquote(url.path) if url.scheme else checkpoint).absolute() / "offsets")


def decide_for(plan: JoinPlan, spark: SparkSession) -> Path | None:
    """From now on, leave what is decided for a join in a file; None if nothing is."""
    return _watch_of(spark).add(plan) if decides(plan) else None


def _drops(plan: JoinPlan) -> bool:
    return plan.query.overload is not None and plan.query.overload.drops_input


class _Watch:
    """Decides after every batch of a session's joins, whenever and however often they are started."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._folder = tempfile.TemporaryDirectory(prefix="braided-decided-")
        self._plans: dict[str, JoinPlan] = {}  # by token
        self._seen: dict[str, int] = {}  # the latest batch of each run
        self._last: dict[str, Decision] = {}  # what was decided, by token
        threading.Thread(target=self._look, name="braided-decisions", daemon=True).start()

    def add(self, plan: JoinPlan) -> Path:
        """Decide for another join; return the file for what is decided."""
        self._plans[plan.checkpoint] = plan
        return self._file(plan)

    def _look(self) -> None:
        """Look at all queries again and again, until the application has ended."""
        with contextlib.suppress(Exception):
            while True:
                running = {str(query.runId): query for query in self._spark.streams.active}
                self._seen = {run: batch for run, batch in self._seen.items() if run in running}
                for run, query in running.items():
                    batch = latest_batch(query)
                    if batch is not None and batch != self._seen.get(run):
                        self._seen[run] = batch
                        if (progress := query.lastProgress) is not None:
                            self._judge(json.loads(progress.json))
                time.sleep(_LOOK_EVERY_S)

    def _judge(self, progress: Mapping[str, Any]) -> None:
        """Decide by a batch, if it is of one of the joins."""
        observed = (progress.get("observedMetrics") or {}).get(measures.OBSERVED) or {}
        plan = self._plans.get(observed.get("token") or "")
        if plan is None:
            return
        try:
            if (new := news(plan, progress, self._last.get(plan.checkpoint))) is not None:
                self._last[plan.checkpoint] = new
                _write(self._file(plan), new)
        except Exception:  # whatever it is, the joins go on, and other decisions
            _log.warning("braided: nothing is decided by batch %s", progress.get("batchId"), exc_info=True)

    def _file(self, plan: JoinPlan) -> Path:
        return Path(self._folder.name) / f"{plan.checkpoint}.json"


@functools.cache
def _watch_of(spark: SparkSession) -> _Watch:
    return _Watch(spark)


def latest_batch(query: Any) -> int | None:
    """The number of a query's latest batch; its whole progress is much to read, again and again."""
    java = getattr(query, "_jsq", None)
    progress = query.lastProgress if java is None else java.lastProgress()
    return None if progress is None else int(progress.batchId if java is None else progress.batchId())


def recorded_in(progress: Mapping[str, Any]) -> Decision:
    """What was decided for a batch, by its progress."""
    ends = (source.get("endOffset") for source in progress.get("sources") or ())
    beat = beat_in("\n".join(end if isinstance(end, str) else json.dumps(end) for end in ends))
    return Decision.read(beat.get(DECIDED) or "")


def _write(path: Path, decision: Decision) -> None:
    """Replace the file: whoever reads it sees all of a decision."""
    new = path.with_suffix(".new")
    new.write_text(decision.text(), encoding="utf-8")
    os.replace(new, path)
