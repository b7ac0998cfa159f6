"""From what is asked for to a plan: what `bd.spark.join` checks and decides before Spark is touched."""

from __future__ import annotations

import dataclasses
import functools
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import TimestampNTZType, TimestampType

from braided.local.local_join import check_inputs
from braided.query.checks import spread_problems, streaming_problems
from braided.query.errors import InvalidType, InvalidValue, require_choice
from braided.query.join_query import JoinQuery
from braided.query.kinds import LEAST_BYTES, whole
from braided.query.layout import Layout, check_rates, choose, in_stages
from braided.query.stream import Stream
from braided.query.subplans import subplans
from braided.spark.checkpoint import check_checkpoint, resumed
from braided.spark.hot_keys import declared
from braided.spark.measures import OBSERVED
from braided.spark.plan import LATE_COLUMN, JoinPlan
from braided.spark.releases import in_arrow
from braided.spark.sessions.builder import check_session
from braided.spark.storage.folders import remove_at_exit, remove_with_queries
from braided.spark.wire.labels import MAX_BUCKETS

HotKeys: TypeAlias = Literal["auto", "off"] | Mapping[str, Mapping[Any, int]]
_MANY_COPIES = 16
_COLD_GROUPS = 16  # of a bucket: each is a message to the state store when it is read
_log = logging.getLogger("braided")


@dataclass(frozen=True)
class Asked:
    """The arguments of `bd.spark.join` that a plan is made of."""

    query: JoinQuery
    frames: Mapping[str, DataFrame]
    buckets: int
    late: str
    layout: str
    rates: Mapping[str, float] | None
    hot_keys: HotKeys

    @property
    def ordered(self) -> list[DataFrame]:
        """The DataFrames in the order of the streams."""
        return [self.frames[name] for name in self.query.names]

    @property
    def spark(self) -> SparkSession:
        """Their session."""
        return self.ordered[0].sparkSession

    @property
    def streaming(self) -> bool:
        """Whether they stream."""
        return self.ordered[0].isStreaming


def planned(asked: Asked, *, checkpoint: str | None = None, resume: str | None = None) -> JoinPlan:
    """The plan of a start, which goes on with a checkpoint if one is named; what cannot be raises."""
    plan = plan_of(asked)
    if checkpoint is not None:
        check_checkpoint(plan, checkpoint, asked.spark)
    if resume is not None and asked.streaming:
        how = {"find_hot": asked.hot_keys == "auto", "choose_shares": asked.rates is not None}
        plan = resumed(plan, resume, asked.spark, **how)
    return plan


def plan_of(asked: Asked) -> JoinPlan:
    """The plan of a first start; what cannot be raises."""
    _check(asked)
    query, buckets = _with_groups(asked.query), asked.buckets
    spark, streaming = asked.spark, asked.streaming
    if streaming:
        check_session(spark)
    staged = asked.layout == "stages"
    for wrong in streaming_problems(query, staged=staged) if streaming else spread_problems(query):
        raise wrong
    short = query.overload.state_rows if query.overload is not None else None
    if short is not None and short < buckets:
        _log.warning("state_rows=%d is less than buckets=%d: some buckets can keep nothing", short, buckets)
    windowed = query.overload.intermediate_rows if query.overload is not None else None
    for rows in (windowed,) if isinstance(windowed, int) else dict(windowed or ()).values():
        if rows < buckets:
            _log.warning("intermediate_rows=%d is less than buckets=%d: each holds one row", rows, buckets)
    layout = choose(query, buckets, check_rates(query, asked.rates))
    plan = JoinPlan(
        query,
        tuple(_arrow_schema(asked.frames[s.name], s) for s in query.streams),
        buckets,
        asked.late,  # type: ignore[arg-type]
        _arena(spark) if streaming else "",
        cores=min(buckets, spark.sparkContext.defaultParallelism),
        layout=layout,
        staged=_staged(asked, layout),
        checkpoint=secrets.token_hex(8),
    )
    _check_plan(plan)
    if isinstance(asked.hot_keys, str):
        return plan
    hot = declared(plan, asked.hot_keys)
    return dataclasses.replace(plan, layout=dataclasses.replace(layout, hot_keys=hot))


def _check(asked: Asked) -> None:
    """Raise for arguments that cannot be, by themselves or together."""
    query, frames, buckets = asked.query, asked.frames, asked.buckets
    check_inputs("join", "DataFrame", query, frames)
    wanted = f"a power of two up to {MAX_BUCKETS}"
    if whole(1, MAX_BUCKETS, wanted)("join", "buckets", buckets) & (buckets - 1):
        raise InvalidValue.must("buckets", wanted, buckets, owner="join")
    require_choice("join", "late", asked.late, ("drop", "flag"))
    require_choice("join", "layout", asked.layout, ("auto", "grid", "stages"))
    if not isinstance(asked.hot_keys, Mapping):
        require_choice("join", "hot_keys", asked.hot_keys, ("auto", "off"))
    streaming = [name for name in query.names if frames[name].isStreaming]
    if 0 < len(streaming) < len(query.names):
        rest = [name for name in query.names if name not in streaming]
        raise InvalidType(f"join: {', '.join(streaming)} stream, {', '.join(rest)} do not; all must, or none")
    for name in streaming:
        _check_input(name, frames[name])
    if not streaming and query.overload is not None and query.overload.clock == "wall":
        why = "rows of a batch have long been recorded, so clock='wall' says nothing; use clock='event'"
        raise InvalidValue(f"join: {why}")


def _staged(asked: Asked, grid: Layout) -> bool:
    """Whether rows go through stages and not to the cells of a grid."""
    query = asked.query
    if asked.layout == "stages":
        return len(subplans(query.graph, query.tree)) > 1
    cheaper, reason = in_stages(query, grid, asked.rates)
    if asked.layout == "auto" and cheaper and not query.one_stage:
        _log.info("join in stages: %s", reason)
        return True
    copies = grid.sent(dict.fromkeys(query.names, 1.0)) / len(query.names)
    if copies > _MANY_COPIES:
        _log.warning(
            "this join sends a row to %.0f cells on average; fewer buckets, or layout='stages', send fewer",
            copies,
        )
    return False


def _check_input(name: str, df: DataFrame) -> None:
    """Raise if a streaming input is a join of ours: two in a row could not be exact."""
    if f"CollectMetrics {OBSERVED}," in df._jdf.queryExecution().analyzed().toString():
        raise InvalidValue(
            f"join: the input for stream {name!r} is the result of another bd.spark.join; put all streams in "
            "one JoinQuery (on= takes several keys), or write that result to a sink and read it from there"
        )


def _with_groups(query: JoinQuery) -> JoinQuery:
    """The query with a budget as it is on Spark: how many groups it has, and whether merges wait."""
    memory = query.memory
    if memory is None:
        return query
    if memory.one_sided:
        others = "use 'adaptive-global', 'state-spill' or 'hash-merge'"
        raise InvalidValue(f"join: Memory(flush={memory.flush!r}) is not available on Spark; {others}")
    memory = dataclasses.replace(memory, defer=memory.waits, groups=memory.groups or _COLD_GROUPS)
    return dataclasses.replace(query, memory=memory)


def with_memory(plan: JoinPlan, spark: SparkSession) -> JoinPlan:
    """The plan with each bucket's part of the budget, which is for an executor's process."""
    memory = plan.query.memory
    if memory is None:
        return plan
    processes = max(1, spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1)
    buckets = len(plan.labels)
    memory = dataclasses.replace(
        memory,
        limit=max(LEAST_BYTES, memory.limit_bytes * min(processes, buckets) // buckets),
    )
    plans = [dataclasses.replace(p, query=dataclasses.replace(p.query, memory=memory)) for p in plan.live]
    return dataclasses.replace(plans[0], earlier=tuple(plans[1:]))


def _check_plan(plan: JoinPlan) -> None:
    """Raise if keys cannot meet, or if what is asked for is not available."""
    stages = plan.stages()
    _ = [stage.keys for stage in stages], plan.output
    for option in ("overload", "memory"):
        if len(stages) > 1 and getattr(plan.query, option) is not None:
            raise InvalidValue(f"join: {option} needs all streams in one stage; leave out layout='stages'")
    if len(stages) > 1 and plan.query.kinds.optional:
        named = ", ".join(map(repr, plan.query.kinds.optional))
        needs = f"optional streams ({named}) need all streams in one stage"
        raise InvalidValue(f"join: {needs}; leave out layout='stages'", stream=plan.query.kinds.optional[0])
    counting = [stream.name for stream in plan.query.streams if stream.count_window is not None]
    if len(stages) > 1 and counting:
        needs = f"the window of stream {counting[0]!r} counts rows, which needs all streams in one stage"
        raise InvalidValue(f"join: {needs}; leave out layout='stages'", stream=counting[0], option="window")
    if plan.late == "flag" and LATE_COLUMN in plan.output.schema.names:
        raise InvalidValue(f"join: the column {LATE_COLUMN!r} is to flag late rows; rename yours")


@functools.cache
def _arena(spark: SparkSession) -> str:
    """The application that keeps live engines in files, which go with it and with its queries.

    There is none if Spark encrypts its local files.
    """
    if str(spark.conf.get("spark.io.encryption.enabled", "false")).lower() == "true":
        _log.warning("spark.io.encryption.enabled is set: live state is not kept in files between batches")
        return ""

    def active() -> list[str]:
        if spark.sparkContext._jsc.sc().isStopped():
            raise RuntimeError("the application has ended")
        return [str(streaming.id) for streaming in spark.streams.active]

    application: str = spark.sparkContext.applicationId
    remove_at_exit(application)
    remove_with_queries(application, active)
    return application


def _arrow_schema(df: DataFrame, stream: Stream) -> pa.Schema:
    if stream.time is not None and stream.time in df.columns:
        type_ = df.schema[stream.time].dataType
        if not isinstance(type_, TimestampType | TimestampNTZType):
            wrong = f"time column {stream.time!r} is {type_.simpleString()} and must be a timestamp; cast it"
            raise InvalidType.of(stream.name, "time", wrong)
    return pa.schema([(f.name, f.type) for f in in_arrow(df.schema)])
