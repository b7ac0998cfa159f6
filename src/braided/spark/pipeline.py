"""The join as a DataFrame: pack, group by bucket, join with state, unpack.

A join graph whose plan has operators without a common key becomes several such stages in one query: what one
stage finds is packed again by the next one's key. `wire.pack` says what else the stages tell each other.

    orders    -> pack by customer -.
    customers -> pack by customer -+- group -> stage 0 -> repack by item -.
    items     -> newest time only -'                                      +- group -> stage 1 -> unpack
    items     -> pack by item --------------------------------------------'
"""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from braided.local.local_join import check_inputs
from braided.query.checks import streaming_problems
from braided.query.errors import InvalidType, InvalidValue, require_choice
from braided.query.join_query import JoinQuery
from braided.query.kinds import whole
from braided.query.memory import LEAST_BYTES
from braided.query.parts import RESULT_TIME
from braided.query.plan_tree import Plan as PlanNode
from braided.query.stream import Stream
from braided.spark.bucket import batch_join
from braided.spark.checkpoint import check_checkpoint
from braided.spark.measures import OBSERVED, observation
from braided.spark.plan import LATE_COLUMN, JoinPlan
from braided.spark.processor import JoinProcessor
from braided.spark.releases import in_arrow
from braided.spark.sessions.builder import check_session, start_workers
from braided.spark.sources.heartbeat import beats
from braided.spark.storage.folders import remove_at_exit, remove_with_queries
from braided.spark.wire.blobs import unpack
from braided.spark.wire.labels import MAX_BUCKETS
from braided.spark.wire.pack import beat, pack, repack, tell
from braided.spark.wire.packed import Emitted, Packed, schema

DEFAULT_BUCKETS = 8
_COLD_GROUPS = 16  # of a bucket: each is a message to the state store when it is read
_COLD_RATE = 300_000.0  # rows a second that come from the state store and are joined
_log = logging.getLogger("braided")


def join(
    query: JoinQuery,
    frames: Mapping[str, DataFrame],
    *,
    buckets: int = DEFAULT_BUCKETS,
    late: Literal["drop", "flag"] = "drop",
    heartbeat: bool | None = None,
    checkpoint: str | None = None,
) -> DataFrame:
    """The join of DataFrames: streaming ones give a streaming DataFrame, batch ones a batch result.

    `buckets` (a power of two) is how many parts the keys are split into; it is fixed in a checkpoint. A join
    without any key has one, whatever is asked for, and says so in a warning.
    With `late="flag"` rows that come too late are handed out as rows of their own, with the name of
    their stream in the column `late_stream`; else they are only counted.
    With `heartbeat` a batch is run every second even while all sources are silent; None: if merges may wait
    for that (`Memory(defer=True)`). It is a source of the query, and a checkpoint's sources are fixed.
    With `checkpoint`, the folder that the query is to be started with, a query that cannot go on with what
    is there is refused here, before Spark writes anything; else in the first batch.
    """
    plan = _plan(query, frames, buckets, late)
    beating = bool(query.memory and query.memory.defer) if heartbeat is None else heartbeat
    ordered = [frames[name] for name in query.names]
    if checkpoint is not None:
        check_checkpoint(plan, checkpoint, ordered[0].sparkSession)
    if ordered[0].isStreaming:
        start_workers(ordered[0].sparkSession)
    made: dict[PlanNode, DataFrame] = {s.name: _watermarked(frames[s.name], s) for s in query.streams}
    for stage in plan.stages():
        packed = _packed(stage, made, frames)
        if ordered[0].isStreaming and stage.first and beating:
            packed.append(_sent(beats(ordered[0].sparkSession), functools.partial(beat, stage)))
        made[stage.subplan.node] = _joined(stage, packed)
    result = made[query.tree].mapInArrow(unpack, _spark_schema(plan, ordered))
    return _with_watermark(result, plan)


def _packed(
    plan: JoinPlan, made: Mapping[PlanNode, DataFrame], frames: Mapping[str, DataFrame]
) -> list[DataFrame]:
    """The rows of a stage's inputs on their way to its buckets, in the order of its union.

    A first stage also gets the newest times of the streams that it does not join itself. A stream without a
    time has none to tell; it is read all the same, for its place among the sources.
    """
    packed: dict[PlanNode, DataFrame] = {}
    for number, node in enumerate(plan.inputs):
        if node in plan.subplan.inputs:
            work = pack if isinstance(node, str) else repack
            packed[node] = _sent(made[node], functools.partial(work, plan, number))
        elif isinstance(node, str) and plan.first and frames[node].isStreaming:
            time = plan.query.streams[number].time
            newest = frames[node].select(F.lit(True) if time is None else F.col(_quoted(time)))
            packed[node] = _sent(newest, functools.partial(tell, plan, number))
    return [packed[node] for node in sorted(packed, key=_place)]


def _place(node: PlanNode) -> tuple[bool, str]:
    """Where an input stands in a stage's union: what lower stages hand on, then streams by name.

    Spark numbers the sources of a checkpoint as it meets them in the plan, from the left. A first stage comes
    first and reads every stream, so the numbers depend on nothing but the streams' names: a query that gives
    its streams in another order, or has another plan, and is refused, has not written into the logs of
    another source.
    """
    return isinstance(node, str), str(node)


def _joined(plan: JoinPlan, packed: Sequence[DataFrame]) -> DataFrame:
    """What a stage makes of packed rows: blobs of results, or of rows for the next stage."""
    grouped = functools.reduce(DataFrame.union, packed).groupBy("bucket")
    blobs = from_arrow_schema(schema(Emitted))
    if packed[0].isStreaming:
        joined = grouped.transformWithStateInPandas(JoinProcessor(plan), blobs, "Append", "None")
        return joined.observe(observation(plan), *_observations(plan))
    return grouped.applyInArrow(batch_join(plan, whole=pyspark.__version__.startswith("4.0.")), blobs)


def _plan(query: JoinQuery, frames: Mapping[str, DataFrame], buckets: int, late: str) -> JoinPlan:
    check_inputs("join", "DataFrame", query, frames)
    wanted = f"a power of two up to {MAX_BUCKETS}"
    if whole(1, MAX_BUCKETS, wanted)("join", "buckets", buckets) & (buckets - 1):
        raise InvalidValue.must("buckets", wanted, buckets, owner="join")
    require_choice("join", "late", late, ("drop", "flag"))
    spark = frames[query.names[0]].sparkSession
    streaming = [name for name in query.names if frames[name].isStreaming]
    if 0 < len(streaming) < len(query.names):
        rest = [name for name in query.names if name not in streaming]
        raise InvalidType(f"join: {', '.join(streaming)} stream, {', '.join(rest)} do not; all must, or none")
    for name in streaming:
        _check_input(name, frames[name])
    if streaming:
        check_session(spark)
        for wrong in streaming_problems(query):
            raise wrong
    if query.keyless and buckets > 1:
        _log.warning("this join has no key: all rows are compared with all others in one bucket, by one task")
        buckets = 1
    short = query.overload.state_rows if query.overload is not None else None
    if short is not None and short < buckets:
        _log.warning("state_rows=%d is less than buckets=%d: some buckets can keep nothing", short, buckets)
    schemas = tuple(_arrow_schema(frames[s.name], s) for s in query.streams)
    arena = _arena(spark) if streaming else ""
    cores = min(buckets, spark.sparkContext.defaultParallelism)
    query = _shared_memory(query, buckets, spark)
    plan = JoinPlan(query, schemas, buckets, late, arena, cores=cores)  # type: ignore[arg-type]
    _check_plan(plan)
    return plan


def _check_input(name: str, df: DataFrame) -> None:
    """Raise if a streaming input is a join of ours: two in a row could not be exact."""
    if f"CollectMetrics {OBSERVED}," in df._jdf.queryExecution().analyzed().toString():
        raise InvalidValue(
            f"join: the input for stream {name!r} is the result of another bd.spark.join; put all streams in "
            "one JoinQuery (on= takes several keys), or write that result to a sink and read it from there"
        )


def _shared_memory(query: JoinQuery, buckets: int, spark: SparkSession) -> JoinQuery:
    """The query with each bucket's part of the budget, which is for an executor's process."""
    memory = query.memory
    if memory is None:
        return query
    if memory.one_sided:
        others = "use 'adaptive-global', 'state-spill' or 'hash-merge'"
        raise InvalidValue(f"join: Memory(flush={memory.flush!r}) is not available on Spark; {others}")
    processes = max(1, spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1)
    memory = dataclasses.replace(
        memory,
        limit=max(LEAST_BYTES, memory.limit_bytes * min(processes, buckets) // buckets),
        defer=bool(memory.defer),
        groups=memory.groups or _COLD_GROUPS,
        disk_rate=memory.disk_rate or _COLD_RATE,
    )
    return dataclasses.replace(query, memory=memory)


def _check_plan(plan: JoinPlan) -> None:
    """Raise if keys cannot meet, or if what is asked for is not available."""
    stages = plan.stages()
    _ = [stage.keys for stage in stages], plan.output
    for option in ("overload", "memory"):
        if len(stages) > 1 and getattr(plan.query, option) is not None:
            raise InvalidValue(f"join: {option} is not available with several keys on Spark; use one key")
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


def _watermarked(df: DataFrame, stream: Stream) -> DataFrame:
    """The stream with a watermark on its time; one that is there already is respected."""
    columns = df._jdf.queryExecution().analyzed().output()
    marks = (columns.apply(i).metadata() for i in range(columns.size()))
    marked = any(mark.contains("spark.watermarkDelayMs") for mark in marks)
    if not df.isStreaming or stream.time is None or marked:
        return df
    return df.withWatermark(_quoted(stream.time), f"{stream.lateness_us // 1000} milliseconds")


def _quoted(column: str) -> str:
    """A column's name as Spark reads it, whatever is in it."""
    return "`" + column.replace("`", "``") + "`"


def _spark_schema(plan: JoinPlan, frames: list[DataFrame]) -> StructType:
    """The result's Spark schema: columns keep the types they came with."""
    by_name = dict(zip(plan.query.names, frames, strict=True))
    types = {name: by_name[s].schema[column].dataType for name, (s, column) in plan.output.sources.items()}
    added = from_arrow_schema(pa.schema([field for field in plan.schema if field.name not in types]))
    return StructType([*(StructField(name, type_) for name, type_ in types.items()), *added])


def _with_watermark(result: DataFrame, plan: JoinPlan) -> DataFrame:
    """Mark `result_time` as event time, so that windowed aggregations can follow."""
    if not plan.output.timed or not result.isStreaming:
        return result
    marked = F.col(RESULT_TIME).alias(RESULT_TIME, metadata={"spark.watermarkDelayMs": 0})
    return result.select(*[marked if c == RESULT_TIME else F.col(_quoted(c)) for c in result.columns])


def _observations(plan: JoinPlan) -> list[Any]:
    """One aggregate, however many numbers: Spark plans it in every batch."""
    query = plan.query
    known = {"streams": F.array(*map(F.lit, query.names)), "plan": F.lit(json.dumps(query.tree))}
    if query.memory is not None:
        known["memory_limit"] = F.lit(query.memory.limit_bytes * plan.buckets)
    return [F.collect_list("report").alias("buckets"), *(F.first(v).alias(n) for n, v in known.items())]


def _sent(df: DataFrame, packer: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> DataFrame:
    """What a task sends to the buckets, as packed rows; PySpark wants a function, not any callable.

    PySpark looks columns up by name here, and takes dots and backticks for a path: then they go by number.
    """
    if any("." in name or "`" in name for name in df.columns):
        df = df.toDF(*map(str, range(len(df.columns))))
    return df.mapInArrow(lambda batches: packer(iter(batches)), from_arrow_schema(schema(Packed)))
