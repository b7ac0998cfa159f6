"""Durations as people write them, stored as one canonical text and read as whole microseconds.

>>> to_us("1 hour 30 minutes")
5400000000
>>> to_text(5_400_000_000)
'90 minutes'
"""

from __future__ import annotations

import difflib
import functools
import re
from datetime import timedelta
from fractions import Fraction
from typing import TypeAlias

from braided.query.errors import InvalidType, InvalidValue, shown

Duration: TypeAlias = str | timedelta

_UNIT_US = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_LONG = [word for unit in _UNIT_US for word in (unit, f"{unit}s")]
_SHORT = ("w", "d", "h hr hrs", "m min mins", "s sec secs", "ms", "us µs")  # in the order of _UNIT_US
_WORD_US = {word: _UNIT_US[word.removesuffix("s")] for word in _LONG} | {
    word: us for words, us in zip(_SHORT, _UNIT_US.values(), strict=True) for word in words.split()
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*,?")

MAX_US = 1 << 60  # 36,000 years: the kernels add two such values to a time without overflow


def to_us(duration: Duration, *, owner: str = "duration") -> int:
    """Return the duration in microseconds; a text may start with '-'."""
    if isinstance(duration, timedelta):
        us = duration // timedelta(microseconds=1)
    elif isinstance(duration, str):
        us = _parse(duration, owner)
    else:
        wanted = f"{owner} must be a duration such as '10 minutes' or a timedelta"
        given = f"{shown(duration)} ({type(duration).__name__})"
        raise InvalidType(f"{wanted}; got {given}", value=duration)
    if abs(us) > MAX_US:
        raise InvalidValue(f"{owner} must be shorter than 36,000 years; got {duration!r}", value=duration)
    return us


def to_text(us: int) -> str:
    """Return the canonical text: a whole number of the largest unit that fits."""
    if us == 0:
        return "0 seconds"
    unit, unit_us = next((u, size) for u, size in _UNIT_US.items() if u != "week" and us % size == 0)
    return f"{us // unit_us} {unit}{'' if abs(us) == unit_us else 's'}"


@functools.lru_cache(maxsize=1024)
def _parse(text: str, owner: str) -> int:
    body = text.strip().lower()
    sign, body = (-1 if body.startswith("-") else 1), body.removeprefix("-")
    total, at = Fraction(0), 0
    while at < len(body) <= 100 and (part := _PART.match(body, at)) and part.group(2) in _WORD_US:
        total += Fraction(part.group(1)) * _WORD_US[part.group(2)]
        at = part.end()
    if at < len(body) or not body:
        wanted = f"{owner} must be a duration such as '10 minutes', '2 hours' or '100 ms'"
        hint = _meant(body, sign) if len(body) <= 100 else ""
        raise InvalidValue(f"{wanted}; got {shown(text)}{hint}", value=text)
    return sign * round(total)


def _meant(body: str, sign: int) -> str:
    """Suggest the duration that may have been meant, where a unit is mistyped or missing."""
    if re.fullmatch(r"\d+(\.\d+)?", body):
        return f"; it has no unit: '{body} seconds'?"
    fixed = re.sub(r"[^\W\d]+", lambda word: _closest(word.group()), body)
    units = re.findall(r"[^\W\d]+", fixed)
    if not units or not _WORD_US.keys() >= set(units) or _PART.sub("", fixed):
        return ""
    return f"; did you mean {'-' * (sign < 0) + fixed!r}?"


def _closest(word: str) -> str:
    return next(iter(difflib.get_close_matches(word, _WORD_US, n=1)), word)
