"""Windows: how long, or for how many newer rows, a row of a stream stays joinable."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from braided.query.durations import Duration, to_text, to_us
from braided.query.errors import InvalidValue, require_choice, require_whole
from braided.query.values import PlainDict, value_class

Per = Literal["key", "stream"]


@value_class
class CountWindow(PlainDict):
    """A row stays inside while fewer than `rows` newer rows (of its key, or of its stream) came.

    Rows with the same time do not push each other out.
    """

    rows: int
    per: Per = dataclasses.field(default="key", kw_only=True)

    def __post_init__(self) -> None:
        require_whole("CountWindow", "rows", self.rows, 1, (1 << 31) - 1, "at least 1 and less than 2^31")
        require_choice("CountWindow", "per", self.per, get_args(Per))


Window: TypeAlias = Duration | CountWindow
UNBOUNDED = "unbounded"


def normalise(window: object, stream: str) -> str | CountWindow | None:
    """The canonical text of a time window, a count window, "unbounded", or None."""
    if window is None or isinstance(window, CountWindow):
        return window
    if isinstance(window, Mapping):
        return CountWindow.from_dict(window)
    if isinstance(window, str) and window.strip().lower() == UNBOUNDED:
        return UNBOUNDED
    us = to_us(window, owner=f"stream {stream!r}: window")  # type: ignore[arg-type]
    if us < 0:
        raise InvalidValue(f"stream {stream!r}: window must not be negative; got {window!r}")
    return to_text(us)
