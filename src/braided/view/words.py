"""Numbers and names as people read them.

>>> count(1_234), count(2_345_678), size(3_400_000), span(0.25), span(5_400)
('1,234', '2.35 M', '3.4 MB', '250 ms', '1.5 h')
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from braided.policies.numbers import Unit


def count(number: float) -> str:
    """A number of rows, short from a million on."""
    return _scaled(number, {"G": 1e9, "M": 1e6}) or f"{number:,.0f}"


def size(number: float) -> str:
    """Bytes, in decimal units."""
    return _scaled(number, {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3}) or f"{number:.0f} B"


def span(seconds: float) -> str:
    """How long something takes, in its largest unit."""
    below = f"{seconds * 1e3:.0f} ms" if seconds else "0 s"
    return _scaled(seconds, {"d": 86_400, "h": 3_600, "min": 60, "s": 1}) or below


def _scaled(number: float, units: Mapping[str, float]) -> str:
    """A number in the first unit that it reaches."""
    for name, unit in units.items():
        if number >= unit:
            return f"{number / unit:.3g} {name}" if number < 1000 * unit else f"{number / unit:,.0f} {name}"
    return ""


def formatted(value: float, unit: Unit) -> str:
    """A value in its unit; a few rows with what is left of one (at an axis, or as a rate)."""
    if unit == "share":
        return f"{100 * value:.3g} %"
    if unit == "rows":
        return f"{value:.3g}" if value < 10 else count(value)
    return size(value) if unit == "bytes" else span(value / 1e6 if unit == "us" else value)


def moment(seconds: float) -> str:
    """A point in time (seconds since 1970), in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # event times may be anything
        return f"{seconds:,.0f} s"


def plain(text: str) -> str:
    r"""A text without anything that a terminal would obey.

    >>> plain("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
