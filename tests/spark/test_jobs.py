"""Jobs on Spark: files to files, late rows apart, exactly once over restarts; mistakes in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import braided as bd
from braided.jobs import load
from braided.jobs.definitions import Source, Value
from braided.jobs.example import write_example
from braided.jobs.running import Watching, decoded, explain_start, pace, run
from braided.jobs.writing import in_json
from braided.view import Journal
from tests.spark.streams import generated, write

JOB = """\
query:
  streams:
    a: {key: k, time: t, window: 5 seconds, lateness: 1 second}
    b: {key: k, time: t, window: 5 seconds, lateness: 1 second}
sources:
  a: {format: parquet, path: a}
  b: {format: parquet, path: b, replay: {files: 1}}
sink: {format: parquet, path: out, columns: [a_k, result_time]}
checkpoint: checkpoint
trigger: available now
buckets: 2
"""


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Callable[..., list[str]]:
    """Runs the job above with changes; what it says."""
    write(tmp_path, generated(["a", "b"], 100), 2)

    def running(*changes: tuple[str, str], **options: Any) -> list[str]:
        text, lines = JOB, list[str]()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "job.yaml").write_text(text)
        watching = Watching(lines.append, **options)
        run(load(tmp_path / "job.yaml"), watching=watching, session=spark)
        return lines

    return running


def _lines(folder: Path) -> list[dict[str, Any]]:
    lines = [line for file in folder.rglob("*.json") for line in file.read_text().splitlines()]
    return [json.loads(line) for line in sorted(lines)]


def test_the_example_runs_and_a_restart_adds_only_what_is_new(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = load(write_example(tmp_path))
    said: list[str] = []
    run(job, watching=Watching(said.append), session=spark)
    results, late = _lines(tmp_path / "out" / "results"), _lines(tmp_path / "out" / "late")
    assert len(results) > 100
    assert [row["late_stream"] for row in late] == ["payments"]
    assert "batch 0: 268 rows in" in capsys.readouterr().out
    assert said[-2] == "ended after batch 2"
    assert Path(said[-1].removeprefix("report: ")).read_text().startswith("<!doctype html>")
    _forget(tmp_path / "out" / "checkpoint", 2)  # as after a kill between writing and noting that it is done
    run(job, watching=Watching(said.append), session=spark)
    assert said[-2] == "ended after batch 2"
    assert _lines(tmp_path / "out" / "results") == results
    assert _lines(tmp_path / "out" / "late") == late
    run(job, watching=Watching(said.append), session=spark)
    assert said[-1] == "no new rows: nothing to do"
    again = tmp_path / "data" / "payments" / "9.csv"  # all of it is late by now
    again.write_text((tmp_path / "data" / "payments" / "0.csv").read_text())
    run(job, watching=Watching(said.append, quiet=True), session=spark)
    assert _lines(tmp_path / "out" / "results") == results
    assert len(_lines(tmp_path / "out" / "late")) == len(again.read_text().splitlines())


def _forget(checkpoint: Path, batch: int) -> None:
    """Take back that a batch, the last one with rows, was done."""
    for folder, first in (("commits", batch), ("offsets", batch + 1)):
        for path in (checkpoint / folder).iterdir():
            if int(path.name.strip(".").split(".")[0]) >= first:
                path.unlink()


def test_files_without_a_schema_are_looked_at_and_columns_chosen(
    job: Callable[..., list[str]], spark: SparkSession, tmp_path: Path
) -> None:
    job(journal=tmp_path / "journal.jsonl")
    out = spark.read.parquet(str(tmp_path / "out"))
    assert out.columns == ["a_k", "result_time"]
    wanted = generated(["a", "b"], 100)
    query = bd.JoinQuery(
        [bd.Stream(n, key="k", time="t", window="5 seconds", lateness="1 second") for n in "ab"]
    )
    assert out.count() == bd.run_local(query, wanted).num_rows
    assert Journal(tmp_path / "journal.jsonl").read()[-1].total_results == out.count()
    assert (tmp_path / "report.html").exists()


def test_values_are_decoded_and_columns_made(
    job: Callable[..., list[str]], spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "lines").mkdir()
    text = '{"key": 1, "ms": 1700000000000}\nno JSON\n'
    (tmp_path / "lines" / "0.txt").write_text(text)
    decoded = (
        "a: {format: text, path: lines, value: {schema: 'key long, ms long'}, "
        "select: [key as k, timestamp_millis(ms) as t]}"
    )
    job(("a: {format: parquet, path: a}", decoded), ("path: out,", "path: out2,"))
    assert spark.read.parquet(str(tmp_path / "out2")).columns == ["a_k", "result_time"]


def test_a_kafka_value_is_taken_apart(spark: SparkSession) -> None:
    rows = spark.sql(
        "select cast('{\"id\": 7}' as binary) as value, 'k' as key, timestamp_seconds(1) as timestamp"
    )
    value = Value(schema={"id": "long"})
    plain = Source(format="kafka", value=value)
    assert decoded(rows, plain).collect() == [(7,)]
    timed = Source(format="kafka", value=value, select=("id", "unix_seconds(kafka_timestamp) as at"))
    assert decoded(rows, timed).collect() == [(7, 1)]


MISTAKES = {
    "a column": ([("b: {key: k", "b: {key: kk")], ["job.yaml:4:", "stream 'b' has no column 'kk'", "'k'"]),
    "a column of the sink": ([("[a_k,", "[a_kk,")], ["job.yaml:8:", "no column 'a_kk'", "'a_k'"]),
    "a type": (
        [("b: {key: k, time: t", "b: {key: k, time: v")],
        ["job.yaml:4:", "'b'", "must be a timestamp"],
    ),
    "a format": (
        [("b: {format: parquet", "b: {format: parqet")],
        ["job.yaml:7:", "no format 'parqet'", "'parquet'"],
    ),
    "a connector": (
        [
            (
                "b: {format: parquet, path: b, replay: {files: 1}}",
                "b: {format: kafka, options: {kafka.bootstrap.servers: x, subscribe: y}}",
            )
        ],
        ["job.yaml:7:", "'kafka'", "spark.jars.packages: org.apache.spark:spark-sql-kafka"],
    ),
    "a sink's format": ([("sink: {format: parquet", "sink: {format: avro")], ["job.yaml:8:", "spark-avro"]),
    "a schema": (
        [("a: {format: parquet, path: a}", "a: {format: parquet, path: a, schema: 'k lng, t timestamp'}")],
        ["job.yaml:6:", "sources.a"],
    ),
    "files of another format": (
        [("a: {format: parquet, path: a}", "a: {format: orc, path: a}")],
        ["job.yaml:6:", "sources.a", "a/"],
    ),
    "no files yet": ([("path: a}", "path: empty}")], ["job.yaml:6:", "schema is missing", "no file"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_before_the_query_starts(
    job: Callable[..., list[str]], spark: SparkSession, tmp_path: Path, mistake: str
) -> None:
    (tmp_path / "empty").mkdir()
    changes, words = MISTAKES[mistake]
    with pytest.raises(bd.BraidedError) as raised:
        job(*changes)
    for word in words:
        assert word in str(raised.value), str(raised.value)
    assert "\n" not in str(raised.value)
    assert not spark.streams.active


def test_a_changed_query_another_key_and_a_new_checkpoint(
    job: Callable[..., list[str]], tmp_path: Path
) -> None:
    job()
    write(tmp_path, generated(["a", "b"], 30), 3)
    job(("b: {key: k, time: t, window: 5 seconds", "b: {key: k, time: t, window: 6 seconds"))
    with pytest.raises(bd.BraidedError, match="key of 'b' was"):
        job(("b: {key: k, time: t, window: 5 seconds", "b: {key: v, time: t, window: 5 seconds"))
    with pytest.raises(bd.BraidedError, match="holds what another run wrote"):
        job(("checkpoint: checkpoint", "checkpoint: other"))


@pytest.mark.parametrize("late", ["", ", late: {format: json, path: late}"])
def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    job: Callable[..., list[str]], tmp_path: Path, late: str
) -> None:
    """With a sink for late rows all that was said was that a Python proxy had raised something."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "0.parquet").write_text("this is a text, and no Parquet at all")
    broken = "a: {format: parquet, path: broken, schema: 'k long, t timestamp'}"
    with pytest.raises(
        bd.BraidedError, match=r"job.yaml: .*broken/0.parquet is not a Parquet file"
    ) as raised:
        job(("a: {format: parquet, path: a}", broken), ("result_time]", f"result_time]{late}"))
    assert "\n" not in str(raised.value)


def test_a_replay_by_rows_a_second_sets_the_trigger(
    job: Callable[..., list[str]], spark: SparkSession, tmp_path: Path
) -> None:
    text = JOB.replace("{files: 1}", "{rows_per_second: 10}").replace("trigger: available now\n", "")
    (tmp_path / "job.yaml").write_text(text)
    files, trigger = pace(load(tmp_path / "job.yaml"), spark)
    assert (files, trigger) == ({"b": 1}, {"processingTime": "5000 milliseconds"})  # 50 rows a file


def test_times_for_kafka_keep_their_microseconds(spark: SparkSession) -> None:
    rows = spark.sql("select timestamp_micros(1700000000123456) as t, 1 as k")
    (value,) = in_json(rows).first()
    assert json.loads(value)["t"].startswith("2023-11-14T22:13:20.123456")
    assert in_json(rows.selectExpr("'x' as value")).first() == ("x",)


def test_explain_says_what_a_change_means_to_the_checkpoint(
    job: Callable[..., list[str]], spark: SparkSession, tmp_path: Path
) -> None:
    job()
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("a: {key: k, time: t, window: 5", "a: {key: k, time: t, window: 7"))
    changed = load(path)
    assert "braided explain --checkpoint says" in changed.explain()
    text = explain_start(changed, spark)
    assert "checkpoint: a new epoch begins" in text
    assert "; the window of 'a' was 5 seconds and is 7 seconds" in text
    assert "Results go to parquet" in text
    path.write_text(JOB.replace("key: k", "key: v"))
    with pytest.raises(bd.BraidedError, match=r"key of 'a' was \['k'\] and is \['v'\]"):
        explain_start(load(path), spark)
