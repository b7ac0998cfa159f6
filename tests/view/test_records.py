"""Records of batches, and the journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import braided as bd
from braided.policies.statistics import Adapted, EpochMetrics, JoinMetrics, StreamStatistics
from braided.view import Journal, Record, record_of
from tests.view.batches import EVIL, metrics, progress, rationing, record


def test_a_record_has_the_batch_s_own_rows_and_results() -> None:
    first = record_of(progress(0), metrics(1))
    assert (first.rows, first.results, first.total_results) == (30, 7, 7)
    second = record_of(progress(1), metrics(2, memory_limit=10**6), first)
    assert (second.rows, second.results, second.total_results) == (30, 7, 14)
    assert second.streams["a"].rows == 20
    assert second.streams["b"].lag_us == 2_000_000
    assert (second.seconds, second.latency, first.latency) == (1.5, 3.0, 1.5)
    assert second.when == pytest.approx(1_704_067_202.5)
    assert second.allowances == {"a->b": 3}
    assert (second.state_bytes, second.state_rows, second.spilled_rows, second.late_rows) == (150, 7, 4, 2)
    assert second.budget_bytes == 10**6


@pytest.mark.parametrize("before", [None, 3])
def test_what_is_not_known_is_none(before: int | None) -> None:
    """After a restart totals go on; a batch whose report was lost lies between."""
    old = record_of(progress(before), metrics(4)) if before is not None else None
    seen = record_of(progress(5, rows=31), metrics(6), old)
    assert (seen.rows, seen.results, seen.streams["a"].rows) == (31, None, None)
    assert seen.results_per_second is None


def test_after_a_restart_a_batch_without_rows_changes_nothing() -> None:
    silent = JoinMetrics(0, 0, None, {}, {}, query_id="q")
    old = record_of(progress(0), metrics(1))
    idle = record_of(progress(1, rows=0), silent, old)
    assert (idle.batch, idle.rows, idle.results, idle.total_results) == (1, 0, 0, 7)
    assert idle.streams["a"].total_rows == 20
    assert record_of(progress(2), metrics(2), idle).results == 7
    alone = record_of(progress(1, rows=0), silent)
    assert (alone.results, alone.total_results) == (0, 0)
    assert record_of(progress(2), metrics(2), alone).results is None


def test_adaptations_are_told_once_in_words() -> None:
    first = record_of(progress(0), metrics(1, rationing=rationing(Adapted(0, "first analysis", True))))
    assert first.adaptations == ("a new allocation: first analysis",)
    said = rationing(Adapted(0, "first analysis", True), Adapted(1, "rates moved", False))
    streams = {"a": StreamStatistics(index="scan"), "b": StreamStatistics()}
    later = metrics(2, rationing=said, driver_streams=("b", "a"), streams=streams)
    assert record_of(progress(1), later, first).adaptations == (
        "driver streams a > b became b > a",
        "index of a: hash became scan",
        "the allocation stays: rates moved",
    )


def test_adaptations_of_several_buckets_are_counted() -> None:
    all_of_them = [Adapted(0, f"reason {n}", n != 1, n) for n in range(4)]
    told = record_of(progress(0), metrics(1, rationing=rationing(*all_of_them)))
    assert told.adaptations == ("a new allocation in 3 buckets: reason 0", "the allocation stays: reason 1")


def test_a_stream_without_rows_is_no_change_of_order() -> None:
    first = record_of(progress(0), metrics(1))
    assert record_of(progress(1), metrics(2, driver_streams=("b",)), first).adaptations == ()


def test_hot_keys_and_epochs_are_named_when_they_begin() -> None:
    known: dict[str, Any] = {"buckets": 4, "epochs": (EpochMetrics(0, None, None, None, 3),)}
    first = record_of(progress(0), metrics(1, **known))
    assert first.adaptations == ()
    known["epochs"] = (EpochMetrics(0, None, 9, 12, 3), EpochMetrics(1, 9, None, None, 0))
    hot = metrics(2, hot_keys={"a": {"7": 0.6, "8": 0.3}}, **known)
    second = record_of(progress(1), hot, first)
    assert second.adaptations == (
        "key 7 is hot: about 60 % of the rows of a", "the query has changed: epoch 1 began",
    )  # fmt: skip
    assert second.hot_keys == {"a.7": 0.6}
    assert Record.from_dict(second.to_dict()) == second
    assert record_of(progress(2), metrics(3, hot_keys=hot.hot_keys, **known), second).adaptations == ()


def test_records_round_trip_and_later_fields_are_left_out() -> None:
    told = record(3, EVIL)
    values = json.loads(json.dumps(told.to_dict()))
    assert Record.from_dict(values) == told
    values["streams"]["payments"]["later"] = values["later"] = 1
    assert Record.from_dict(values) == told


def test_a_journal_keeps_records_and_the_query(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "journal.jsonl"
    assert Journal(path).read() == []
    for batch in range(3):
        journal = Journal(path)
        journal.describe("a join")
        journal.append(record(batch))
    assert [r.batch for r in journal.read()] == [0, 1, 2]
    assert journal.about() == "a join"
    assert path.read_text().count("about") == 1


@pytest.mark.parametrize("cut", [1, 2, 100])
def test_a_torn_last_line_is_left_out_and_cut_off(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "journal.jsonl"
    for batch in range(2):
        Journal(path).append(record(batch))
    path.write_bytes(path.read_bytes()[:-cut])
    assert [r.batch for r in Journal(path).read()] == [0]
    Journal(path).append(record(2))
    assert [r.batch for r in Journal(path).read()] == [0, 2]


def test_a_journal_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "journal.jsonl"):
        with pytest.raises(bd.BraidedError, match="the journal cannot be"):
            Journal(path).append(record(0))


@pytest.mark.parametrize(
    "damaged", ["{", "1", "[]", "{}", '{"record": 1}', '{"record": {"batch": 1}}', "\xff"]
)
def test_a_damaged_line_is_named(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / "journal.jsonl"
    Journal(path).append(record(0))
    path.write_bytes(path.read_bytes() + damaged.encode("latin-1") + b"\n")
    with pytest.raises(bd.BraidedError, match="line 2 is no record of a batch"):
        Journal(path).read()
