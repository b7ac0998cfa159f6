"""What a checkpoint holds, read with Spark's own state reader; the query need not run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from braided.query.errors import InvalidValue
from braided.spark.labels import MAX_BUCKETS, labels
from braided.spark.store import Meta

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
    """A checkpoint's state: `buckets[number][stream]`, and totals per stream."""

    buckets: Mapping[int, Mapping[str, StreamState]]
    batches: int
    results: int
    watermark_us: int | None

    @property
    def rows(self) -> dict[str, int]:
        """Stored rows per stream."""
        return {s: sum(b[s].rows for b in self.buckets.values()) for s in self._streams()}

    @property
    def bytes(self) -> dict[str, int]:
        """Stored bytes per stream."""
        return {s: sum(b[s].bytes for b in self.buckets.values()) for s in self._streams()}

    def to_dict(self) -> dict[str, Any]:
        """Only plain values."""
        return {**asdict(self), "rows": self.rows, "bytes": self.bytes}

    def _streams(self) -> list[str]:
        return list(next(iter(self.buckets.values()), {}))


def inspect_state(checkpoint: str, *, spark: SparkSession | None = None) -> StoredState:
    """Rows and bytes per stream and bucket of a checkpoint, and how far its watermark has come."""
    spark = spark or SparkSession.getActiveSession()
    if spark is None:
        raise InvalidValue("inspect_state needs a running SparkSession; make one with bd.spark.session()")
    try:
        operator = _operators(spark, checkpoint)[-1]
        stored = spark.read.format("statestore").option("path", checkpoint).option("stateVarName", "meta")
        rows = stored.option("operatorId", operator).load().select("key.bucket", "value.data").collect()
    except Exception as wrong:
        reason = str(wrong).splitlines()[0]
        raise InvalidValue(f"no state of a Braided join can be read at {checkpoint!r}: {reason}") from None
    number = {label: i for i, label in enumerate(labels(MAX_BUCKETS))}
    metas = {number[row["bucket"]]: Meta.decode(bytes(row["data"])) for row in rows}
    first = next(iter(metas.values()), None)
    return StoredState(
        buckets={n: _streams(meta) for n, meta in sorted(metas.items())},
        batches=max((m.batches for m in metas.values()), default=0),
        results=sum(m.results for m in metas.values()),
        watermark_us=first.watermark_us if first else None,
    )


def _operators(spark: SparkSession, checkpoint: str) -> list[int]:
    """The joins among the operators with state, in the order rows pass them.

    Spark numbers operators from the sink back: with a windowed aggregation behind it, a join is not number 0.
    """
    listed = spark.read.format("state-metadata").load(checkpoint).select("operatorId", "operatorProperties")
    found = []
    for operator, properties in listed.distinct().collect():
        variables = json.loads(properties or "{}").get("stateVariables", [])
        if {v["stateName"] for v in variables} == _VARIABLES:
            found.append(operator)
    if not found:
        raise InvalidValue("none of its operators with state is a Braided join")
    return sorted(found, reverse=True)


def _streams(meta: Meta) -> dict[str, StreamState]:
    return {
        said["name"]: StreamState(
            rows=sum(c.rows for c in stream.chunks),
            bytes=sum(c.size for c in stream.chunks),
            chunks=len(stream.chunks),
            newest_us=stream.newest_us,
            oldest_chunk_us=min((c.newest_us for c in stream.chunks), default=None),
        )
        for said, stream in zip(meta.meaning["streams"], meta.streams, strict=True)
    }
