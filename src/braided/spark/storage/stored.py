"""What a checkpoint holds, read with Spark's own state reader; the query need not run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from braided.query.errors import InvalidValue
from braided.spark.storage.cold import ColdPiece, cold_pieces
from braided.spark.storage.store import Chunk, Meta
from braided.spark.wire.labels import MAX_BUCKETS, labels

_VARIABLES = {"meta", "chunks"}  # what `processor` names


@dataclass(frozen=True)
class StreamState:
    """One stream's part of one bucket: rows and bytes stored, newest time of the stream, chunks."""

    rows: int
    bytes: int
    chunks: int
    newest_us: int | None
    oldest_chunk_us: int | None


@dataclass(frozen=True)
class StoredState:
    """A checkpoint's state: `buckets[number][stream]`, and totals per stream.

    Intermediate rows that a plan keeps are in it like a stream's, under the name of their operator. Each
    stage of a query sorts its rows into the buckets by its own key.
    """

    buckets: Mapping[int, Mapping[str, StreamState]]
    batches: int
    results: int
    watermark_us: int | None

    @property
    def rows(self) -> dict[str, int]:
        """Stored rows per stream."""
        return self._total("rows")

    @property
    def bytes(self) -> dict[str, int]:
        """Stored bytes per stream."""
        return self._total("bytes")

    def to_dict(self) -> dict[str, Any]:
        """Only plain values."""
        return {**asdict(self), "rows": self.rows, "bytes": self.bytes}

    def _total(self, what: str) -> dict[str, int]:
        totals: Counter[str] = Counter()
        for bucket in self.buckets.values():
            totals.update({name: getattr(stream, what) for name, stream in bucket.items()})
        return dict(totals)


def inspect_state(checkpoint: str, *, spark: SparkSession | None = None) -> StoredState:
    """Rows and bytes per stream and bucket of a checkpoint, and how far its watermark has come."""
    spark = some_session("inspect_state", spark)
    try:
        stages = [_metas(spark, checkpoint, operator) for operator in operators_of(spark, checkpoint)]
    except Exception as wrong:
        reason = str(wrong).splitlines()[0]
        raise InvalidValue(f"no state of a Braided join can be read at {checkpoint!r}: {reason}") from None
    last = stages[-1]
    first = next(iter(last.values()), None)
    buckets: dict[int, dict[str, StreamState]] = {n: {} for n in sorted(last)}
    for metas in stages:
        for n, meta in metas.items():
            buckets.setdefault(n, {}).update(_streams(meta))
    batches = max((m.batches for metas in stages for m in metas.values()), default=0)
    results = sum(m.numbers["results"] for m in last.values())
    return StoredState(buckets, batches, results, first.watermark_us if first else None)


def _metas(spark: SparkSession, checkpoint: str, operator: int) -> dict[int, Meta]:
    """The small values of an operator's buckets."""
    rows = meta_rows(spark, checkpoint, operator).collect()
    number = {label: i for i, label in enumerate(labels(MAX_BUCKETS))}
    return {number[row["bucket"]]: Meta.decode(bytes(row["data"])) for row in rows}


def some_session(caller: str, spark: SparkSession | None) -> SparkSession:
    """The session that was given, or the one that runs."""
    spark = spark or SparkSession.getActiveSession()
    if spark is None:
        raise InvalidValue(f"{caller} needs a running SparkSession; make one with bd.spark.session()")
    return spark


def meta_rows(spark: SparkSession, checkpoint: str, operator: int) -> DataFrame:
    """The small values of an operator's buckets, as they are stored: bucket (its label), data."""
    return _variable(spark, checkpoint, operator, "meta").select("key.bucket", "value.data")


def chunk_rows(spark: SparkSession, checkpoint: str, operator: int) -> DataFrame:
    """All chunks of an operator's buckets: bucket (its label), data, number."""
    stored = _variable(spark, checkpoint, operator, "chunks")
    return stored.select("key.bucket", "user_map_value.data", "user_map_key.number")


def _variable(spark: SparkSession, checkpoint: str, operator: int, name: str) -> DataFrame:
    stored = spark.read.format("statestore").option("path", checkpoint).option("stateVarName", name)
    return stored.option("operatorId", operator).load()


def operators_of(spark: SparkSession, checkpoint: str) -> list[int]:
    """The joins among the operators with state, in the order rows pass them.

    Spark numbers operators from the sink back: with a windowed aggregation behind it, a join is not number 0.
    """
    listed = spark.read.format("state-metadata").load(checkpoint).select("operatorId", "operatorProperties")
    joins = []
    for operator, properties in listed.distinct().collect():
        variables = json.loads(properties or "{}").get("stateVariables", [])
        if {v["stateName"] for v in variables} == _VARIABLES:
            joins.append(operator)
    if not joins:
        raise InvalidValue("none of its operators with state is a Braided join")
    return sorted(joins, reverse=True)


def _streams(meta: Meta) -> dict[str, StreamState]:
    """What a bucket holds; in a query of several stages, of the streams that its own stage joins."""
    newest_us, stored, cold = meta.newest_us, meta.by_input(), cold_pieces(meta)
    streams = [name for name in newest_us if name in stored or not meta.stage]
    return {
        name: _state(stored.get(name, ()), newest_us.get(name), cold.get(name, ()))
        for name in (*streams, *(name for name in stored if name not in newest_us))
    }


def _state(chunks: Sequence[Chunk], newest_us: int | None, cold: Sequence[ColdPiece]) -> StreamState:
    return StreamState(
        rows=sum(c.live_rows for c in chunks) + sum(p.rows for p in cold),
        bytes=sum(c.size for c in chunks) + sum(p.size for p in cold),
        chunks=len(chunks) + sum(len(p.chunks) for p in cold),
        newest_us=newest_us,
        oldest_chunk_us=min((c.newest_us for c in chunks), default=None),
    )
