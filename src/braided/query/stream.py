"""One input of a join: its key, its event time, and what is known about how its rows come."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import get_args

from braided.query import windows
from braided.query.durations import Duration, to_text, to_us
from braided.query.errors import InvalidType, InvalidValue, about, require_choice
from braided.query.promises import Arrival, Punctuation, RangePunctuation, read_punctuation
from braided.query.values import PlainDict, freeze, value_class
from braided.query.windows import CountWindow, Window

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@value_class
class Stream(PlainDict):
    """A named stream.

    `key` is one column or several; it is stored as a tuple. `time` is a column, too. `window` is how long a
    row of this stream stays joinable after its own time: give the longest to the stream that comes first.
    It is a duration, a `CountWindow`, or "unbounded". `lateness` is how far out of order its rows may come.
    Durations are stored as canonical text ("120 minutes" becomes "2 hours").

    `freshness` is how old its rows may be in results, where there is an `Overload`. `unique`, `arrival`
    ("clustered", "ordered", "descending") and `punctuation` (a boolean column, or a `RangePunctuation`) are
    promises (see `promises`); they never change the result.
    """

    name: str
    key: str | Sequence[str] | None = None
    time: str | None = dataclasses.field(default=None, kw_only=True)
    window: Window | None = dataclasses.field(default=None, kw_only=True)
    lateness: Duration | None = dataclasses.field(default=None, kw_only=True)
    freshness: Duration | None = dataclasses.field(default=None, kw_only=True)
    unique: bool = dataclasses.field(default=False, kw_only=True)
    arrival: Arrival = dataclasses.field(default="any", kw_only=True)
    punctuation: Punctuation | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            wanted = "letters, digits and underscores, starting with a letter or underscore"
            raise InvalidValue.must("name", wanted, self.name, owner="Stream")
        with about(stream=self.name):
            self._normalise()

    def _normalise(self) -> None:
        freeze(self, key=_columns(self.key, self.name))
        with about("window"):
            freeze(self, window=windows.normalise(self.window, self.name))
        for option in ("lateness", "freshness"):
            freeze(self, **{option: _duration(getattr(self, option), self.name, option)})
        with about("punctuation"):
            freeze(self, punctuation=read_punctuation(self.punctuation, self.name))
        if self.time is not None:
            _column(self.time, "time", self.name)
        if not isinstance(self.unique, bool):
            raise InvalidType.must("unique", "True or False", self.unique, stream=self.name)
        require_choice(f"stream {self.name!r}", "arrival", self.arrival, get_args(Arrival))
        if self.flag is not None and self.flag in (*self.key_columns, self.time):
            raise InvalidValue.of(
                self.name,
                "punctuation",
                f"punctuation column {self.flag!r} is its key or time; name a boolean column",
            )

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
        """The time window in microseconds; None if unbounded or counted in rows."""
        if isinstance(self.window, CountWindow) or self.window in (None, windows.UNBOUNDED):
            return None
        return to_us(self.window)

    @property
    def count_window(self) -> CountWindow | None:
        """The count window, if the window is one."""
        return self.window if isinstance(self.window, CountWindow) else None

    @property
    def freshness_us(self) -> int | None:
        """How old a row may be in results, in microseconds; None: of any age."""
        return to_us(self.freshness) if self.freshness is not None else None

    @property
    def lateness_us(self) -> int:
        """How far out of order rows may come, in microseconds; 0 if not stated."""
        return to_us(self.lateness) if self.lateness is not None else 0


def _columns(key: object, stream: str) -> tuple[str, ...] | None:
    if key is None:
        return None
    names = (key,) if isinstance(key, str) else key
    if not isinstance(names, Sequence) or not names:
        raise InvalidType.must("key", "a column name or several", key, stream=stream)
    for name in names:
        _column(name, "key", stream)
    if len(set(names)) < len(names):
        raise InvalidValue.of(stream, "key", f"key names a column twice: {', '.join(map(repr, names))}")
    return tuple(names)


def _column(name: object, option: str, stream: str) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidType.must(option, "a column name", name, stream=stream)


def _duration(value: Duration | None, stream: str, option: str) -> str | None:
    if value is None:
        return None
    with about(option):
        us = to_us(value, owner=f"stream {stream!r}: {option}")
        if us < 0:
            raise InvalidValue(f"stream {stream!r}: {option} must not be negative; got {value!r}")
    return to_text(us)
