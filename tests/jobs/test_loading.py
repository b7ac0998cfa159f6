"""A job file becomes a job: spellings, paths, variables of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

import braided as bd
from braided.jobs import load
from braided.jobs.definitions import column_names
from braided.jobs.document import parse
from tests.jobs.files import GOOD, good, said, write


def test_a_job_has_its_query_its_ends_and_defaults(tmp_path: Path) -> None:
    job = good(tmp_path)
    assert job.query == bd.JoinQuery(
        [
            bd.Stream("orders", key="order_id", time="placed_at", window="2 hours", lateness="1 minute"),
            bd.Stream("payments", key="order_id", time="paid_at", window="1 hour", lateness="1 minute"),
        ],
        within={("orders", "payments"): "30 minutes"},
    )
    assert (job.name, job.buckets, job.trigger, job.late) == ("job", 8, {}, None)
    assert job.sources["payments"].options == {"header": True}


def test_what_to_dict_gives_is_a_query(tmp_path: Path) -> None:
    import yaml

    query = bd.JoinQuery(
        [
            bd.Stream("a", key="k", time="t", window="2 hours", lateness="1 s", freshness="3 hours"),
            bd.Stream("b", key="k", time="t", window=bd.CountWindow(5), lateness="1 s"),
            bd.Stream("c", key="k", time="t", window="unbounded", lateness="1 s", punctuation="p"),
        ],
        within={("a", "b"): ("0 seconds", "1 hour")},
        where="a.v > b.v",
        select={"k": "a.k"},
        tuning=bd.Tuning(index={"a": "hash"}, selectivities={("a", "b"): 0.5}, purge=bd.BatchPurge(7)),
        overload=bd.Overload(100),
    )
    sources = {name: {"format": "rate"} for name in "abc"}
    text = yaml.safe_dump(
        {"query": query.to_dict(), "sources": sources, "sink": "console", "checkpoint": "/c"}
    )
    assert load(write(tmp_path, text)).query == query


def test_friendlier_spellings_mean_the_same(tmp_path: Path) -> None:
    on = ("  within:", "  on: [orders.order_id = payments.order_id]\n  within:")
    job = good(tmp_path, on, ("30 minutes", "[0 seconds, 30 mins]"))
    assert job.query.on == (("orders.order_id", "payments.order_id"),)
    assert job.query.pairs == ((("orders", "payments"), ("0 seconds", "30 minutes")),)
    assert bd.JoinQuery.from_dict(job.query.to_dict()) == job.query


def test_paths_are_relative_to_the_job_file_and_addresses_stay(tmp_path: Path) -> None:
    changes = (("path: in/payments", "path: s3a://bucket/payments"), ("path: out", "path: ../out"))
    job = good(tmp_path, *changes)
    assert job.sources["orders"].path == str(tmp_path / "in" / "orders")
    assert job.sources["payments"].path == "s3a://bucket/payments"
    assert job.sink.path == str(tmp_path.parent / "out")
    assert job.checkpoint == str(tmp_path / "checkpoint")


def test_variables_of_the_environment(tmp_path: Path) -> None:
    changes = (
        ("checkpoint: checkpoint", "checkpoint: ${ROOT}/c\nbuckets: ${BUCKETS:-4}\nname: $${ROOT}"),
        ("path: out", 'path: "${OUT:-here}"'),
    )
    job = good(tmp_path, *changes, ROOT="/data", OUT="")
    assert (job.checkpoint, job.buckets, job.name) == ("/data/c", 4, "${ROOT}")
    assert job.sink.path == str(tmp_path / "here")
    assert good(tmp_path, *changes, ROOT="/data", BUCKETS="16").buckets == 16
    assert said(tmp_path, *changes) == [
        "job.yaml:19: the environment variable ROOT is not set; set it, or give a default: ${ROOT:-...}"
    ]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("available now", {"availableNow": True}),
        ("availableNow", {"availableNow": True}),
        ("once", {"once": True}),
        ("10 seconds", {"processingTime": "10 seconds"}),
        ("every 2 minutes", {"processingTime": "2 minutes"}),
    ],
)
def test_triggers(tmp_path: Path, text: str, options: dict[str, object]) -> None:
    assert good(tmp_path, ("checkpoint:", f"trigger: {text}\ncheckpoint:")).trigger == options


def test_short_sinks_and_a_sink_for_late_rows(tmp_path: Path) -> None:
    whole = "sink: {format: parquet, path: out}"
    assert good(tmp_path, (whole, "sink: console")).sink.format == "console"
    job = good(tmp_path, (whole, "sink: {format: json, path: out, late: console}"))
    assert job.late is not None
    assert job.late.format == "console"


def test_explain_tells_of_both_ends(tmp_path: Path) -> None:
    text = good(tmp_path, ("header: true}", "header: true}\n    replay: {rows_per_second: 500}")).explain()
    for words in (
        "Join of 2 streams",
        "csv",
        "about 500 rows a second",
        "Results go to parquet",
        "checkpoint",
    ):
        assert words in text


def test_yaml_is_read_by_its_core_schema_only() -> None:
    data = parse("on: no\nday: 2026-01-01\nclock: 10:30\nn: 012\nyes: true\nnothing:\nx: 1e3", "x").data
    wanted = {
        "on": "no",
        "day": "2026-01-01",
        "clock": "10:30",
        "n": 12,
        "yes": True,
        "nothing": None,
        "x": 1e3,
    }
    assert data == wanted


def test_anchors_and_merges() -> None:
    document = parse("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\n", "x")
    assert document.data["b"] == {"x": 1, "y": 3}
    assert (document.line(("b", "x")), document.line(("b", "y"))) == (1, 4)


def test_columns_of_a_schema() -> None:
    assert column_names("a long, `b c` map<string, array<int>>, d: decimal(9, 2) NOT NULL") == (
        "a",
        "b c",
        "d",
    )
    assert column_names({"a": "long"}) == ("a",)


IN_WORDS = """\
query: |
  SELECT o.order_id
  FROM orders AS o TIME placed_at WINDOW '2 hours' LATENESS '1 minute'
  JOIN payments AS p TIME paid_at WINDOW '1 hour' LATENESS '1 minute' ON o.order_id = p.order_id
sources:
"""


def in_words(*changes: tuple[str, str]) -> str:
    """The right job with its query in words, changed."""
    text = IN_WORDS + GOOD.split("sources:\n")[1]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def test_a_query_in_words(tmp_path: Path) -> None:
    job = load(write(tmp_path, in_words()))
    assert job.query == bd.sql(IN_WORDS.split("query: |\n")[1].split("sources:", maxsplit=1)[0])
    assert "orders.order_id = payments.order_id" in job.explain()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("WINDOW '1 hour'", "WINDW '1 hour'", ["job.yaml:1: sql, line 3, column", "did you mean 'WINDOW'?"]),
        ("WINDOW '1 hour'", "", ["job.yaml:1: stream 'payments': a streaming join needs a window"]),
        ("TIME paid_at", "TIME payd_at", ["job.yaml:1: stream 'payments' has no column 'payd_at'"]),
    ],
)
def test_mistakes_of_a_query_in_words(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    lines = said(tmp_path, text=in_words((old, new)))
    for word in words:
        assert word in "\n".join(lines)
