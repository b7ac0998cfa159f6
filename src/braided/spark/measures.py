"""A join's numbers on their way from the buckets to the user.

Every bucket reports once a batch, and Spark's progress carries all reports. A report is a text of JSON: the
numbers that `policies.statistics` declares, in the order of `_slots`, and the bucket's `Load`. Most are
totals since the start, kept in the state, so a retried task counts once and a restart goes on.

In a query of several stages each reports under a name of its own. All report the numbers of the whole plan,
with None for what other stages know, so that they add up as buckets do.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from pyspark.sql.streaming.query import StreamingQuery

from braided.policies import statistics
from braided.policies.numbers import Number, declared
from braided.policies.statistics import JoinMetrics, Statistics, StreamStatistics
from braided.query.plan_tree import Plan, as_tuples, intermediates, label, operators
from braided.spark import hot_keys
from braided.spark.epochs import spans
from braided.spark.hot_keys import Heavy
from braided.spark.plan import JoinPlan
from braided.spark.storage.store import Chunk

OBSERVED = "braided"
_OURS = re.compile(rf"{OBSERVED}(\.\d+)?")
_GROUPS = {
    "streams": StreamStatistics,
    "half_joins": statistics.HalfJoinStatistics,
    "intermediates": statistics.IntermediateStatistics,
}
_KINDS = {"join": JoinMetrics, "rationing": statistics.RationingStatistics, **_GROUPS}
_ADAPTATIONS = 4  # that a bucket reports
_HEAVY_SHARE = 0.01  # of a stream's rows: lighter keys are not shown
_RUNS = 64
_LATEST: dict[str, dict[str, Any]] = {}  # by run of a query: the latest progress with reports of buckets


Stored: TypeAlias = Mapping[str, Sequence[Chunk]]  # by stream or intermediate


class Load(NamedTuple):
    """A bucket's rows of a batch, those of its hottest key, and the rows it holds; and its decisions.

    Each turn names its driver, then the partners in the order they were probed. `heavy` are its heavy keys.
    `shared` is what is decided by for all buckets together (`spark.decisions`), if anything is.
    """

    rows: int
    hottest_key_rows: int
    live_rows: int
    turns: Sequence[Sequence[str]]
    epoch: int
    heavy: Heavy
    shared: Mapping[str, Any] = {}


Report: TypeAlias = tuple[Sequence[Any], Load]  # a bucket's numbers, and the rest


class _Slot(NamedTuple):
    """A number in a report: of the join, its rationing, or a stream, half-join or intermediate by name."""

    of: str
    key: Any
    name: str
    number: Number


def observation(plan: JoinPlan) -> str:
    """The name under which Spark reports a stage's numbers; the last stage's are the join's."""
    return OBSERVED if plan.last else f"{OBSERVED}.{plan.stage}"


@functools.lru_cache(maxsize=16)
def _slots(streams: tuple[str, ...], plan: Plan) -> list[_Slot]:
    pairs = [(label(a), label(b)) for node in operators(plan) for a in node for b in node if a != b]
    made = [label(node) for node in intermediates(plan)]
    keys = {"streams": streams, "half_joins": pairs, "intermediates": made}
    return [
        _Slot(of, key, name, number)
        for of, kind in _KINDS.items()
        for key in keys.get(of, ("",))
        for name, number in declared(kind).items()
        if number.adds
    ]


def report(
    seen: Statistics,
    plan: JoinPlan,
    stored: Stored,
    *,
    number: int = 0,
    rows: int,
    hottest_key_rows: int,
    heavy: Heavy | None = None,
    shared: Mapping[str, Any] | None = None,
    **measured: float,
) -> str:
    """What bucket `number` has to report; `measured` are numbers of this batch that no engine knows."""
    query, last = plan.query, plan.last
    # of streams that another stage joins only the newest time is known here
    streams: dict[str, dict[str, Any]] = {n: {"newest_us": s.newest_us} for n, s in seen.streams.items()}
    streams |= {n: _of_stream(seen.streams[n], stored.get(n, ())) for n in plan.subplan.streams}
    chunks = [chunk for of_input in stored.values() for chunk in of_input]
    measured |= {"state_bytes": sum(chunk.size for chunk in chunks), "state_chunks": len(chunks)}
    values: dict[str, dict[Any, dict[str, Any]]] = {
        "join": {"": vars(seen) | measured | ({"buckets": 1} if last else {"results": None})},
        "rationing": {},
        "streams": streams,
        "half_joins": {pair: vars(h) for pair, h in seen.half_joins.items()},
        "intermediates": {name: vars(i) for name, i in seen.intermediates.items()},
    }
    if seen.rationing is not None:
        values["rationing"][""] = _of_bucket(seen.rationing, number)
    numbers = [values[s.of].get(s.key, {}).get(s.name) for s in _slots(query.names, query.tree)]
    turns = [(driver, *seen.probe_orders[driver]) for driver in seen.driver_streams]
    live = sum(numbers.get("live_rows", 0) for numbers in streams.values())
    load = Load(rows, hottest_key_rows, live, turns, plan.epoch.number, heavy or {}, shared or {})
    return json.dumps([numbers, load], separators=(",", ":"), default=int)


def _of_stream(seen: StreamStatistics, chunks: Sequence[Chunk]) -> dict[str, Any]:
    """A stream's numbers, with the rows that can still be met: an engine may hold more, and so may chunks."""
    live = min(sum(chunk.live_rows for chunk in chunks), seen.live_rows)
    return vars(seen) | {"live_rows": live, "live_bytes": sum(chunk.size for chunk in chunks)}


def _of_bucket(seen: statistics.RationingStatistics, number: int) -> dict[str, Any]:
    """What a bucket has decided, with its number."""
    latest = [vars(adapted) | {"bucket": number} for adapted in seen.adaptations[-_ADAPTATIONS:]]
    reasons = [f"bucket {number}: {seen.reason}"] if seen.reason else []
    return vars(seen) | {"adaptations": latest, "reasons": reasons}


def read(texts: Sequence[str]) -> list[Report]:
    """The reports of buckets."""
    return [(numbers, Load(*load)) for numbers, load in map(json.loads, texts)]


def combined(
    streams: Sequence[str], plan: Plan, stages: Sequence[Sequence[Report]], **known: Any
) -> JoinMetrics:
    """The join's metrics out of the reports of all buckets of a batch, stage by stage.

    Decisions are those of the bucket with most rows. What is `known` otherwise is taken as it is.
    """
    values: dict[str, dict[Any, dict[str, Any]]] = {of: {} for of in _KINDS}
    columns = zip(*(numbers for stage in stages for numbers, _ in stage), strict=True)
    for slot, column in zip(_slots(tuple(streams), plan), columns, strict=True):
        values[slot.of].setdefault(slot.key, {})[slot.name] = slot.number.merged(column)
    groups: dict[str, Any] = {
        of: {key: kind(**numbers) for key, numbers in values[of].items()} for of, kind in _GROUPS.items()
    }
    loads = [[load for _, load in stage] for stage in stages]
    busiest = [max(stage, key=lambda load: load.rows) for stage in loads]
    turns = [tuple(turn) for load in busiest for turn in load.turns]
    return JoinMetrics(
        **values["join"][""],
        **groups,
        rationing=_rationing(values["rationing"][""]),
        driver_streams=tuple(turn[0] for turn in turns),
        probe_orders={turn[0]: turn[1:] for turn in turns},
        lag_us=_lags(groups["streams"]),
        largest_bucket_share=max(_share([load.live_rows for load in stage]) for stage in loads),
        hot_keys=_hot_keys(loads[-1]),
        **known,
    )


def _hot_keys(loads: Sequence[Load]) -> dict[str, dict[str, float]]:
    """By stream, the heavy keys of all buckets, the heaviest first, and their shares of its rows."""
    found = hot_keys.shares([load.heavy for load in loads])
    return {
        name: {text: share for share, text in sorted(keys.values(), reverse=True) if share >= _HEAVY_SHARE}
        for name, keys in found.items()
    }


def epochs_of(plan: JoinPlan) -> str:
    """The epochs of a plan, oldest first, as `_epochs` reads them."""
    known = [
        [epoch.number, epoch.since_us, epoch.until_us, passes_us, changed]
        for epoch, passes_us, changed in spans(plan)
    ]
    return json.dumps(known)


def _epochs(known: Sequence[Sequence[Any]], reports: Sequence[Report]) -> tuple[statistics.EpochMetrics, ...]:
    live = {epoch[0]: sum(load.live_rows for _, load in reports if load.epoch == epoch[0]) for epoch in known}
    return tuple(
        statistics.EpochMetrics(n, since, until, past, live[n], tuple(words))
        for n, since, until, past, words in known
    )


def _rationing(values: Mapping[str, Any]) -> statistics.RationingStatistics | None:
    if values["adaptations"] is None:
        return None
    latest = sorted((statistics.Adapted(**a) for a in values["adaptations"]), key=lambda a: a.batch)
    read = {"adaptations": tuple(latest), "reasons": tuple(values["reasons"])}
    return statistics.RationingStatistics(**{**values, **read})


def _lags(streams: Mapping[str, StreamStatistics]) -> dict[str, int | None]:
    newest = {name: s.newest_us for name, s in streams.items()}
    front = max((t for t in newest.values() if t is not None), default=0)
    return {name: None if t is None else front - t for name, t in newest.items()}


def _share(rows: Sequence[int]) -> float:
    """The part of the largest."""
    return max(rows) / sum(rows) if any(rows) else 0.0


def metrics(streaming: StreamingQuery) -> JoinMetrics:
    """The metrics of a running (or ended) streaming join; from any thread, at any time."""
    progress = _remembered(str(streaming.runId), [json.loads(p.json) for p in streaming.recentProgress])
    return metrics_of(progress, query_id=str(streaming.id), active=streaming.isActive)


def _remembered(run: str, progress: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Progress, with the last in which buckets reported: a query that idles long has nothing else."""
    latest = next((batch for batch in reversed(progress) if _reports([batch])), None)
    if latest is None:
        return [_LATEST[run], *progress] if run in _LATEST else progress
    _LATEST.pop(run, None)
    _LATEST[run] = latest
    if len(_LATEST) > _RUNS:
        del _LATEST[next(iter(_LATEST))]
    return progress


def metrics_of(progress: Sequence[Mapping[str, Any]], *, query_id: str, active: bool) -> JoinMetrics:
    """The metrics as they were after the last of these progress reports of a query."""
    known = {"query_id": query_id, "active": active, **_spark_side(progress)}
    reports = _reports(progress)
    if OBSERVED not in reports:
        return JoinMetrics(results=0, batches=0, watermark_us=None, streams={}, half_joins={}, **known)
    last = reports[OBSERVED][0]
    latest = [read(newest_first[0]["buckets"]) for newest_first in reports.values()]
    if len(latest) > 1:  # Spark counts the rows of a stream twice if its times are read for another stage
        rows = sum(load.rows for stage in latest for _, load in stage)
        known["rows_per_second"] = rows / (known["batch_seconds"][-1] or 1.0)
    return combined(
        last["streams"],
        as_tuples(json.loads(last["plan"])),
        latest,
        hottest_key_share=max(map(_hottest_share, reports.values())),
        memory_limit=last.get("memory_limit"),
        owed_within_seconds=last.get("owed_within"),
        epochs=_epochs(json.loads(last.get("epochs") or "[]"), latest[-1]),
        **known,
    )


def _reports(progress: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """What each stage has reported, newest first; the last stage at the end."""
    reports: dict[str, list[Mapping[str, Any]]] = {}
    for batch in reversed(progress):
        for name, reported in (batch.get("observedMetrics") or {}).items():
            if _OURS.fullmatch(name) and reported["buckets"]:
                reports.setdefault(name, []).append(reported)
    return {name: reports[name] for name in sorted(reports, key=lambda name: (name == OBSERVED, name))}


def _hottest_share(newest_first: Sequence[Mapping[str, Any]]) -> float:
    """The hottest key's part in the latest batch of a stage that had rows."""
    for reported in newest_first:
        loads = [load for _, load in read(reported["buckets"])]
        if rows := sum(load.rows for load in loads):
            return max(load.hottest_key_rows for load in loads) / rows
    return 0.0


def _spark_side(progress: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not progress:
        return {}
    return {
        "batch_id": progress[-1]["batchId"],
        "batch_seconds": tuple(p["durationMs"].get("triggerExecution", 0) / 1e3 for p in progress),
        "rows_per_second": float(progress[-1].get("processedRowsPerSecond") or 0.0),
    }
