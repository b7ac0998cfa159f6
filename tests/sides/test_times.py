"""Event times as microseconds: every unit and zone, nulls, and what is no time."""

from __future__ import annotations

import datetime as dt
import re

import pyarrow as pa
import pytest

import braided as bd
from braided.engine.sides.times import check_time_type, event_times, result_time_type
from braided.query.errors import InvalidType, InvalidValue

STREAM = bd.Stream("a", key="k", time="t")
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("unit", PER_SECOND)
def test_any_unit_and_zone_becomes_microseconds(unit: str, zone: str | None) -> None:
    seconds = [5, None, -3, 100]
    column = pa.array(
        [None if s is None else s * PER_SECOND[unit] for s in seconds], pa.timestamp(unit, zone)
    )
    times = event_times(STREAM, column)
    assert times.valid is not None
    assert times.valid.tolist() == [True, False, True, True]
    assert times.us[1] == times.us[0]  # a null counts as a time that is there
    assert times.us[times.valid].tolist() == [5_000_000, -3_000_000, 100_000_000]
    assert (times.oldest_us, times.newest_us) == (-3_000_000, 100_000_000)


def test_whole_numbers_are_microseconds_and_slices_are_read_right() -> None:
    times = event_times(STREAM, pa.array([9, 5, 7, 1]).slice(1, 2))
    assert (times.us.tolist(), times.valid, times.oldest_us, times.newest_us) == ([5, 7], None, 5, 7)


@pytest.mark.parametrize("column", [pa.array([], pa.int64()), pa.nulls(3, pa.timestamp("s"))])
def test_without_a_time_there_is_neither_oldest_nor_newest(column: pa.Array) -> None:
    times = event_times(STREAM, column)
    assert (times.oldest_us, times.newest_us) == (None, None)
    assert len(times.us) == len(column)


def test_what_is_no_time_says_so() -> None:
    for type_ in (pa.int32(), pa.string(), pa.date32()):
        with pytest.raises(InvalidType, match=re.escape(f"'a': time column 't' has type {type_}")):
            check_time_type(STREAM, type_)
    with pytest.raises(InvalidValue, match="no whole microseconds"):
        event_times(STREAM, pa.array([1], pa.timestamp("ns")))
    with pytest.raises(InvalidValue, match="is it in microseconds"):
        event_times(STREAM, pa.array([2**62]))


def test_a_result_has_the_type_that_all_times_share() -> None:
    other, timeless = bd.Stream("b", key="k", time="t"), bd.Stream("c", key="k")

    def shared(*types: pa.DataType) -> pa.DataType | None:
        return result_time_type([STREAM, other], [pa.schema([("t", t)]) for t in types])

    assert shared(pa.int64(), pa.int64()) == pa.int64()
    assert shared(pa.timestamp("s"), pa.timestamp("ns")) == pa.timestamp("us")
    assert shared(pa.timestamp("s", "UTC"), pa.timestamp("s", "Asia/Tokyo")) == pa.timestamp("us", "UTC")
    assert shared(*[pa.timestamp("s", "Asia/Tokyo")] * 2) == pa.timestamp("us", "Asia/Tokyo")
    assert result_time_type([timeless], [pa.schema([])]) is None
    with pytest.raises(InvalidType, match=r"a\.t is int64, b\.t is timestamp\[s\]"):
        shared(pa.int64(), pa.timestamp("s"))
    when = pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("s"))
    assert event_times(STREAM, when).newest_us == 1_704_067_200_000_000
