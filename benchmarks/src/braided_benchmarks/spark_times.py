"""Where the time of a Spark batch goes, from Spark's event log and the join's own metrics."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from braided.spark.measures import metrics_of

CORES = 2


def where(log: Path, progress: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds of a steady batch by part; the parts add up to the batch."""
    known = stages(log)
    of_batches = [(p, known.get((p["runId"], p["batchId"]))) for p in progress[2:]]
    batches = [_batch(p, found) for p, found in of_batches if found]
    return {name: statistics.median(b[name] for b in batches) for name in batches[0]}


def _batch(progress: Mapping[str, Any], stages: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """One batch: its first stage packs, its second joins and unpacks, the rest is the consumer's."""
    seen = metrics_of([progress], query_id="", active=False)
    commit = sum(o["commitTimeMs"] for o in progress["stateOperators"]) / 1e3 / CORES
    pack, join, *rest = stages
    engine, state = seen.engine_seconds / CORES, seen.state_seconds / CORES + commit
    shuffle = pack["shuffle_write"] / CORES
    total = progress["durationMs"]["triggerExecution"] / 1e3
    return {
        "scan and pack": pack["seconds"] - shuffle,
        "shuffle write": shuffle,
        "engine": engine,
        "state and arena": state,
        "shuffle read, hand-over to Python, unpack": join["seconds"] - engine - state,
        "the consumer's stages": sum(s["seconds"] for s in rest),
        "Spark's own: planning, logs, scheduling": total - sum(s["seconds"] for s in stages),
    }


def stages(log: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The stages of each run's micro-batches, in order, with wall time and seconds of shuffle writing."""
    batch_of: dict[int, tuple[str, int]] = {}
    writing: defaultdict[int, float] = defaultdict(float)
    found: defaultdict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for line in log.read_text().splitlines():
        event = json.loads(line)
        kind = event["Event"]
        if kind == "SparkListenerJobStart":
            known = event.get("Properties") or {}
            if "streaming.sql.batchId" in known:
                batch = known["spark.jobGroup.id"], int(known["streaming.sql.batchId"])
                batch_of |= dict.fromkeys(event["Stage IDs"], batch)
        elif kind == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            wrote = event["Task Metrics"].get("Shuffle Write Metrics", {}).get("Shuffle Write Time", 0)
            writing[event["Stage ID"]] += wrote / 1e9
        elif kind == "SparkListenerStageCompleted":
            info = event["Stage Info"]
            if info["Stage ID"] in batch_of:
                seconds = (info["Completion Time"] - info["Submission Time"]) / 1e3
                stage = {"seconds": seconds, "shuffle_write": writing[info["Stage ID"]]}
                found[batch_of[info["Stage ID"]]].append(stage)
    return found
