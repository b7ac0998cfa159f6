"""Event times as whole microseconds, whatever the column's unit or zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from braided.policies.arrays import Bools, Int64s
from braided.query.durations import MAX_US
from braided.query.errors import InvalidType, InvalidValue
from braided.query.stream import Stream


def check_time_type(stream: Stream, type_: pa.DataType) -> None:
    """Raise for a type that is no event time."""
    if not (pa.types.is_timestamp(type_) or type_ == pa.int64()):
        raise InvalidType(
            f"stream {stream.name!r}: time column {stream.time!r} has type {type_}; it must be a "
            "timestamp, or int64 microseconds; cast it"
        )


def result_time_type(streams: Sequence[Stream], schemas: Sequence[pa.Schema]) -> pa.DataType | None:
    """Return the type of `result_time`: what the streams' time columns share; None without times."""
    named = [(s, schema.field(s.time).type) for s, schema in zip(streams, schemas, strict=True) if s.time]
    if not named:
        return None
    zones = {"int64" if t == pa.int64() else "zoned" if t.tz else "without zone" for _, t in named}
    if len(zones) > 1:
        described = ", ".join(f"{s.name}.{s.time} is {t}" for s, t in named)
        raise InvalidType(
            "time columns must be alike (all timestamps with a zone, all without, or all int64 "
            f"microseconds): {described}; cast one"
        )
    if zones == {"int64"}:
        return pa.int64()
    names = {t.tz for _, t in named}
    return pa.timestamp("us", tz=names.pop() if len(names) == 1 else "UTC")


@dataclass(frozen=True)
class EventTimes:
    """Times in microseconds, which of them are not null (None: all), smallest and largest."""

    us: Int64s
    valid: Bools | None
    oldest_us: int | None
    newest_us: int | None


def event_times(stream: Stream, column: pa.Array) -> EventTimes:
    """Read the event times of a column; values that cannot be times raise."""
    us, valid = _to_us(stream, column)
    there = us if valid is None else us[valid]
    if not len(there):
        return EventTimes(us, valid, None, None)
    oldest, newest = int(there.min()), int(there.max())
    if max(-oldest, newest) > MAX_US:
        raise InvalidValue(
            f"stream {stream.name!r}: time column {stream.time!r} has a value more than 36,000 "
            "years from 1970; is it in microseconds?"
        )
    return EventTimes(us, valid, oldest, newest)


def _to_us(stream: Stream, column: pa.Array) -> tuple[Int64s, Bools | None]:
    valid = np.asarray(column.is_valid()) if column.null_count else None
    if pa.types.is_timestamp(column.type) and column.type.unit != "us":
        try:
            column = column.cast(pa.timestamp("us", tz=column.type.tz))
        except pa.ArrowInvalid:
            raise InvalidValue(
                f"stream {stream.name!r}: time column {stream.time!r} ({column.type}) has values "
                "that are no whole microseconds or out of range; cast it to timestamp('us')"
            ) from None
    us = column.view(pa.int64())
    if valid is not None:  # a null counts as one of the times that are there: 1970 would be far from them
        us = us.fill_null(next(iter(us.drop_null()), 0))
    return np.asarray(us), valid
