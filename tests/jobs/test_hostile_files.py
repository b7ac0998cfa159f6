"""Job files that cost more than they should, hide secrets, or would make a job read what it wrote."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from braided.jobs import JobError, load
from braided.jobs.places import check_places
from braided.query.errors import BraidedError
from tests.jobs.files import GOOD, good, said, write

SINK = "sink: {format: parquet, path: out}"
ORDERS = '{format: parquet, path: in/orders, schema: "order_id long, placed_at timestamp"}'


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("9" * 5000, "a number of 5,000 digits is too long"),
        ("0x" + "f" * 5000, "digits is too long"),
        ("!!int abc", "'abc' cannot be read as !!int"),
        ("!!float abc", "'abc' cannot be read as !!float"),
        ("!!bool maybe", "'maybe' cannot be read as !!bool"),
        ("!!timestamp 2026-01-01", "the tag !!timestamp has no meaning here"),
        ("!!python/object:os.system {}", "the tag !!python/object:os.system has no meaning here"),
        ("!secret [a]", "the tag !secret has no meaning here"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_with_its_line(tmp_path: Path, value: str, words: str) -> None:
    """Numbers of more than 4,300 digits and tags that do not fit ended in a traceback."""
    lines = said(tmp_path, ("checkpoint:", f"buckets: {value}\ncheckpoint:"))
    assert any(line.startswith("job.yaml:19: ") and words in line for line in lines), lines


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
MERGES = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}], z{n}: 1}}\n" for n in range(1, 12)
)


@pytest.mark.parametrize("text", [BOMB, MERGES])
def test_aliases_of_aliases_end_in_a_sentence(tmp_path: Path, text: str) -> None:
    """A file of a thousand bytes grew to a hundred thousand million values, and the command hung."""
    began = time.monotonic()
    (line,) = said(tmp_path, text=text)
    assert "it grows to more than 20,000 values; leave out aliases of aliases" in line
    assert time.monotonic() - began < 5


def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    """A device in place of a file was read until the machine had no memory left."""
    with pytest.raises(BraidedError, match="has more than 1,000,000 bytes"):
        load(Path("/dev/zero"))
    (tmp_path / "big.yaml").write_text("# " + "x" * 1_000_000)
    with pytest.raises(BraidedError, match="has more than 1,000,000 bytes"):
        load(tmp_path / "big.yaml")


KAFKA = "{format: kafka, options: {kafka.bootstrap.servers: 'h:1,i:1', %s}, value: raw, select: [a]}"


@pytest.mark.parametrize(
    ("source", "sink", "at"),
    [
        (None, "{format: parquet, path: in/orders}", "sink"),
        (None, "{format: parquet, path: in/payments/../orders/}", "sink"),
        (None, "{format: parquet, path: in/orders/results}", "sink"),
        (None, "{format: parquet, path: in}", "sink"),
        (None, "{format: parquet, path: link}", "sink"),
        (None, "{format: parquet, path: 'file:{folder}/in/orders'}", "sink"),
        (None, "{format: parquet, path: out, late: {format: json, path: in/orders}}", "sink.late"),
        ("{format: parquet, path: 'in/*/new'}", "{format: parquet, path: in/a/new}", "sink"),
        ("{format: parquet, path: 's3a://b/x/'}", "{format: parquet, path: 's3://b/x/y'}", "sink"),
        ("{format: parquet, path: 's3a://k:s@b/x'}", "{format: parquet, path: 's3a://b/x'}", "sink"),
        (KAFKA % "subscribe: 'x, orders'", KAFKA % "topic: orders", "sink"),
        (KAFKA % "subscribePattern: 'ord.*'", KAFKA % "topic: orders", "sink"),
        (KAFKA % """assign: '{"orders": [0]}'""", KAFKA % "topic: orders", "sink"),
        ("{format: iceberg, options: {table: db.t}}", "{format: iceberg, table: db.t}", "sink"),
    ],
)
def test_a_sink_that_a_source_reads_is_refused(
    tmp_path: Path, source: str | None, sink: str, at: str
) -> None:
    """A job that wrote its results into a source's folder, or topic, read them again, without end."""
    (tmp_path / "in" / "orders").mkdir(parents=True)
    os.symlink(tmp_path / "in" / "orders", tmp_path / "link")
    sink = sink.replace("{folder}", str(tmp_path)).replace(", value: raw, select: [a]", "")
    lines = said(tmp_path, (ORDERS, source or ORDERS), (SINK, f"sink: {sink}"))
    assert any(f"{at}: the " in s and "what sources.orders reads" in s for s in lines), lines


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        (ORDERS, "{format: parquet, path: in/orders2}"),
        ("{format: parquet, path: 's3a://b/x'}", "{format: parquet, path: 's3a://c/x'}"),
        ("{format: parquet, path: 's3a://b/x'}", "{format: parquet, path: /x}"),
        (KAFKA % "subscribe: orders", KAFKA.replace("h:1,i:1", "j:1") % "topic: orders"),
        (KAFKA % "subscribe: orders", KAFKA % "topic: results"),
    ],
)
def test_other_places_are_not_refused(tmp_path: Path, source: str, sink: str) -> None:
    source = source.replace("select: [a]", "select: [order_id, placed_at]")
    sink = sink.replace(", value: raw, select: [a]", "")
    good(tmp_path, (ORDERS, source), (SINK, f"sink: {sink}"))


def test_a_checkpoint_in_a_sources_folder_is_refused(tmp_path: Path) -> None:
    (line,) = said(tmp_path, ("checkpoint: checkpoint", "checkpoint: ./in/orders"))
    assert line == "job.yaml:19: checkpoint: sources.orders has this path already; name another folder"


SECRET = "s3cr3t"
SECRETIVE = (
    ("path: in/payments", f"path: s3a://KEY:{SECRET}@bucket/payments"),
    (
        "options: {header: true}",
        f"options: {{header: true, fs.s3a.secret.key: {SECRET}, url: 'a?sig={SECRET}'}}",
    ),
    ("path: out", f"path: 's3a://KEY:{SECRET}@bucket/out?token={SECRET}'"),
    (
        "checkpoint: checkpoint",
        f"checkpoint: s3a://KEY:{SECRET}@bucket/c\nspark: {{spark.password: {SECRET}}}",
    ),
)


def test_credentials_are_not_shown(tmp_path: Path) -> None:
    """Keys inside paths and options were printed by `explain`, `repr(Job)`, errors, and so into logs."""
    job = good(tmp_path, *SECRETIVE)
    wrong = job.complain(f"{job.sink.path} cannot be written", "sink")
    for text in (job.explain(), repr(job), repr(job.document), repr(job.sources), repr(job.sink), str(wrong)):
        assert SECRET not in text
    assert "s3a://***@bucket/out" in job.explain()
    assert job.sink.path is not None
    assert SECRET in job.sink.path  # Spark gets it
    with pytest.raises(JobError) as raised:
        load(write(tmp_path, GOOD, *SECRETIVE, ("window: 1 hour", f"window: 's3a://a:{SECRET}@b'")))
    assert SECRET not in str(raised.value)


def foreign(folder: Path, operator: str | None) -> None:
    """What Spark leaves in the checkpoint of a query, as far as it is looked at."""
    for name in ("in/orders", "in/payments", "checkpoint/offsets", "checkpoint/commits"):
        (folder / name).mkdir(parents=True)
    for name in ("offsets/0", "commits/0"):
        (folder / "checkpoint" / name).write_text("v1\n{}\n0")
    if operator is not None:
        (folder / "checkpoint" / "state" / "0" / "_metadata").mkdir(parents=True)
        metadata = f'v1\n{{"operatorInfo":{{"operatorId":0,"operatorName":"{operator}"}}}}'
        (folder / "checkpoint" / "state" / "0" / "_metadata" / "metadata").write_text(metadata)


@pytest.mark.parametrize("operator", [None, "stateStoreSave", "symmetricHashJoin"])
def test_the_checkpoint_of_another_query_is_refused(tmp_path: Path, operator: str | None) -> None:
    """Spark said: There are [1] sources in the checkpoint offsets and now there are [2] sources requested."""
    foreign(tmp_path, operator)
    with pytest.raises(
        BraidedError, match=r"job\.yaml:19: checkpoint: .* is the checkpoint of another query of"
    ):
        check_places(good(tmp_path))


def test_a_checkpoint_of_ours_or_one_without_a_batch_is_taken(tmp_path: Path) -> None:
    foreign(tmp_path, "transformWithStateInPandasExec")
    check_places(good(tmp_path))
    for path in (tmp_path / "checkpoint").rglob("*"):
        if path.is_file() and path.parent.name != "offsets":
            path.unlink()
    check_places(good(tmp_path))
