"""A join's numbers on their way from the buckets to the user.

Every bucket sends one vector per batch, and Spark's progress reports carry all of them. Most numbers are
totals since the start, kept in the state, so a retried task counts once and a restart goes on; sums (or
maxima) over the buckets are the join's. Behind the numbers stand the latest decisions: for each turn the
operator, then its driver input and the partners in the order they were probed. What is said in words (who may
probe, and why) goes beside them.

In a query of several stages each reports under a name of its own. All report the numbers of the whole plan,
with nothing in those of other stages, so that sums (or maxima) over the stages are the join's, too.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from braided.policies.statistics import (
    Adapted,
    HalfJoinStatistics,
    IntermediateStatistics,
    RationingStatistics,
    Statistics,
    StreamStatistics,
)
from braided.query.plan_tree import Plan, as_tuples, intermediates, label, operators
from braided.spark.plan import Stage
from braided.spark.storage.store import Chunk, Meta

OBSERVED = "braided"
_SAID = 4  # adaptations that a bucket reports
_RUNS = 64
_TOLD: dict[str, dict[str, Any]] = {}  # by run of a query: the latest report that says something

_STREAM = (
    "rows_in", "late_rows", "null_keys", "null_times", "live_rows", "live_bytes", "expired_rows",
    "purged_rows", "newest_us", "shed_rows", "cut_rows", "index_changes", "staleness_us", "punctuations",
    "violations", "closed_keys", "spilled_rows",
)  # fmt: skip
_HALF_JOIN = ("probes", "same_key", "matches", "allowance")
_INTERMEDIATE = ("live_rows", "live_bytes", "expired_rows", "spilled_rows")
_NONE_IF_ANY = ("exact_again",)  # None of one bucket is None of all; else the largest
_LARGEST = ("newest_us", "staleness_us", "batches", "watermark_us", "largest_bucket_rows", "hottest_key_rows")
_GENERAL = (
    "results", "driver_switches", "profile_probes", "driven_rows", "batches", "watermark_us", "buckets",
    "largest_bucket_rows", "state_bytes", "state_chunks",
    "rebuilds", "arena_hits", "engine_us", "state_us", "batch_rows", "hottest_key_rows",
    "exact_again", "budget", "results_lost", "punctuations_out", "spilled_bytes",
    "owed",
)  # fmt: skip


def observation(stage: Stage) -> str:
    """The name under which Spark reports a stage's numbers; the last stage's are the join's."""
    return OBSERVED if stage.last else f"{OBSERVED}.{stage.number}"


def names(streams: Sequence[str], plan: Plan | None = None) -> list[str]:
    """What each number of a vector is; without a plan it is the flat one."""
    tree = plan or tuple(streams)
    return [
        *_GENERAL,
        *(f"stream.{s}.{name}" for s in streams for name in _STREAM),
        *(f"scanning.{s}" for s in streams),
        *(f"intermediate.{label(node)}.{name}" for node in intermediates(tree) for name in _INTERMEDIATE),
        *(f"half_join.{a}.{b}.{name}" for a, b in _pairs(tree) for name in _HALF_JOIN),
    ]


def _pairs(tree: Plan) -> list[tuple[str, str]]:
    """All (probing, probed) inputs."""
    return [(label(a), label(b)) for node in operators(tree) for a in node for b in node if a != b]


def read_plan(said: str | None) -> Plan | None:
    """A plan out of a report."""
    return None if said is None else as_tuples(json.loads(said))


def said(seen: Statistics) -> str | None:
    """What a bucket has to say in words; None if nothing is rationed, and nothing waits on disk."""
    words: dict[str, Any] = {"disk_decision": seen.disk_decision} if seen.disk_decision else {}
    if seen.rationing is not None:
        latest = [[a.batch, a.reason, a.taken] for a in seen.rationing.adaptations[-_SAID:]]
        known = {n: getattr(seen.rationing, n) for n in ("reason", "problem", "freshness_share")}
        words |= {**known, "adaptations": latest}
    return json.dumps(words) if words else None


def vector(seen: Statistics, meta: Meta, plan: Plan, **latest: int) -> list[int | None]:
    """One bucket's numbers; `latest` are those of this batch alone."""
    chunks = list(meta.chunks())
    streams = [
        replace(s, live_rows=_live(s, stored), live_bytes=sum(c.size for c in stored))
        for s, stored in zip(seen.streams.values(), map(meta.chunks_of, seen.streams), strict=True)
    ]
    general = {
        "results": seen.results,
        "driver_switches": seen.driver_switches,
        "profile_probes": seen.profile_probes,
        "driven_rows": seen.driven_rows,
        "batches": seen.batches,
        "watermark_us": seen.watermark_us,
        "buckets": 1,
        "largest_bucket_rows": sum(s.live_rows for s in streams),
        "state_bytes": sum(c.size for c in chunks),
        "state_chunks": len(chunks),
        "exact_again": seen.exact_again,
        "budget": seen.rationing.budget if seen.rationing else None,
        "results_lost": seen.rationing.results_lost if seen.rationing else 0,
        "punctuations_out": seen.punctuations_out,
        "spilled_bytes": seen.spilled_bytes,
        "owed": seen.owed,
        **latest,
    }
    return [
        *(general[name] for name in _GENERAL),
        *(getattr(s, name) for s in streams for name in _STREAM),
        *(int(s.index == "scan") for s in streams),
        *(getattr(i, name) for i in _intermediates(seen, plan) for name in _INTERMEDIATE),
        *(getattr(h, name) for h in _half_joins(seen, plan) for name in _HALF_JOIN),
        *_decisions(seen, plan),
    ]


def _intermediates(seen: Statistics, plan: Plan) -> list[IntermediateStatistics]:
    return [seen.intermediates.get(label(node), IntermediateStatistics()) for node in intermediates(plan)]


def _half_joins(seen: Statistics, plan: Plan) -> list[HalfJoinStatistics]:
    return [seen.half_joins.get(pair, HalfJoinStatistics()) for pair in _pairs(plan)]


def _decisions(seen: Statistics, plan: Plan) -> Iterator[int]:
    inputs = [[label(child) for child in node] for node in operators(plan)]
    for driver in seen.driver_streams:
        number = next(i for i, named in enumerate(inputs) if driver in named)
        yield number
        yield from (inputs[number].index(name) for name in (driver, *seen.probe_orders[driver]))


def _live(seen: StreamStatistics, stored: Sequence[Chunk]) -> int:
    """Rows of a stream that can still be found: an engine may hold more, and so may chunks."""
    return min(sum(c.live_rows for c in stored), seen.live_rows)


def combined(
    streams: Sequence[str], vectors: Sequence[Sequence[int | None]], plan: Plan | None = None
) -> dict[str, Any]:
    """The join's numbers out of the buckets', and the decisions of the bucket with most rows."""
    named = names(streams, plan)
    values: dict[str, Any] = {}
    for i, name in enumerate(named):
        of_buckets = [n for v in vectors if (n := v[i]) is not None]
        last = name.rsplit(".", 1)[-1]
        combine = max if last in (*_LARGEST, *_NONE_IF_ANY) else sum
        lacking = not of_buckets or (last in _NONE_IF_ANY and len(of_buckets) < len(vectors))
        values[name] = None if lacking else combine(of_buckets)
    largest = max(vectors, key=lambda v: v[named.index("batch_rows")] or 0)
    turns = list(_turns(largest[len(named) :], plan or tuple(streams)))
    values["driver_streams"] = tuple(turn[0] for turn in turns)
    values["probe_orders"] = {turn[0]: turn[1:] for turn in turns}
    return values


def over_stages(stages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The join's numbers out of its stages', the last of which finds the results."""
    *others, last = stages
    values = dict(last)
    for stage in others:
        for name, old in values.items():
            new, what = stage[name], name.rsplit(".", 1)[-1]
            if name in ("results", "buckets", "exact_again") or new is None:
                continue
            if name == "probe_orders":
                values[name] = {**new, **old}
            elif old is None:
                values[name] = new
            else:
                values[name] = max(old, new) if what in _LARGEST else new + old
    return values


def _turns(decisions: Sequence[int | None], plan: Plan) -> Iterator[tuple[str, ...]]:
    at, nodes = 0, operators(plan)
    while at < len(decisions):
        node = nodes[int(decisions[at] or 0)]
        yield tuple(label(node[int(i or 0)]) for i in decisions[at + 1 : at + 1 + len(node)])
        at += 1 + len(node)


@dataclass(frozen=True)
class JoinMetrics(Statistics):
    """A running join's statistics, and what Spark and the state store know of it.

    `batch_seconds` are the latest batches' times, oldest first; `largest_bucket_share` is the largest
    bucket's part of all live rows (1 / buckets is even), `hottest_key_share` about what part of the latest
    rows had the same key, both in the most uneven stage; `lag_us` is how far each stream's newest time lies
    behind the newest of all; `memory_limit` is the `Memory` budget of all buckets, in bytes. `rebuilds`,
    `arena_hits`, `engine_seconds` and `state_seconds` are of the latest batch, over all buckets.
    """

    query_id: str = ""
    batch_id: int = -1
    active: bool = False
    batch_seconds: tuple[float, ...] = ()
    rows_per_second: float = 0.0
    buckets: int = 0
    largest_bucket_share: float = 0.0
    hottest_key_share: float = 0.0
    state_bytes: int = 0
    state_chunks: int = 0
    rebuilds: int = 0
    arena_hits: int = 0
    engine_seconds: float = 0.0
    state_seconds: float = 0.0
    lag_us: Mapping[str, int | None] = field(default_factory=dict)
    memory_limit: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Only plain values."""
        own = {f.name: getattr(self, f.name) for f in fields(JoinMetrics)}
        shared = {f.name for f in fields(Statistics)}
        extra = {n: list(v) if isinstance(v, tuple) else v for n, v in own.items() if n not in shared}
        return {**super().to_dict(), **extra}


def metrics(streaming: StreamingQuery) -> JoinMetrics:
    """The metrics of a running (or ended) streaming join; from any thread, at any time."""
    progress = _remembered(str(streaming.runId), [json.loads(p.json) for p in streaming.recentProgress])
    return metrics_of(progress, query_id=str(streaming.id), active=streaming.isActive)


def _remembered(run: str, progress: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reports, with the last that buckets told something in: a query that idles long reports nothing else."""
    told = next((report for report in reversed(progress) if _reports([report])), None)
    if told is not None:
        _TOLD.pop(run, None)
        _TOLD[run] = told
        while len(_TOLD) > _RUNS:
            del _TOLD[next(iter(_TOLD))]
    elif run in _TOLD:
        return [_TOLD[run], *progress]
    return progress


def metrics_of(progress: Sequence[Mapping[str, Any]], *, query_id: str, active: bool) -> JoinMetrics:
    """The metrics as they were after the last of these progress reports of a query."""
    common = {"query_id": query_id, "active": active, **_spark_side(progress)}
    reports = _reports(progress)
    if OBSERVED not in reports:
        return JoinMetrics(results=0, batches=0, watermark_us=None, streams={}, half_joins={}, **common)
    last = reports[OBSERVED][0]
    names_, plan = last["streams"], read_plan(last.get("plan"))
    stages = [
        [functools.partial(combined, names_, r["buckets"], plan) for r in told] for told in reports.values()
    ]
    latest = [told[0]() for told in stages]
    observed = over_stages(latest)
    if len(stages) > 1:  # Spark counts the rows of a stream twice if its times are read for another stage
        common["rows_per_second"] = observed["batch_rows"] / (common["batch_seconds"][-1] or 1.0)
    fed = [f for told in stages if (f := next((c for r in told if (c := r())["batch_rows"]), None))]
    seen = _statistics(names_, observed, plan, last.get("said") or ())
    newest = {n: s.newest_us for n, s in seen.streams.items()}
    front = max((t for t in newest.values() if t is not None), default=None)
    shared = {f.name: getattr(seen, f.name) for f in fields(Statistics)}
    return JoinMetrics(
        **shared,
        **common,
        buckets=observed["buckets"],
        largest_bucket_share=max(_largest_share(names_, stage) for stage in latest),
        state_bytes=observed["state_bytes"],
        state_chunks=observed["state_chunks"],
        rebuilds=observed["rebuilds"],
        arena_hits=observed["arena_hits"],
        hottest_key_share=max((f["hottest_key_rows"] / f["batch_rows"] for f in fed), default=0.0),
        engine_seconds=observed["engine_us"] / 1e6,
        state_seconds=observed["state_us"] / 1e6,
        lag_us={n: None if t is None or front is None else front - t for n, t in newest.items()},
        memory_limit=last.get("memory_limit"),
    )


def _reports(progress: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """What each stage has told, newest first; the last stage at the end."""
    told: dict[str, list[Mapping[str, Any]]] = {}
    for batch in reversed(progress):
        for name, report in (batch.get("observedMetrics") or {}).items():
            mine = name == OBSERVED or name.removeprefix(f"{OBSERVED}.").isdigit()
            if mine and report["buckets"]:
                told.setdefault(name, []).append(report)
    return {name: told[name] for name in sorted(told, key=lambda name: (name == OBSERVED, name))}


def _largest_share(streams: Sequence[str], values: Mapping[str, Any]) -> float:
    live = sum(values[f"stream.{s}.live_rows"] or 0 for s in streams)
    return values["largest_bucket_rows"] / live if live else 0.0


def _spark_side(progress: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not progress:
        return {}
    return {
        "batch_id": progress[-1]["batchId"],
        "batch_seconds": tuple(p["durationMs"].get("triggerExecution", 0) / 1e3 for p in progress),
        "rows_per_second": float(progress[-1].get("processedRowsPerSecond") or 0.0),
    }


def _statistics(
    streams: Sequence[str],
    values: Mapping[str, Any],
    plan: Plan | None = None,
    told: Sequence[str] = (),
) -> Statistics:
    """The join's statistics out of combined numbers, and what the first bucket says in words."""
    tree = plan or tuple(streams)
    words = json.loads(told[0]) if told else {}
    return Statistics(
        results=values["results"] or 0,
        driver_switches=values["driver_switches"] or 0,
        profile_probes=values["profile_probes"] or 0,
        driven_rows=values["driven_rows"] or 0,
        driver_streams=values["driver_streams"],
        probe_orders=values["probe_orders"],
        batches=values["batches"] or 0,
        watermark_us=values["watermark_us"],
        streams={
            s: StreamStatistics(
                **{n: _or_zero(n, values[f"stream.{s}.{n}"]) for n in _STREAM}, index=_index(s, values)
            )
            for s in streams
        },
        half_joins={(a, b): _half_join(a, b, values) for a, b in _pairs(tree)},
        intermediates={
            (name := label(node)): IntermediateStatistics(
                **{n: values[f"intermediate.{name}.{n}"] or 0 for n in _INTERMEDIATE}
            )
            for node in intermediates(tree)
        },
        exact_again=values["exact_again"],
        punctuations_out=values["punctuations_out"] or 0,
        spilled_bytes=values["spilled_bytes"] or 0,
        owed=values["owed"] or 0,
        disk_decision=words.get("disk_decision", ""),
        rationing=_rationing(values, words),
    )


def _half_join(a: str, b: str, values: Mapping[str, Any]) -> HalfJoinStatistics:
    numbers = {n: values[f"half_join.{a}.{b}.{n}"] for n in _HALF_JOIN}
    return HalfJoinStatistics(**{n: v if n == "allowance" else v or 0 for n, v in numbers.items()})


def _rationing(values: Mapping[str, Any], first: Mapping[str, Any]) -> RationingStatistics | None:
    if "adaptations" not in first:
        return None
    return RationingStatistics(
        budget=values["budget"],
        freshness_share=first["freshness_share"],
        results_lost=values["results_lost"] or 0,
        reason=first["reason"],
        adaptations=tuple(Adapted(*a) for a in first["adaptations"]),
        problem=first["problem"],
    )


def _index(stream: str, values: Mapping[str, Any]) -> str:
    scanning = values[f"scanning.{stream}"] or 0
    return "hash" if not scanning else "scan" if scanning == values["buckets"] else "mixed"


def _or_zero(name: str, value: Any) -> Any:
    return value if name in ("newest_us", "staleness_us") else value or 0
