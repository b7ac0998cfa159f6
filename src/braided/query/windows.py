"""Windows: how long, or for how many newer rows, a row of a stream stays joinable."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, TypeAlias

from braided.query.durations import Duration
from braided.query.kinds import duration, whole
from braided.query.values import Value

Per = Literal["key", "stream"]


class CountWindow(Value):
    """A row stays inside while fewer than `rows` newer rows (of its key, or of its stream) came.

    Rows with the same time do not push each other out.
    """

    rows: Annotated[int, whole(1, (1 << 31) - 1, "at least 1 and less than 2^31")]
    _: dataclasses.KW_ONLY
    per: Per = "key"


class AsOf(Value):
    """Of this stream only the newest row counts that is not after the newest required one: as of that time.

    It may be so much older at most; rows with the same time count together. See `outer`.
    """

    age: Annotated[Duration, duration]


def _time_window(owner: str, option: str, value: Any) -> str:
    unbounded = isinstance(value, str) and value.strip().lower() == UNBOUNDED
    return UNBOUNDED if unbounded else duration(owner, option, value)


Window: TypeAlias = Annotated[Duration, _time_window] | CountWindow | AsOf
UNBOUNDED = "unbounded"
