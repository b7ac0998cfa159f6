"""Streams that bring nothing hold the watermark only for so long, by the caller's clock."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import braided as bd


def rows(*times: int) -> pa.Table:
    return pa.table({"k": [1] * len(times), "t": pa.array(times).cast(pa.timestamp("us"))})


def joined(**idle: Any) -> bd.LocalJoin:
    streams = [
        bd.Stream(n, key="k", time="t", window="10 us", lateness="0 us", idle_after=idle.get(n)) for n in "ab"
    ]
    return bd.LocalJoin(bd.JoinQuery(streams))


def test_a_silent_stream_no_longer_holds_the_watermark() -> None:
    join = joined(b="1 minute")
    join.push({"a": rows(1, 2), "b": rows(2)}, now=1000)
    join.push({"a": rows(50)}, now=1059)
    assert join.stats().watermark_us == 2
    join.push({"a": rows(60)}, now=1060)
    stats = join.stats()
    assert (stats.watermark_us, stats.streams["b"].idle, stats.streams["a"].idle) == (60, True, False)
    assert stats.streams["a"].live_rows == 2  # those that a row at the watermark can still meet
    found = join.push({"b": rows(30, 61), "a": rows(61)}, now=1061)
    assert found.num_rows == 2  # 60 and 61 with 61; the row of 30 is late
    stats = join.stats()
    assert stats.streams["b"].late_rows == 1
    assert (stats.streams["b"].idle, stats.watermark_us) == (False, 61)


def test_without_a_clock_nothing_is_idle() -> None:
    join = joined(a="1 second", b="1 second")
    join.push({"a": rows(1), "b": rows(1)})
    join.push({"a": rows(90)})
    assert join.stats().watermark_us == 1


def test_if_all_are_idle_the_watermark_stays_and_it_never_falls() -> None:
    join = joined(a="1 second", b="1 second")
    join.push({"a": rows(40), "b": rows(20)}, now=dt.datetime(2024, 1, 1, tzinfo=dt.UTC))
    join.push({"a": rows(41)}, now=dt.datetime(2024, 1, 1, 0, 0, 1, tzinfo=dt.UTC))
    assert join.stats().watermark_us == 41
    join.push({}, now=dt.datetime(2024, 1, 1, 0, 1, tzinfo=dt.UTC))
    assert join.stats().watermark_us == 41
    join.push({"b": rows(45)}, now=dt.datetime(2024, 1, 1, 0, 1, 1, tzinfo=dt.UTC))
    assert join.stats().watermark_us == 45
    join.push({"a": rows(42)}, now=dt.datetime(2024, 1, 1, 0, 1, 1, tzinfo=dt.UTC))
    assert join.stats().watermark_us == 45


def test_a_saved_state_remembers_who_was_idle() -> None:
    query = bd.JoinQuery(
        [bd.Stream(n, key="k", time="t", window="10 us", idle_after="1 second") for n in "ab"]
    )
    join = bd.LocalJoin(query)
    join.push({"a": rows(1), "b": rows(1)}, now=0)
    join.push({"a": rows(80)}, now=5)
    again = bd.LocalJoin(query)
    again.restore(join.snapshot())
    assert again.stats().watermark_us == join.stats().watermark_us == 80
    assert again.stats().streams["b"].idle


@pytest.mark.parametrize("now", ["soon", True, float("nan"), [1]])
def test_a_clock_that_is_none(now: Any) -> None:
    with pytest.raises(bd.BraidedError, match="now must be seconds, or a datetime"):
        joined().push({"a": rows(1)}, now=now)


def test_idle_after_is_a_duration_above_zero() -> None:
    for wrong in ("0 seconds", "soon", -1):
        with pytest.raises(bd.BraidedError, match="idle_after"):
            bd.Stream("a", key="k", idle_after=wrong)  # type: ignore[arg-type]
