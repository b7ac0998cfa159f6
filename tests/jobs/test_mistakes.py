"""Every mistake in a job file is named with its line and what would be right; all of them at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from braided.jobs import JobError, load
from braided.query.durations import to_us
from braided.query.errors import BraidedError
from tests.jobs.files import GOOD, said, write

SINK = "sink: {format: parquet, path: out}"
MISTAKES: dict[str, tuple[list[tuple[str, str]], int, list[str]]] = {
    "a mistyped unit": (
        [("window: 1 hour", "window: 10 mintues")],
        7,
        ["stream 'payments': window", "'10 mintues'", "did you mean '10 minutes'?"],
    ),
    "a number as a duration": ([("lateness: 1 minute\n", "lateness: 60\n")], 8, ["lateness", "got 60"]),
    "an unknown option of a stream": ([("time: paid_at", "tiem: paid_at")], 6, ["'tiem'", "'time'"]),
    "an unknown key": ([("checkpoint:", "chekpoint:")], 19, ["no option 'chekpoint'", "'checkpoint'"]),
    "an unknown key of a source": (
        [("options:", "option:")],
        17,
        ["sources.payments", "'option'", "'options'"],
    ),
    "a stream that bounds do not know": ([("orders, payments", "orders, paymnts")], 10, ["'payments'"]),
    "a bound": ([("30 minutes", "30 mintues")], 10, ["within", "'30 minutes'"]),
    "a choice": ([("      key:", "      arrival: sorted\n      key:")], 5, ["arrival", "'ordered'"]),
    "a window that counts": ([("window: 1 hour", "window: {rows: 0}")], 7, ["CountWindow: rows", "got 0"]),
    "no window": ([("      window: 1 hour\n", "")], 4, ["'payments'", "needs a window"]),
    "no time": ([("      time: paid_at\n", "")], 4, ["'payments': time is missing"]),
    "no key": ([("      key: order_id\n", "")], 4, ["'payments': key is missing"]),
    "a key too many": ([("      key: order_id", "      key: [a, b]")], 5, ["2 key columns"]),
    "tuning": ([("  within:", "  tuning:\n    goal: sped\n  within:")], 10, ["Tuning: goal", "'sped'"]),
    "tuning of no stream": (
        [("  within:", "  tuning:\n    goal: memory\n    index: {order: hash}\n  within:")],
        11,
        ["no stream 'order'", "'orders'"],
    ),
    "memory": ([("  within:", "  memory:\n    limit: 5 MBB\n  within:")], 10, ["Memory: limit", "5 MBB"]),
    "memory and overload": (
        [("  within:", "  memory: {limit: 1 GB}\n  overload: {probes: 9}\n  within:")],
        9,
        ["give one of them"],
    ),
    "overload": ([("  within:", "  overload: {probes: 0}\n  within:")], 9, ["Overload: probes", "got 0"]),
    "freshness": (
        [("      lateness: 1", "      freshness: 1 day\n      lateness: 1")],
        8,
        ["freshness", "only goes with overload"],
    ),
    "select": (
        [("  within:", "  select:\n    a: orders.order_id\n    b: order.x\n  within:")],
        11,
        ["select 'b'", "'orders'"],
    ),
    "where": ([("  within:", "  where: order.x > 1\n  within:")], 9, ["no stream 'order'", "'orders'"]),
    "where is no SQL": ([("  within:", "  where: orders.x >\n  within:")], 9, ["where"]),
    "plan": ([("  within:", "  plan: [orders, [payments]]\n  within:")], 9, ["plan"]),
    "on": ([("  within:", "  on:\n    - orders.a\n  within:")], 10, ["on: each entry is a pair"]),
    "no source": ([("  payments:\n    format", "  payment:\n    format")], 11, ["'payments' has none"]),
    "a missing column": (
        [("paid_at: timestamp", "paidat: timestamp")],
        6,
        ["no column 'paid_at'", "'paidat'"],
    ),
    "no format": ([("    format: csv\n", "")], 13, ["format is missing"]),
    "no path": ([("    path: in/payments\n", "")], 13, ["path is missing", "'csv'"]),
    "a number as a text": ([("path: in/payments", "path: 3")], 15, ["a text", "got 3"]),
    "XML without a schema": (
        [("format: csv", "format: braided-xml"), ("    schema: {order_id: long, paid_at: timestamp}\n", "")],
        13,
        ["sources.payments: schema is missing"],
    ),
    "XML without a folder": (
        [("format: csv", "format: braided-xml"), ("    path: in/payments\n", "")],
        13,
        ["sources.payments: path is missing", "'braided-xml'"],
    ),
    "XML by the second": (
        [("format: csv", "format: braided-xml"), ("options:", "replay: {rows_per_second: 5}\n    options:")],
        17,
        ["cannot be replayed by rows_per_second; give files"],
    ),
    "a replay of nothing": ([("options:", "replay: {}\n    options:")], 17, ["files or rows_per_second"]),
    "kafka": ([("format: csv", "format: kafka")], 13, ["kafka.bootstrap.servers"]),
    "late rows to a sink that doubles": (
        [(SINK, "sink: {format: parquet, path: out, late: {format: jdbc}}")],
        18,
        ["sink.late", "'jdbc'"],
    ),
    "one folder for two things": (
        [(SINK, "sink: {format: parquet, path: checkpoint}")],
        19,
        ["another folder"],
    ),
    "a trigger": (
        [("checkpoint:", "trigger: availble now\ncheckpoint:")],
        19,
        ["did you mean 'available now'?"],
    ),
    "buckets": ([("checkpoint:", "buckets: 6\ncheckpoint:")], 19, ["power of two", "got 6"]),
    "settings of Spark": ([("checkpoint:", "spark: {master: a}\ncheckpoint:")], 19, ["'spark.'", "'master'"]),
    "settings of Spark as a list": (
        [("checkpoint:", "spark: [1]\ncheckpoint:")],
        19,
        ["spark must be a mapping"],
    ),
    "settings of Spark as a number": (
        [("checkpoint:", "spark: 1\ncheckpoint:")],
        19,
        ["spark must be a mapping"],
    ),
    "a value left empty": ([("path: in/payments", "path:")], 13, ["path is missing"]),
    "a format left empty": ([("format: csv", "format:")], 14, ["must be a text; got nothing"]),
    "no checkpoint": (
        [("checkpoint: checkpoint\n", "")],
        1,
        ["checkpoint is missing (folder for what a restart needs"],
    ),
    "a tag": ([("path: in/payments", "path: !secret x")], 15, ["!secret"]),
    "no mapping": ([("sink: {format: parquet, path: out}", "sink: [1]")], 18, ["sink must be a mapping"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, mistake: str) -> None:
    changes, line, words = MISTAKES[mistake]
    lines = said(tmp_path, *changes)
    found = [text for text in lines if all(word in text for word in words)]
    assert found, lines
    assert found[0].startswith(f"job.yaml:{line}: "), lines


def test_all_mistakes_are_listed_in_the_order_of_the_file(tmp_path: Path) -> None:
    lines = said(
        tmp_path,
        ("window: 2 hours", "window: 2 huors"),
        ("window: 1 hour\n      lateness: 1 minute", "window: 1 huor\n      lateness: 1 minuet"),
        ("30 minutes", "30 minuets"),
        ("format: csv", "fromat: csv"),
        ("path: out", "path: out, columns: id"),
        ("checkpoint: checkpoint", "buckets: 0"),
    )
    numbers = [int(re.match(r"job\.yaml:(\d+):", line)[1]) for line in lines]  # type: ignore[index]
    assert numbers == sorted(numbers)
    assert {3, 7, 8, 10, 14, 18, 19} <= set(numbers)


def test_a_key_given_twice_names_both_lines(tmp_path: Path) -> None:
    lines = said(tmp_path, ("checkpoint: checkpoint", "checkpoint: a\nname: x\ncheckpoint: b"))
    assert lines == ["job.yaml:21: 'checkpoint' is given twice, in lines 19 and 21; leave one out"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1, 2\nb: 3", ["job.yaml:2:", "no YAML"]),
        ("a:\n\t- 1", ["job.yaml:2:1", "tabs"]),
        ('a: "b\nc: "d"\n', ["job.yaml:2:5", "a quote or a bracket before it that is not closed"]),
        ('a: "b', ["job.yaml:1:6", "a quote or a bracket before it that is not closed"]),
        ("a: b: c", ["job.yaml:1:5", "no YAML"]),
        ("- a", ["must be a mapping"]),
        ("a: &a [*a]", ["holds itself"]),
        ("a: \x00", ["no YAML"]),
    ],
)
def test_what_is_no_job_at_all(tmp_path: Path, text: str, words: list[str]) -> None:
    (line,) = said(tmp_path, text=text) if words != ["must be a mapping"] else said(tmp_path, text=text)[:1]
    for word in words:
        assert word in line


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    with pytest.raises(BraidedError, match=r"no job file .*jb\.yaml'; did you mean 'job\.yaml'\?"):
        load(tmp_path / "jb.yaml")
    with pytest.raises(BraidedError, match="braided init"):
        load(tmp_path / "nowhere" / "job.yaml")
    with pytest.raises(BraidedError, match="is a folder"):
        load(tmp_path)
    (tmp_path / "empty.yaml").write_text("# later\n")
    with pytest.raises(BraidedError, match="is empty"):
        load(tmp_path / "empty.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff")
    with pytest.raises(BraidedError, match="UTF-8"):
        load(tmp_path / "latin.yaml")


def test_one_problem_is_one_line_and_several_are_counted(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"^[^\n]*job\.yaml:7: [^\n]*$"):
        load(write(tmp_path, GOOD, ("window: 1 hour", "window: x")))
    with pytest.raises(JobError, match=r"job\.yaml has 2 problems:\n"):
        load(write(tmp_path, GOOD, ("window: 1 hour", "window: x"), ("window: 2 hours", "window: y")))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("10 mintues", "did you mean '10 minutes'?"),
        ("-1 huor 5 min", "did you mean '-1 hour 5 min'?"),
        ("10", "it has no unit: '10 seconds'?"),
        ("soon", "got 'soon'"),
    ],
)
def test_durations_hint_at_the_unit(text: str, hint: str) -> None:
    with pytest.raises(BraidedError) as raised:
        to_us(text)
    assert str(raised.value).endswith(hint)


IN_A_LIST = """\
query:
  streams:
    - {name: orders, key: order_id, time: placed_at, window: 2 huors, lateness: 1 minute}
    - name: payments
      key: order_id
      time: paid_at
      window: {rows: 0}
      lateness: 1 minute
      arrival: sorted
  within:
    - streams: [orders, payments]
      from: 0 seconds
      to: 1 huor
  memory:
    limit: 5 MBB
    flush: biggest
  tuning:
    goal: sped
    purge: {every: 0}
  select:
    a: orders.x
    b: order.x
    c: 3
  where: order.x > 1
"""


def test_mistakes_of_every_part_are_found_together(tmp_path: Path) -> None:
    """Which value a sentence is about was guessed from its words, by leaving out value after value."""
    lines = said(tmp_path, text=IN_A_LIST + GOOD[GOOD.index("sources:") :])
    numbers = [int(line.split(":")[1]) for line in lines]
    assert numbers == [3, 7, 9, 11, 15, 16, 18, 19, 22, 23, 24], lines
