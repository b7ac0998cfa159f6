"""Decisions that all buckets of a join have in common, recorded before the batch in which they hold.

    buckets report -> Spark's progress -> this, on the driver: a file
    the file -> the heartbeat's offset, which Spark logs -> tasks that pack read the log, buckets are told

So an attempt that is repeated, and a restart, read the same decision. What is decided, and why, is in
`policies.recorded`: which part of a budget of probes each bucket gets, which rows are dropped before they are
sent, and how many rows all let in where several get the same one.

Only batches with rows are decided by, and small changes are none: else an idle join would not come to rest.
"""

from __future__ import annotations

import contextlib
import json
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
from braided.policies.recorded import Curve, Rows, keep, moved, parts
from braided.policies.statistics import Statistics
from braided.spark import measures
from braided.spark.plan import JoinPlan

_LOOK_EVERY_S = 0.1
_MOST_BUCKETS = 256  # of which each is told its part


def decides(plan: JoinPlan) -> bool:
    """Whether anything of a join is decided for all buckets together."""
    overload = plan.query.overload
    if overload is None or len(plan.stages()) > 1:
        return False
    return overload.drops_input or (overload.rations and 1 < len(plan.labels) <= _MOST_BUCKETS)


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
    label = plan.labels[number] if plan.epoch.number == plan.live[0].epoch.number else -1
    entered = [0 if a is None else a.own_rows for a in arrivals]
    curve = [[round(x, 1), round(y, 2)] for x, y in seen.rationing.curve]
    rows = seen.rationing.rows_of_all if any(plan.grid.copies(n) > 1 for n in plan.query.names) else None
    return {"label": label, "curve": curve, "sent": sent, "entered": entered, "rows": rows}


def decided(plan: JoinPlan, reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is decided by what the buckets said of a batch."""
    decision: dict[str, Any] = {}
    if _drops(plan):
        entered = [sum(column) for column in zip(*(r["entered"] for r in reports), strict=True)]
        sent = reports[0]["sent"]
        for name, (came, went, tasks), into in zip(plan.query.names, sent, entered, strict=True):
            if (kept := keep(Rows(came, went, into, tasks))) is not None:
                decision.setdefault("keep", {})[name] = [kept.share, kept.rows]
        rows = sorted(r["rows"] for r in reports if r["rows"] is not None)
        if rows:
            decision["rows"] = rows[len(rows) // 2]
        return decision
    curves = {r["label"]: Curve(tuple(map(tuple, r["curve"]))) for r in reports if r["curve"]}
    if len(curves) > 1:
        budget = sum(curve.points[1][0] for curve in curves.values())
        decision["parts"] = {str(label): part for label, part in parts(curves, budget).items()}
    return decision


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
    if not decides(plan):
        return None
    path = Path(tempfile.mkdtemp(prefix="braided-decided-")) / "decided.json"
    threading.Thread(target=_watch, args=(plan, spark, path), name="braided-decisions", daemon=True).start()
    return path


def _drops(plan: JoinPlan) -> bool:
    return plan.query.overload is not None and plan.query.overload.drops_input


def _watch(plan: JoinPlan, spark: SparkSession, path: Path) -> None:
    """Decide after every batch, until the query has ended or the application has."""
    run, last = None, -1
    decision: dict[str, Any] = {}
    with contextlib.suppress(Exception):  # the application has ended
        while True:
            running = {str(q.runId): q for q in spark.streams.active}
            if run is not None and run not in running:
                break
            for name, query in running.items():
                progress = query.lastProgress if run in (None, name) else None
                if progress is None or progress.batchId == last:
                    continue
                if (told := _told(plan, json.loads(progress.json))) is None:
                    continue
                run, last = name, progress.batchId
                now = decided(plan, told)
                if moved(decision, now):
                    decision = now
                    _write(path, now)
            time.sleep(_LOOK_EVERY_S)
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def _told(plan: JoinPlan, progress: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """What the buckets of this join said of a batch with rows."""
    observed = (progress.get("observedMetrics") or {}).get(measures.OBSERVED) or {}
    if observed.get("token") != plan.checkpoint or not progress.get("numInputRows"):
        return None
    loads = [load for _, load in measures.read(observed["buckets"])]
    told = [load.shared for load in loads if load.shared]
    return told if any(load.rows for load in loads) and told else None


def _write(path: Path, decision: Mapping[str, Any]) -> None:
    """Replace the file: whoever reads it sees all of a decision."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(decision, separators=(",", ":")), encoding="utf-8")
    os.replace(new, path)
