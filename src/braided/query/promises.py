"""What a stream promises of the rows to come, so that others can be forgotten early.

Every promise is a source of *closures*: a stream is closed for a key once no row of it is to come. A
punctuation closes its key, or all keys up to a value; a stream whose keys are unique is closed for a key by
its first row; one that comes clustered or ordered, when the cluster or the order has moved on. A promise
never changes the result of streams that keep it; a row that breaks it is an error, or is counted and left
out (`Tuning.on_violation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from braided.query.errors import InvalidType, shown
from braided.query.values import PlainDict, value_class

Arrival = Literal["any", "clustered", "ordered", "descending"]


@value_class
class RangePunctuation(PlainDict):
    """Rows in which column `flag` is true are not data: they close all keys up to the value of column `upto`.

    The value itself is closed, too. The key must be one column of numbers, dates or times.
    """

    flag: str
    upto: str

    def __post_init__(self) -> None:
        for option in ("flag", "upto"):
            value = getattr(self, option)
            if not isinstance(value, str) or not value:
                raise InvalidType.must(option, "a column name", value, owner="RangePunctuation")


Punctuation = str | RangePunctuation


def read_punctuation(given: object, stream: str) -> Punctuation | None:
    """A column, a range punctuation, or None."""
    if given is None or isinstance(given, RangePunctuation):
        return given
    if isinstance(given, Mapping):
        return RangePunctuation.from_dict(given)
    if not isinstance(given, str) or not given:
        wanted = "a boolean column's name or a bd.RangePunctuation"
        raise InvalidType(f"stream {stream!r}: punctuation must be {wanted}; got {shown(given)}", value=given)
    return given
