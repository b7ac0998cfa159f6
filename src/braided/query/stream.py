"""One input of a join: its key, its event time, and what is known about how its rows come."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, get_args

from braided.query.durations import Duration, to_us
from braided.query.errors import InvalidType, InvalidValue, about, require_choice
from braided.query.kinds import column, duration, names, whole
from braided.query.promises import Arrival, Punctuation, RangePunctuation
from braided.query.values import Value
from braided.query.windows import UNBOUNDED, AsOf, CountWindow, Window

_KEY = names("a column name or several", "column", least=1)
How: TypeAlias = Literal["inner", "left", "semi", "anti", "full"]
_SPELLINGS = {
    "inner": ("inner",),
    "left": ("left", "leftouter", "left outer"),
    "semi": ("semi", "leftsemi", "left semi"),
    "anti": ("anti", "leftanti", "left anti"),
    "full": ("full", "outer", "fullouter", "full outer"),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _key(owner: str, option: str, value: Any) -> tuple[str, ...]:
    return _KEY(owner, option, (value,) if isinstance(value, str) else value)  # type: ignore[no-any-return]


def _freshness(owner: str, option: str, value: Any) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(whole(1, (1 << 31) - 1, "at least 1 and less than 2^31 rows")(owner, option, value))
    return duration(owner, option, value)


def _how(owner: str, option: str, value: Any) -> str:
    """Read a kind of join, in PySpark's spellings, too."""
    if not isinstance(value, str):
        raise InvalidType.must(option, "a kind of join such as 'left'", value, owner=owner)
    plain = value.strip().lower().replace("_", " ")
    if plain in ("right", "rightouter", "right outer"):
        remedy = "list this stream first, and give the others how='left'"
        raise InvalidValue(f"{owner}: how={value!r} is a left join of the others; {remedy}", value=value)
    kind = next((kind for kind, texts in _SPELLINGS.items() if plain in texts), value)
    require_choice(owner, option, kind, get_args(How))
    return kind


class Stream(Value):
    """A named stream.

    `key` is one column or several; it is stored as a tuple. `time` is a column, too. `window` is how long a
    row of this stream stays joinable after its own time: give the longest to the stream that comes first.
    It is a duration, a `CountWindow`, or "unbounded"; with `AsOf` only the newest row counts, as of the time
    of the others. `lateness` is how far out of order its rows may come.
    Durations are stored as canonical text ("120 minutes" becomes "2 hours").

    `freshness` is how old its rows may be in results, where there is an `Overload`: a duration, or with a
    `CountWindow` how many newer rows (of the key, or of the stream) may have arrived. `unique`, `arrival`
    ("clustered", "ordered", "descending") and `punctuation` (a boolean column, or a `RangePunctuation`) are
    promises (see `promises`); they never change the result. A stream that has brought no row for
    `idle_after`, by the wall clock, does not hold the watermark back until it brings one; its rows may be
    late then.

    `how` says what a result without a partner of this stream is (see `outer`): with "inner" there is none;
    with "left" its columns are null; with "semi" it needs a partner, and its columns are left out, with
    "anti" it needs that there is none. "full" is for the second of two streams.
    """

    name: str
    key: Annotated[str | Sequence[str], _key] | None = None
    _: dataclasses.KW_ONLY
    time: Annotated[str, column] | None = None
    window: Window | None = None
    lateness: Annotated[Duration, duration] | None = None
    freshness: Annotated[Duration | int, _freshness] | None = None
    unique: bool = False
    arrival: Arrival = "any"
    punctuation: Punctuation | None = None
    idle_after: Annotated[Duration, partial(duration, zero=False)] | None = None
    how: Annotated[str, _how] = "inner"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            wanted = "letters, digits and underscores, starting with a letter or underscore"
            raise InvalidValue.must("name", wanted, self.name, owner="Stream")
        with about(stream=self.name):
            super().__post_init__()

    @property
    def _owner(self) -> str:
        """What error messages call the stream."""
        return f"stream {self.name!r}"

    def _check(self) -> None:
        if self.flag is not None and self.flag in (*self.key_columns, self.time):
            wrong = f"punctuation column {self.flag!r} is its key or time; name a boolean column"
            raise InvalidValue.of(self.name, "punctuation", wrong)

    @property
    def optional(self) -> bool:
        """Whether there may be results without a row of it, or of which its rows are no part.

        Or whether its row is looked up for the others' once these are there.
        """
        return self.how != "inner" or self.as_of is not None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key's columns; empty if the stream has no key of its own."""
        return tuple(self.key or ())

    @property
    def flag(self) -> str | None:
        """The column that marks punctuations, if there is one."""
        if isinstance(self.punctuation, RangePunctuation):
            return self.punctuation.flag
        return self.punctuation

    @property
    def upto(self) -> str | None:
        """The column with the largest key that a punctuation closes, if it closes ranges."""
        return self.punctuation.upto if isinstance(self.punctuation, RangePunctuation) else None

    @property
    def asides(self) -> tuple[str, ...]:
        """Columns that only punctuations use, so that they are left out of results."""
        columns = (self.flag, self.upto)
        return tuple(c for c in columns if c is not None and c not in (*self.key_columns, self.time))

    @property
    def promises(self) -> bool:
        """Whether anything is known of the rows to come."""
        return self.unique or self.arrival != "any" or self.punctuation is not None

    @property
    def window_us(self) -> int | None:
        """The time window in microseconds; None if unbounded, counted in rows, or as of another time."""
        if isinstance(self.window, CountWindow | AsOf) or self.window in (None, UNBOUNDED):
            return None
        return to_us(self.window)

    @property
    def count_window(self) -> CountWindow | None:
        """The count window, if the window is one."""
        return self.window if isinstance(self.window, CountWindow) else None

    @property
    def as_of(self) -> AsOf | None:
        """How old its newest row may be, if only that counts."""
        return self.window if isinstance(self.window, AsOf) else None

    @property
    def counts_keys(self) -> bool:
        """Whether the window counts the rows of each key."""
        return self.count_window is not None and self.count_window.per == "key"

    @property
    def freshness_us(self) -> int | None:
        """How old a row may be in results, in microseconds; None: of any age."""
        return None if self.freshness is None or isinstance(self.freshness, int) else to_us(self.freshness)

    @property
    def freshness_rows(self) -> int | None:
        """With how many newer rows, of its key or stream, a row is too old for results; None: with any."""
        return self.freshness if isinstance(self.freshness, int) else None

    @property
    def lateness_us(self) -> int:
        """How far out of order rows may come, in microseconds; 0 if not stated."""
        return to_us(self.lateness) if self.lateness is not None else 0
