"""The join as a DataFrame: pack, group by bucket, join with state, unpack.

A join graph whose plan has operators without a common key becomes several such stages in one query: what one
stage finds is packed again by the next one's key. `wire.pack` says what else the stages tell each other.

    orders    -> pack by customer -.
    customers -> pack by customer -+- group -> stage 0 -> repack by item -.
    items     -> newest time only -'                                      +- group -> stage 1 -> unpack
    items     -> pack by item --------------------------------------------'
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from braided.query.durations import to_text
from braided.query.errors import InvalidValue
from braided.query.join_query import JoinQuery
from braided.query.layout import DEFAULT_BUCKETS
from braided.query.parts import RESULT_TIME
from braided.query.plan_tree import Plan as PlanNode
from braided.query.stream import Stream
from braided.spark.bucket import batch_join
from braided.spark.decisions import decide_for, decides, offsets_of
from braided.spark.epochs import fingerprint
from braided.spark.measures import epochs_of, observation
from braided.spark.plan import JoinPlan
from braided.spark.planning import Asked, HotKeys, planned, with_memory
from braided.spark.processor import JoinProcessor
from braided.spark.sessions.builder import start_workers
from braided.spark.sources.heartbeat import beats
from braided.spark.wire.early import Read, logged
from braided.spark.wire.pack import beat, pack, repack, tell
from braided.spark.wire.packed import Emitted, Packed, schema, unpack


def join(
    query: JoinQuery,
    frames: Mapping[str, DataFrame],
    *,
    buckets: int = DEFAULT_BUCKETS,
    layout: Literal["auto", "grid", "stages"] = "auto",
    rates: Mapping[str, float] | None = None,
    hot_keys: HotKeys = "auto",
    late: Literal["drop", "flag"] = "drop",
    heartbeat: bool | None = None,
    checkpoint: str | None = None,
    resume: str | None = None,
) -> DataFrame:
    """The join of DataFrames: streaming ones give a streaming DataFrame, batch ones a batch result.

    `buckets` (a power of two) is how many parts the rows are split into. `layout` says where the rows of a
    join with several keys go: to the cells of a "grid", some to more than one, in one stage, or through
    "stages", one after the other; "auto" takes what costs less, by the `rates` of the streams (rows in a
    batch) as far as they are given. `query.explain(buckets=...)` shows the choice.
    `hot_keys` spreads the rows of keys that are too much for one bucket: `{stream: {key: cells}}` says which,
    "auto" takes those that the checkpoint of `resume` has seen, "off" none.
    With `late="flag"` rows that come too late are handed out as rows of their own, with the name of
    their stream in the column `late_stream`; else they are only counted.
    With `heartbeat` a batch is run every second even while all sources are silent; None: if something waits
    for that (`Memory(defer=True)`, `Stream(idle_after=...)`, `Overload(clock="wall")`).
    With `checkpoint`, the folder that the query is to be started with, a query that cannot go on with what
    is there is refused here, before Spark writes anything; else in the first batch. With `resume`, the same
    folder, the query, the layout, the hot keys and the number of buckets may have changed since: `explain`
    with the same arguments says what that means.
    """
    asked = Asked(query, frames, buckets, late, layout, rates, hot_keys)
    plan = planned(asked, checkpoint=checkpoint, resume=resume)
    spark, streaming = asked.spark, asked.streaming
    plan = with_memory(plan, spark)
    if streaming:
        start_workers(spark)
    offsets = offsets_of(plan, checkpoint or resume) if streaming else None
    read = None if offsets is None else functools.partial(logged, offsets)
    made: dict[PlanNode, DataFrame] = {
        s.name: _watermarked(frames[s.name], s, query.kinds.settling_us) for s in query.streams
    }
    for stage in plan.stages():
        packed = _packed(stage, made, frames, read)
        if streaming and stage.first:
            packed.append(_clock(stage, spark, heartbeat))
        made[stage.subplan.node] = _joined(stage, packed)
    result = made[query.tree].mapInArrow(unpack, _spark_schema(plan, asked.ordered))
    return _with_watermark(result, plan)


def _clock(plan: JoinPlan, spark: SparkSession, heartbeat: bool | None) -> DataFrame:
    """The recorded time, on its way to the buckets of a first stage."""
    query = plan.query
    old_by_it = query.overload is not None and query.overload.clock == "wall"
    if old_by_it and heartbeat is False:
        raise InvalidValue(
            "join: Overload(clock='wall') needs the recorded clock, and heartbeat=False forbids it; leave "
            "heartbeat out, or use clock='event'"
        )
    waits = bool(query.memory and query.memory.waits) or any(s.idle_after for s in query.streams) or old_by_it
    numbers = ",".join(str(live.epoch.number) for live in plan.live)
    beating = waits if heartbeat is None else heartbeat
    decided = decide_for(plan, spark)
    clock = beats(spark, planned=fingerprint(plan), epochs=numbers, beating=beating, decisions=decided)
    return _sent(clock, functools.partial(beat, plan))


def _packed(
    plan: JoinPlan,
    made: Mapping[PlanNode, DataFrame],
    frames: Mapping[str, DataFrame],
    read: Read | None,
) -> list[DataFrame]:
    """The rows of a stage's inputs on their way to its buckets, in the order of its union.

    A first stage also gets the newest times of the streams that it does not join itself. A stream without a
    time has none to tell; it is read all the same, for its place among the sources.
    """
    packed: dict[PlanNode, DataFrame] = {}
    for number, node in enumerate(plan.inputs):
        if node in plan.subplan.inputs:
            if isinstance(node, str):
                packer = functools.partial(pack, plan, number, read=read)
            else:
                packer = functools.partial(repack, plan, number)
            packed[node] = _sent(made[node], packer)
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


def _watermarked(df: DataFrame, stream: Stream, settling_us: int) -> DataFrame:
    """The stream with a watermark on its time; one that is there already is respected.

    Results that are final only `settling_us` after their rows come with times as old as that: Spark's own
    watermark, by which an aggregation behind the join drops what is late, stays behind by as much.
    """
    needed_ms = -(-(stream.lateness_us + settling_us) // 1000)
    columns = df._jdf.queryExecution().analyzed().output()
    marks = [columns.apply(i).metadata() for i in range(columns.size())]
    marked = [mark for mark in marks if mark.contains("spark.watermarkDelayMs")]
    if not df.isStreaming or stream.time is None:
        return df
    given_ms = min((mark.getLong("spark.watermarkDelayMs") for mark in marked), default=needed_ms)
    if settling_us and given_ms < needed_ms:
        why = "results without a partner come so late that an aggregation behind the join would drop them"
        needs = f"withWatermark of {to_text(needed_ms * 1000)} or more (it has {to_text(given_ms * 1000)})"
        raise InvalidValue.of(stream.name, "how", f"the DataFrame needs {needs}: {why}; or leave it out")
    return df if marked else df.withWatermark(_quoted(stream.time), f"{needed_ms} milliseconds")


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
    known["epochs"] = F.lit(epochs_of(plan))
    if decides(plan):
        known["token"] = F.lit(plan.checkpoint)
    if query.memory is not None:
        known["memory_limit"] = F.lit(query.memory.limit_bytes * len(plan.labels))
        known["owed_within"] = F.lit(query.memory.owed_within_s)
    return [F.collect_list("report").alias("buckets"), *(F.first(v).alias(n) for n, v in known.items())]


def _sent(df: DataFrame, packer: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> DataFrame:
    """What a task sends to the buckets, as packed rows; PySpark wants a function, not any callable.

    PySpark looks columns up by name here, and takes dots and backticks for a path: then they go by number.
    """
    if any("." in name or "`" in name for name in df.columns):
        df = df.toDF(*map(str, range(len(df.columns))))
    return df.mapInArrow(lambda batches: packer(iter(batches)), from_arrow_schema(schema(Packed)))
