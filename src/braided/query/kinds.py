"""What the options of a query may be: readers that value classes annotate their type hints with.

A reader takes the owner's name, the option's and what was given; it returns what is stored, or raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from braided.query.durations import Duration, to_text, to_us
from braided.query.errors import InvalidType, InvalidValue
from braided.query.values import Reader

MOST_INT = (1 << 63) - 1


def whole(least: int, most: int, wanted: str) -> Reader:
    """Read a whole number in a range that `wanted` tells."""
    return _number(int, "a whole number", lambda value: least <= value <= most, wanted)


def above_zero(most: float = math.inf) -> Reader:
    """Read a number above zero and at most `most`."""
    upto = "" if math.isinf(most) else f" and at most {most:g}"
    return _number(
        int | float, "a number", lambda value: 0 < value <= most and value < math.inf, f"above 0{upto}"
    )


def _number(kind: Any, called: str, fits: Callable[[Any], bool], wanted: str) -> Reader:
    def read(owner: str, option: str, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, kind):
            raise InvalidType.must(option, called, value, owner=owner)
        if not fits(value):
            raise InvalidValue.must(option, wanted, value, owner=owner)
        return value

    return read


def text(wanted: str = "a text", *, empty: bool = True) -> Reader:
    """Read a text; `wanted` says which."""

    def read(owner: str, option: str, value: Any) -> Any:
        if not isinstance(value, str) or not (value or empty):
            raise InvalidType.must(option, wanted, value, owner=owner)
        return value

    return read


column = text("a column name", empty=False)


def names(wanted: str, what: str, *, least: int = 0) -> Reader:
    """Read several names of a kind (`what`), each once, as a tuple."""

    def read(owner: str, option: str, value: Any) -> tuple[str, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence) or len(value) < least:
            raise InvalidType.must(option, wanted, value, owner=owner)
        for name in value:
            text(wanted, empty=False)(owner, option, name)
        if len(set(value)) < len(value):
            twice = ", ".join(map(repr, value))
            raise InvalidValue(f"{owner}: {option} names a {what} twice: {twice}", option=option)
        return tuple(value)

    return read


def duration(owner: str, option: str, value: Duration, *, zero: bool = True) -> str:
    """Return the canonical text of a duration; of none where `zero` is not allowed."""
    us = to_us(value, owner=f"{owner}: {option}")
    if us < 0 or (us == 0 and not zero):
        wanted = "not be negative" if zero else "be above zero"
        raise InvalidValue(f"{owner}: {option} must {wanted}; got {value!r}", value=value)
    return to_text(us)
