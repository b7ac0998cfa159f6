"""Kafka topics joined into Parquet files and into a topic, by a driver that is killed on the way.

One broker runs on this machine (`broker`). Three topics of JSON rows with event times are joined twice, by a
child process that reads them with `readStream.format("kafka")` and is killed, with its JVM, at random moments
(for a topic: while results are written to it) and started again on its checkpoint:

- into Parquet files, a sink that takes each batch once: nothing may be missing or doubled;
- into a topic, a sink that takes each batch *at least* once: nothing may be missing, and a result may be
  there again only if its batch was begun twice. Every message says its batch, and the checkpoint at every
  start of a child which batch is repeated, so that this can be told.

Both are compared with DuckDB's join of all rows that were produced.

    python -m braided_benchmarks.kafka --batches 8 --kills 2
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import braided as bd
from braided.testing.samples.files import committed_files
from braided_benchmarks import kafka_jars
from braided_benchmarks.broker import PARTITIONS, broker
from braided_benchmarks.chaos_work import NAMES, WINDOW_S, Windowed
from braided_benchmarks.children import after_some_batches, committed, start_child, to_the_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row: TypeAlias = tuple[Any, ...]
WORK = Windowed()
MICROSECONDS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}  # JSON has milliseconds if not told
LATENESS = "30 seconds"  # how far a topic's partitions may be apart
RESULTS = "results"
SINKS = ("parquet", "kafka")


@dataclass(frozen=True)
class Place:
    """Where a campaign is: its folder, the broker's address, and the rows of a batch from each topic."""

    root: Path
    address: str
    limits: tuple[int, ...] = ()

    @property
    def flags(self) -> list[str]:
        """As options of the command line."""
        return ["--root", str(self.root), "--address", self.address, "--limits", *map(str, self.limits)]


@dataclass(frozen=True)
class Report:
    """What came out of a campaign with one sink."""

    sink: str
    kills: int
    expected: int
    missing: int
    doubled: int  # beyond what the sink allows
    again: int  # results that are there more than once because their batch was
    repeated: int  # batches that were begun more than once
    seconds: float

    @property
    def right(self) -> bool:
        """Whether the sink holds what it should."""
        return self.missing == self.doubled == 0

    def __str__(self) -> str:
        once = "exactly once" if self.sink == "parquet" else "at least once"
        return (
            f"Kafka to {self.sink} ({once}): {self.kills} kills, {self.kills + 1} starts, "
            f"{self.repeated} batches begun again, {self.seconds:.0f} s: {self.expected:,} results expected, "
            f"missing {self.missing}, doubled {self.doubled}"
            + (f", again by a repeated batch {self.again:,}" if self.sink == "kafka" else "")
        )


def campaign(
    root: Path, jars: Path, *, kills: int, batches: int, seed: int = 1, sinks: tuple[str, ...] = SINKS
) -> list[Report]:
    """Start a broker, produce, join into each sink under kills, compare."""
    WORK.generate(root, batches, seed)
    rows = [sum(pq.read_metadata(p).num_rows for p in (root / n).glob("*.parquet")) for n in NAMES]
    with broker(jars, root / "broker") as address:
        place = Place(root, address, tuple(-(-n // batches) for n in rows))
        to_the_end(lambda: _start("produce", place), root / "child.log", 0, lambda child, **_: None)
        return [_campaign(place, sink, kills, batches, random.Random(seed)) for sink in sinks]


def _campaign(place: Place, sink: str, kills: int, batches: int, rng: random.Random) -> Report:
    began, run, repeated = time.perf_counter(), place.root / f"to-{sink}", set[int]()
    run.mkdir()

    def begin() -> Popen[bytes]:
        repeated.update(_unfinished(run))
        return _start(sink, place)

    def until(child: Popen[bytes], *, kill: bool) -> None:
        if kill:
            after_some_batches(child, run, batches, rng)
        if kill and sink == "kafka":
            _while_it_writes(child, place)

    done = to_the_end(begin, place.root / "child.log", kills, until)
    got = Counter(_found(run / "out", ("batch", *WORK.columns) if sink == "kafka" else WORK.columns))
    wanted = Counter(_wanted(place.root))
    missing, doubled, again = (_exactly_once if sink == "parquet" else _at_least_once)(wanted, got, repeated)
    seconds = time.perf_counter() - began
    return Report(sink, done, wanted.total(), missing, doubled, again, len(repeated), seconds)


def _exactly_once(wanted: Counter[Row], got: Counter[Row], _: set[int]) -> tuple[int, int, int]:
    """Missing and doubled results."""
    return (wanted - got).total(), (got - wanted).total(), 0


def _at_least_once(wanted: Counter[Row], got: Counter[Row], repeated: set[int]) -> tuple[int, int, int]:
    """The same with batches in front of results: what comes again with a repeated batch is not doubled."""
    batches: dict[Row, Counter[int]] = {}
    for (batch, *row), n in got.items():
        batches.setdefault(tuple(row), Counter())[batch] += n
    doubled = again = 0
    for result, seen in batches.items():
        extra = seen.total() - wanted[result]
        if extra > 0 and len(seen) == 1 and wanted[result] and seen.keys() <= repeated:
            again += extra
        else:
            doubled += max(extra, 0)
    missing = sum(max(0, n - batches.get(row, Counter()).total()) for row, n in wanted.items())
    return missing, doubled, again


def _unfinished(run: Path) -> set[int]:
    """The batch that is begun and not committed: the next child runs it again."""
    begun = {int(p.name) for p in (run / "checkpoint" / "offsets").glob("*") if p.name.isdigit()}
    return {batch for batch in begun if batch >= committed(run)}


def _found(out: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """What the sink holds."""
    for path in committed_files(out) or out.glob("*.parquet"):
        table = pq.read_table(path, columns=list(columns))
        yield from zip(*(table[c].to_pylist() for c in columns), strict=True)


def _wanted(root: Path) -> list[Row]:
    """DuckDB's join of all that was produced."""
    with duckdb.connect() as db:
        for name in NAMES:
            db.register(name, pq.read_table(root / name))
        found: list[Row] = db.sql(WORK.wanted).fetchall()
        return found


def _start(step: str, place: Place) -> Popen[bytes]:
    """A child that takes one step."""
    command = ["-m", "braided_benchmarks.kafka", "--step", step, *place.flags]
    return start_child(command, place.root / "child.log")


def _while_it_writes(child: Popen[bytes], place: Place) -> None:
    """Wait until more results have come to the topic: those of a batch that is not committed."""

    def size() -> int:
        return sum(p.stat().st_size for p in place.root.glob(f"broker/data/{RESULTS}-*/*.log"))

    before = size()
    while child.poll() is None and size() == before:
        time.sleep(0.01)


def session(jars: Path) -> SparkSession:
    """A session with Spark's connector to Kafka."""
    settings = {
        "spark.master": "local[2,4]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.jars": ",".join(map(str, kafka_jars.connector_jars(jars))),
    }
    spark: SparkSession = bd.spark.session("kafka", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def produce(spark: SparkSession, place: Place) -> None:
    """The generated rows as JSON, a topic for each stream, in order of time within a partition of it."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    for name in NAMES:
        rows = spark.read.parquet(str(place.root / name)).coalesce(1).sortWithinPartitions("t")
        value = F.to_json(F.struct("k", "t", "v"), MICROSECONDS)
        sink = rows.select(F.col("k").cast("string").alias("key"), value.alias("value")).write.format("kafka")
        sink.option("kafka.bootstrap.servers", place.address).option("topic", name).save()


def streams(spark: SparkSession, place: Place) -> dict[str, DataFrame]:
    """The topics as streaming DataFrames, decoded."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    frames = {}
    for name, limit in zip(NAMES, place.limits, strict=True):
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", place.address)
        source = source.option("subscribe", name).option("startingOffsets", "earliest")
        messages = source.option("maxOffsetsPerTrigger", limit).load()
        row = F.from_json(F.col("value").cast("string"), "k long, t timestamp, v long", MICROSECONDS)
        frames[name] = messages.select(row.alias("row")).select("row.*")
    return frames


def join(spark: SparkSession, place: Place, sink: str) -> None:
    """Join all there is, from the checkpoint on."""
    kept = [bd.Stream(n, key="k", time="t", window=f"{WINDOW_S} seconds", lateness=LATENESS) for n in NAMES]
    joined = bd.spark.join(bd.JoinQuery(kept), streams(spark, place), buckets=4)
    run = place.root / f"to-{sink}"
    writer = joined.writeStream.format("parquet").option("path", str(run / "out"))
    if sink == "kafka":
        writer = _messages(joined).writeStream.format("kafka").option("topic", RESULTS)
        writer = writer.option("kafka.bootstrap.servers", place.address)
    writer = writer.option("checkpointLocation", str(run / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def _messages(joined: DataFrame) -> DataFrame:
    """Results as messages: the key is the result's identity, the value JSON that also says the batch."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    columns = ["batch", *WORK.columns]
    rows = joined.select(*WORK.columns).mapInArrow(_stamped, ", ".join(f"{c} long" for c in columns))
    key = F.concat_ws("-", *WORK.columns)
    return rows.select(key.alias("key"), F.to_json(F.struct(*columns)).alias("value"))


def _stamped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with the number of their streaming batch."""
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    number = int(context.getLocalProperty("streaming.sql.batchId") or 0) if context else 0
    for rows in batches:
        stamp = pa.array([number] * rows.num_rows, pa.int64())
        yield pa.RecordBatch.from_arrays([stamp, *rows.columns], names=["batch", *rows.schema.names])


def collect(spark: SparkSession, place: Place) -> None:
    """The topic of results as Parquet files."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    source = spark.read.format("kafka").option("kafka.bootstrap.servers", place.address)
    messages = source.option("subscribe", RESULTS).load()
    schema = ", ".join(f"{c} long" for c in ("batch", *WORK.columns))
    rows = messages.select(F.from_json(F.col("value").cast("string"), schema).alias("row")).select("row.*")
    rows.write.mode("overwrite").parquet(str(place.root / "to-kafka" / "out"))


def _step(name: str, place: Place) -> None:
    """What a child does."""
    spark = session(kafka_jars.folder())
    if name == "produce":
        produce(spark, place)
    else:
        join(spark, place, name)
    if name == "kafka":
        collect(spark, place)
    spark.stop()


def main() -> None:
    """The campaign, from the command line."""
    options = argparse.ArgumentParser(description="Kill a join of Kafka topics; nothing may be missing.")
    options.add_argument("--batches", type=int, default=8)
    options.add_argument("--kills", type=int, default=2, help="of the driver, for each sink")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--sink", choices=SINKS, help="only this one")
    for hidden, kind in (("--step", str), ("--root", Path), ("--address", str)):
        options.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    options.add_argument("--limits", type=int, nargs="*", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.step is not None:
        _step(given.step, Place(given.root, given.address, tuple(given.limits)))
        return
    jars = kafka_jars.folder()
    if not kafka_jars.connector_jars(jars):
        sys.exit(
            f"no jars of Kafka in {jars}; python -m braided_benchmarks.kafka_jars, or make kafka, fetches"
        )
    print(f"{kafka_jars.described(jars)}; {PARTITIONS} partitions a topic")
    sinks = (given.sink,) if given.sink else SINKS
    with tempfile.TemporaryDirectory(prefix="braided-kafka-") as folder:
        reports = campaign(
            Path(folder), jars, kills=given.kills, batches=given.batches, seed=given.seed, sinks=sinks
        )
    print(*reports, sep="\n")
    sys.exit(0 if all(report.right for report in reports) else 1)


if __name__ == "__main__":
    main()
