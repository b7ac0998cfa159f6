"""What a stream promises of the rows to come, so that others can be forgotten early.

Every promise closes keys: a stream is closed for a key once no row of it is to come. A
punctuation closes its key, or all keys up to a value; a stream whose keys are unique is closed for a key by
its first row; one that comes clustered or ordered, when the cluster or the order has moved on. A promise
never changes the result of streams that keep it; a row that breaks it is an error, or is counted and left
out (`Tuning.on_violation`).
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from braided.query.kinds import column, text
from braided.query.values import Value

Arrival = Literal["any", "clustered", "ordered", "descending"]


class RangePunctuation(Value):
    """Rows in which column `flag` is true are not data: they close all keys up to the value of column `upto`.

    The value itself is closed, too. The key must be one column of numbers, dates or times.
    """

    flag: Annotated[str, column]
    upto: Annotated[str, column]


_FLAG = text("a boolean column's name or a bd.RangePunctuation", empty=False)
Punctuation: TypeAlias = Annotated[str, _FLAG] | RangePunctuation
