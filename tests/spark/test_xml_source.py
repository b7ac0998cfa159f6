"""XML files on Spark: the rows of the local reader, each file once, the same again after a restart."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from braided.local.xml_stream import read_xml
from braided.query.errors import InvalidType, InvalidValue
from braided.spark import releases
from braided.spark.sources.xml_source import XmlSource, XmlStreamReader

ACCESS = pa.schema({"sno": pa.int64(), "ipaddr": pa.string()})
DDL = "sno long, ipaddr string, punctuation boolean"
Row = tuple[Any, ...]
limited = pytest.mark.skipif(not hasattr(XmlStreamReader, "reportLatestOffset"), reason="Spark before 4.2")


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    spark.dataSource.register(XmlSource)


def write(folder: Path, name: str, seed: int, records: int = 20) -> list[Row]:
    """A file of access records with punctuations; its rows."""
    folder.mkdir(exist_ok=True)
    rng = random.Random(seed)
    lines = []
    for number in range(records):
        sno, reader = number // 2 + rng.randrange(3), rng.randrange(256)
        lines.append(f"<record> <sno> {sno} </sno> <ipaddr> 10.0.0.{reader} </ipaddr> </record>")
        if number % 2:
            closed = f"<sno> {number // 2} </sno> <ipaddr> * </ipaddr>"
            lines.append(f"<punct:record> {closed} </punct:record>")
    (folder / name).write_text("\n".join(["<stream:AccessRecord>", *lines, "</stream:AccessRecord>"]))
    return [tuple(r.values()) for b in read_xml(folder / name, ACCESS) for r in b.to_pylist()]


def streamed(spark: SparkSession, folder: Path, **options: Any) -> DataFrame:
    return spark.readStream.format("braided-xml").schema(DDL).options(**options).load(str(folder))


def run(frame: DataFrame, checkpoint: Path, *, fail_on: int | None = None) -> dict[int, list[Row]]:
    """All that is available, as rows by batch; a batch can be made to fail after it was read."""
    seen: dict[int, list[Row]] = {}

    def keep(df: DataFrame, batch: int) -> None:
        seen[batch] = [tuple(r) for r in df.collect()]
        if batch == fail_on:
            raise RuntimeError("the sink is down")

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    streaming = writer.trigger(availableNow=True).start()
    try:
        streaming.awaitTermination()
    except Exception:
        if fail_on is None:
            raise
    return {n: rows for n, rows in seen.items() if rows}


def reader(folder: Path, ddl: str = DDL, **options: str) -> XmlStreamReader:
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return XmlSource({"path": str(folder), **options}).streamReader(schema)


def names(parts: list[InputPartition]) -> list[list[str]]:
    return [list(part.value) for part in parts]


def test_batches(spark: SparkSession, tmp_path: Path) -> None:
    rows = [write(tmp_path / "in", f"{name} ü.xml", seed) for seed, name in enumerate("ba")]
    (tmp_path / "in" / "_unfinished.xml").write_text("<s><record>")
    read = spark.read.format("braided-xml")
    both = read.schema(DDL).load(str(tmp_path / "in"))
    assert [tuple(r) for r in both.collect()] == rows[1] + rows[0]
    one = read.schema("punctuation boolean, sno int").load((tmp_path / "in" / "a ü.xml").as_uri())
    assert [tuple(r) for r in one.collect()] == [(flag, sno) for sno, _, flag in rows[1]]
    records = read.schema("sno long, ipaddr string").load(str(tmp_path / "in"))
    assert sorted(map(tuple, records.collect())) == sorted(r[:2] for part in rows for r in part if not r[2])
    assert both.rdd.getNumPartitions() == 1
    assert records.rdd.getNumPartitions() == 2


def test_an_empty_folder_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    assert spark.read.format("braided-xml").schema(DDL).load(str(tmp_path)).collect() == []


def test_types_names_and_other_elements(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(
        "<s><info><i>7</i><d>1.5</d><t>2026-01-31T12:00:00+01:00</t><n>2026-01-31 12:00:00</n><b>true</b>"
        "<x>?</x><m>2.50</m><y>2026-01-31</y></info><punct:info><i>*</i></punct:info></s>"
    )
    ddl = "i tinyint, d double, t timestamp, n timestamp_ntz, b boolean, m decimal(9,2), y date, done boolean"
    read = spark.read.format("braided-xml").schema(ddl).option("record", "info").option("punctuation", "done")
    first, second = read.load(str(tmp_path)).selectExpr("* except (t)", "unix_seconds(t) s").collect()
    noon = dt.datetime(2026, 1, 31, 12)
    assert first.asDict() == {
        "i": 7, "d": 1.5, "n": noon, "b": True, "m": pytest.approx(2.5), "y": noon.date(), "done": False,
        "s": int(noon.replace(tzinfo=dt.UTC).timestamp()) - 3600,
    }  # fmt: skip
    assert second["done"]
    assert second["i"] is None


@limited
def test_a_stream_takes_each_file_once(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    rows = [write(folder, f"{n}.xml", n) for n in range(3)]
    frame = streamed(spark, folder, maxFilesPerTrigger=1, record="record", punctuation="punctuation")
    assert run(frame, checkpoint) == dict(enumerate(rows))
    rows += [write(folder, f"{n}.xml", n) for n in range(3, 5)]
    (folder / "0.xml").unlink()
    assert run(streamed(spark, folder), checkpoint) == {3: rows[3] + rows[4]}
    assert run(streamed(spark, folder), checkpoint) == {}


def test_a_batch_that_failed_is_read_again_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    rows = [write(folder, f"{n}.xml", n) for n in range(2)]
    assert run(streamed(spark, folder), checkpoint, fail_on=0) == {0: rows[0] + rows[1]}
    rows.append(write(folder, "2.xml", 2))
    again = run(streamed(spark, folder), checkpoint)
    rest = run(streamed(spark, folder), checkpoint)  # before Spark 4.2 a run is one batch
    assert again | rest == {0: rows[0] + rows[1], 1: rows[2]}


def test_offsets_name_files(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path, name, 1)
    size = (tmp_path / "a").stat().st_size
    stream = reader(tmp_path)
    start = stream.initialOffset()
    end = stream.latestOffset(start)
    assert end == {"last": "c", "read": 3, "files": dict.fromkeys("abc", size)}
    assert stream.latestOffset(end) is end
    assert names(stream.partitions(start, end)) == [["a", "b", "c"]]
    assert names(reader(tmp_path, "sno long").partitions(start, end)) == [["a"], ["b"], ["c"]]
    assert stream.partitions(end, end) == []
    write(tmp_path, "bb", 1)
    assert names(stream.partitions(start, end)) == [["a", "b", "c"]]
    with pytest.raises(InvalidValue, match="must sort behind those already read, which end with 'c'; got 1 "):
        stream.latestOffset(end)


def test_before_spark_4_2_a_batch_is_what_is_new(tmp_path: Path) -> None:
    """Spark does not say there where a batch begins: offsets name all files, partitions the new ones."""
    write(tmp_path, "b", 1)
    stream = reader(tmp_path)
    first = stream.latestOffset()
    write(tmp_path, "c", 1)
    second = stream.latestOffset()
    assert names(stream.partitions(first, second)) == [["c"]]
    write(tmp_path, "a", 1)
    with pytest.raises(InvalidValue, match="must sort behind"):
        stream.partitions(second, stream.latestOffset())


@limited
def test_limits(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

    for name in "abc":
        write(tmp_path, name, 1)
    stream = reader(tmp_path, maxFilesPerTrigger="2")
    assert stream.getDefaultReadLimit() == ReadMaxFiles(2)
    assert reader(tmp_path).getDefaultReadLimit() == ReadAllAvailable()
    stream.prepareForTriggerAvailableNow()
    write(tmp_path, "d", 1)
    first = stream.latestOffset(stream.initialOffset(), ReadMaxFiles(2))
    second = stream.latestOffset(first, ReadMaxFiles(2))
    assert [list(offset["files"]) for offset in (first, second)] == [["a", "b"], ["c"]]
    assert stream.latestOffset(second, ReadMaxFiles(2)) is second
    assert list(reader(tmp_path).latestOffset(first, ReadAllAvailable())["files"]) == ["c", "d"]


def test_a_file_that_changed_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, "a", 1)
    stream = reader(tmp_path)
    (part,) = stream.partitions(stream.initialOffset(), stream.latestOffset())
    rows = pa.Table.from_batches(stream.read(part)).num_rows
    assert pa.Table.from_batches(stream.read(part)).num_rows == rows
    with (tmp_path / "a").open("a") as file:
        file.write("\n")
    with pytest.raises(
        InvalidValue, match=r"a: files must not change.*; it had 1,\d+ bytes and now has 1,\d+"
    ):
        list(stream.read(part))
    (tmp_path / "a").unlink()
    with pytest.raises(InvalidValue, match="and now is gone; put the old one back"):
        list(stream.read(part))


def test_damage_names_the_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bad.xml").write_text("<s>\n<record><sno>x</sno></record></s>")
    with pytest.raises(Exception, match=r"bad.xml: record 1, column 'sno': must be int64; got 'x'"):
        spark.read.format("braided-xml").schema(DDL).load(str(tmp_path)).collect()
    with pytest.raises(Exception, match="braided-xml must have a schema"):
        spark.read.format("braided-xml").load(str(tmp_path))


def test_wrong_options_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, words in (
        ({"path": str(tmp_path / "none")}, "path must be there; got"),
        ({"path": ""}, "must have a path"),
        ({"path": "what://is/this"}, "must be one that Arrow can open; got 'what://is/this'"),
        ({"punctuation": "done"}, "must have the punctuation column 'done', a boolean; got"),
        ({"maxFilesPerTrigger": "0"}, "must be a whole number of at least 1; got '0'"),
    ):
        with pytest.raises(InvalidValue, match=words):
            reader(tmp_path, **options)
    with pytest.raises(InvalidType, match="punctuation column 'punctuation' must be boolean; got int32"):
        reader(tmp_path, "sno long, punctuation int")
    with pytest.raises(InvalidType, match="column 'sno': text cannot be made list"):
        reader(tmp_path, "sno array<int>")
    (tmp_path / "a.xml").write_text("<s/>")
    with pytest.raises(InvalidValue, match="a stream's path must be a folder"):
        reader(tmp_path / "a.xml")
    monkeypatch.setattr(releases, "LIMITED", False)
    with pytest.raises(InvalidValue, match="maxFilesPerTrigger needs Spark"):
        reader(tmp_path, maxFilesPerTrigger="1")
