"""A checkpoint seen from the driver, through Spark's own state reader; the query need not run.

What it holds (`inspect_state`), whether a query may go on with it (`check_checkpoint`), and what it owes when
nothing more will arrive (`finish`).

A bucket asks in its first batch whether the query is the same, too (`bucket_state`), but then Spark has
written what its sources read next. That is harmless while the sources are the same ones in the same order;
asked here, a refused start leaves the checkpoint untouched whatever was changed.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from braided.query.errors import InvalidType, InvalidValue
from braided.spark.bucket import Bucket
from braided.spark.epochs import check_planned, explained, far_ahead, resume, until_us
from braided.spark.plan import JoinPlan, Resumed
from braided.spark.sources.decided import MARK, beat_in
from braided.spark.storage.bucket_state import check_same_query
from braided.spark.storage.cold import cold_pieces
from braided.spark.storage.store import META, Meta
from braided.spark.wire.labels import bucket_of
from braided.spark.wire.packed import Emitted, schema, to_arrow, unpack

_log = logging.getLogger("braided")
_VARIABLES = {"meta", "chunks"}  # what `processor` names


@dataclass(frozen=True)
class StreamState:
    """One stream's part of one bucket: rows and bytes stored, newest time of the stream, chunks."""

    rows: int
    bytes: int
    chunks: int
    newest_us: int | None
    oldest_chunk_us: int | None


Buckets: TypeAlias = Mapping[int, Mapping[str, StreamState]]


@dataclass(frozen=True)
class EpochState:
    """One epoch's part of a checkpoint: when it begins and ends (None: open), and its buckets."""

    number: int
    since_us: int | None
    until_us: int | None
    buckets: Buckets


@dataclass(frozen=True)
class StoredState:
    """A checkpoint's state: `buckets[number][stream]` of the newest epoch, all epochs, and totals per stream.

    Intermediate rows that a plan keeps are in it like a stream's, under the name of their operator. Each
    stage of a query sorts its rows into the buckets by its own key.
    """

    buckets: Buckets
    batches: int
    results: int
    watermark_us: int | None
    epochs: tuple[EpochState, ...] = ()

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
        for bucket in (bucket for epoch in self.epochs for bucket in epoch.buckets.values()):
            totals.update({name: getattr(stream, what) for name, stream in bucket.items()})
        return dict(totals)


def inspect_state(checkpoint: str, *, spark: SparkSession | None = None) -> StoredState:
    """Rows and bytes per stream and bucket of a checkpoint, and how far its watermark has come."""
    stages = list(_metas(_session("inspect_state", spark), checkpoint).values())
    everything = [meta for metas in stages for meta in metas.values()]
    if not everything:
        return StoredState({}, 0, 0, None)
    latest = max(everything, key=lambda meta: meta.epoch)
    stored = tuple(_epoch(epoch, latest.epochs, stages) for epoch in latest.epochs)
    return StoredState(
        stored[-1].buckets,
        max(meta.batches for meta in everything),
        sum(meta.numbers["results"] for meta in stages[-1].values()),
        latest.watermark_us,
        stored,
    )


def _epoch(
    epoch: Mapping[str, Any], known: Sequence[Mapping[str, Any]], stages: Sequence[Mapping[int, Meta]]
) -> EpochState:
    """What the buckets of an epoch hold, over all stages."""
    buckets: dict[int, dict[str, StreamState]] = {}
    for metas in reversed(stages):
        for label, meta in sorted(metas.items(), key=lambda item: bucket_of(item[0])):
            if meta.epoch == epoch["number"]:
                buckets.setdefault(bucket_of(label), {}).update(_streams(meta))
    return EpochState(epoch["number"], epoch["since_us"], until_us(epoch, known), buckets)


def check_checkpoint(plan: JoinPlan, checkpoint: str, spark: SparkSession) -> None:
    """Raise if the query cannot go on with a checkpoint; one without any batch is a first start."""
    if not isinstance(checkpoint, str):
        raise InvalidType(f"join: checkpoint must be the path of a folder; got {checkpoint!r}")
    committed, planned = _history(spark, checkpoint)
    if not committed:  # later on a refused start may have logged a batch; tasks know better then
        check_planned(plan, planned)
        return
    stages = plan.stages()
    for metas in _metas(spark, checkpoint).values():
        for meta in metas.values():
            number = meta.stage[0] if meta.stage else 0
            check_same_query(meta, stages[min(number, len(stages) - 1)])


def resumed(plan: JoinPlan, checkpoint: str, spark: SparkSession, **how: bool) -> JoinPlan:
    """The plan that goes on with a checkpoint, whatever has changed; what cannot change raises.

    `how` is for `epochs.resume`.
    """
    if not isinstance(checkpoint, str):
        raise InvalidType(f"join: resume must be the path of a folder; got {checkpoint!r}")
    committed, planned = _history(spark, checkpoint)
    if not committed:
        check_planned(plan, planned)
        return plan
    operators = list(_metas(spark, checkpoint).values())
    if len(operators) != len(plan.stages()):
        was, now = ("a grid" if n == 1 else f"{n} stages" for n in (len(operators), len(plan.stages())))
        raise InvalidValue(
            f"resume: the checkpoint was made with {was}, and the join has {now}; Spark fixes the number of "
            "stages in a checkpoint: set layout= to what it was, or start a new checkpoint"
        )
    if plan.staged:
        check_checkpoint(plan, checkpoint, spark)
        return plan
    (metas,) = operators
    later = resume(plan, metas, planned, **how)
    for label in metas.keys() & set(later.labels):
        check_same_query(metas[label], later.place(label)[0])
    if warning := far_ahead(later):
        _log.warning("%s", warning)
    for line in explained(later):
        _log.info("%s", line)
    return later


def _history(spark: SparkSession, checkpoint: str) -> tuple[bool, str | None]:
    """Whether a batch was committed, and what a batch that is logged and not committed was planned by."""
    committed, offsets = (_logged(spark, checkpoint, log) for log in ("commits", "offsets"))
    last = max(offsets, default=-1)
    pending = last > max(committed, default=-1)
    return bool(committed), planned_by(offsets[last]) if pending else None


def planned_by(offsets: bytes) -> str:
    """What a batch was planned by, as the recorded clock's offset in Spark's log says."""
    return str(beat_in(offsets.decode()).get(MARK, ""))


def finish(checkpoint: str, *, spark: SparkSession | None = None) -> DataFrame:
    """The results that wait in a join's checkpoint, as a batch DataFrame: as if all streams had ended.

    They wait with `Memory(defer=True)`, and where windows count rows those of rows that the watermark has not
    passed.
    It reads what was last committed and changes nothing, so it can be repeated; stop the query first. A query
    that goes on with the checkpoint afterwards hands the same results out again: go on with
    `Memory(defer=False)` instead of calling this, and the first batch brings them.
    """
    spark = _session("finish", spark)
    *_, (operator, metas) = _metas(spark, checkpoint).items()
    meta = next(iter(metas.values()), None)
    if meta is None or not meta.finishing:
        when = "with bd.Memory(..., defer=True), or where windows count rows"
        raise InvalidValue(f"{checkpoint!r} owes nothing: results wait only {when}")
    plan = finishing_plan(meta)
    numbered = _variable(spark, checkpoint, operator, "chunks").select(
        "key.bucket", "user_map_value.data", "user_map_key.number"
    )
    small = _variable(spark, checkpoint, operator, "meta").select("key.bucket", "value.data", F.lit(META))
    blobs = numbered.union(small).groupBy("bucket").applyInArrow(_owed, from_arrow_schema(schema(Emitted)))
    return blobs.mapInArrow(unpack, from_arrow_schema(plan.schema))


def finishing_plan(meta: Meta) -> JoinPlan:
    """The plan by which a bucket hands out what it owes: its own, whatever its layout and its epoch are."""
    resumed = Resumed(meta.checkpoint, meta.epochs, tuple(meta.newest_us.values()))
    return replace(JoinPlan.from_dict(meta.finishing), resumed=resumed)


def _owed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From all that is stored of a bucket to blobs of what it owes."""
    with tempfile.TemporaryDirectory(prefix="braided-finish-") as folder:
        state, bucket = _Files(Path(folder)), 0
        for batch in batches:
            columns = (batch.column(name) for name in ("bucket", "number", "data"))
            for label, number, data in zip(*columns, strict=True):
                bucket = bucket_of(label.as_py())
                state.put(number.as_py(), data.as_buffer())
        meta = Meta.decode(state.get(META) or b"{}")
        for blob in Bucket(finishing_plan(meta), bucket, state).owed() if meta.finishing else ():
            yield to_arrow([Emitted(blob)])


class _Files:
    """A bucket's state in files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, number: int) -> bytes | None:
        """A chunk's bytes."""
        path = self._folder / str(number)
        return path.read_bytes() if path.exists() else None

    def put(self, number: int, data: bytes) -> None:
        """Store a chunk."""
        (self._folder / str(number)).write_bytes(data)

    def remove(self, number: int) -> None:
        """Forget a chunk."""
        (self._folder / str(number)).unlink(missing_ok=True)


def _session(caller: str, spark: SparkSession | None) -> SparkSession:
    """The session that was given, or the one that runs."""
    spark = spark or SparkSession.getActiveSession()
    if spark is None:
        raise InvalidValue(f"{caller} needs a running SparkSession; make one with bd.spark.session()")
    return spark


def _logged(spark: SparkSession, checkpoint: str, log: str) -> dict[int, bytes]:
    """The entries of one of Spark's logs, by batch; none if there is no such folder."""
    files = spark.read.format("binaryFile").option("pathGlobFilter", "[0-9]*")
    try:
        entries = files.load(f"{checkpoint.rstrip('/')}/{log}").select("path", "content").collect()
    except AnalysisException:
        return {}
    names = ((path.rsplit("/", 1)[1], bytes(content)) for path, content in entries)
    return {int(name): content for name, content in names if name.isdigit()}


def _metas(spark: SparkSession, checkpoint: str) -> dict[int, dict[int, Meta]]:
    """The small values of a join's buckets, by operator, in the order rows pass them, and by label."""
    metas = {}
    try:
        for operator in _operators(spark, checkpoint):
            rows = _variable(spark, checkpoint, operator, "meta").select("key.bucket", "value.data").collect()
            metas[operator] = {label: Meta.decode(bytes(data)) for label, data in rows}
    except Exception as wrong:
        reason = f"no state of a Braided join can be read there ({str(wrong).splitlines()[0]})"
        remedy = "name another folder"
        if quote(checkpoint, safe="/:") != checkpoint:
            remedy = "Spark reads state only from paths without spaces and the like: rename the folder"
        raise InvalidValue(f"checkpoint {checkpoint!r}: {reason}; {remedy}") from None
    return metas


def _variable(spark: SparkSession, checkpoint: str, operator: int, name: str) -> DataFrame:
    stored = spark.read.format("statestore").option("path", checkpoint).option("stateVarName", name)
    return stored.option("operatorId", operator).load()


def _operators(spark: SparkSession, checkpoint: str) -> list[int]:
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
    states = {}
    for name in (*streams, *(name for name in stored if name not in newest_us)):
        chunks, pieces = stored.get(name, []), cold.get(name, [])
        states[name] = StreamState(
            rows=sum(c.live_rows for c in chunks) + sum(p.rows for p in pieces),
            bytes=sum(c.size for c in chunks) + sum(p.size for p in pieces),
            chunks=len(chunks) + sum(len(p.chunks) for p in pieces),
            newest_us=newest_us.get(name),
            oldest_chunk_us=min((c.newest_us for c in chunks), default=None),
        )
    return states
