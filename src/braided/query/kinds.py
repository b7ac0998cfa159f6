"""What the options of a query may be: readers that value classes annotate their type hints with.

A reader takes the owner's name, the option's and what was given; it returns what is stored, or raises.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from braided.query.durations import Duration, to_text, to_us
from braided.query.errors import InvalidType, InvalidValue
from braided.query.values import Reader

MOST_INT = (1 << 63) - 1
LEAST_BYTES = 1 << 12
MOST_BYTES = 1 << 60
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


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


def size(owner: str, option: str, limit: object) -> int:
    """Return bytes, given as a number or as a text such as "512 MB"."""
    if isinstance(limit, bool) or not isinstance(limit, int | str):
        raise InvalidType.must(option, "bytes or a text such as '512 MB'", limit, owner=owner)
    if isinstance(limit, str):
        read = _SIZE.fullmatch(limit)
        if read is None or read[2].lower() not in _UNITS:
            raise InvalidValue.must(option, "a size such as '512 MB' or '1 GiB'", limit, owner=owner)
        limit_bytes = int(min(float(read[1]) * _UNITS[read[2].lower()], 2.0 * MOST_BYTES))
    else:
        limit_bytes = limit
    if not LEAST_BYTES <= limit_bytes <= MOST_BYTES:
        bound = f"at most {MOST_BYTES:,}" if limit_bytes > MOST_BYTES else f"at least {LEAST_BYTES:,}"
        raise InvalidValue.must(option, f"{bound} bytes", limit, owner=owner)
    return limit_bytes


def by_name(reader: Reader, name: str, value: str) -> Reader:
    """Read what a mapping has for each `name`, as sorted pairs; lists of pairs are what `to_dict` makes."""

    def read(owner: str, option: str, given: Any) -> tuple[tuple[str, Any], ...]:
        try:
            pairs = dict(given)
        except (TypeError, ValueError):
            raise InvalidType.must(option, f"{value} by {name}", given, owner=owner) from None
        for key in pairs:
            text(name, empty=False)(owner, option, key)
        return tuple(sorted((key, reader(owner, option, pairs[key])) for key in pairs))

    return read
