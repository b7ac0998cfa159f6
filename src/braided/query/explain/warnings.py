"""What is allowed and rarely intended: each sentence names the stream, the value and the remedy.

Values that cannot be meant at all are refused when a query is made; these are for `explain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from braided.query.bounds import INFINITE_US
from braided.query.durations import to_text

if TYPE_CHECKING:
    from braided.query.join_query import JoinQuery
    from braided.query.stream import Stream

_PROMISES = "punctuation, unique or arrival"


def warnings(query: JoinQuery) -> list[str]:
    """Sentences about a query, the most dangerous first."""
    return [
        *_keyless(query),
        *_staying(query),
        *(sentence for i, stream in enumerate(query.streams) for sentence in _stream(query, i, stream)),
    ]


def unlimited(query: JoinQuery, i: int) -> bool:
    """Whether neither time nor a count ever lets a row of stream i go."""
    return query.bounds.retention_us(i) >= INFINITE_US and query.streams[i].count_window is None


def _keyless(query: JoinQuery) -> Iterator[str]:
    if query.keyless:
        yield (
            f"without a key every pair of rows of {_listed(map(repr, query.names))} inside the bounds is "
            "compared, in one bucket; give the streams a key, or equal columns with on, if they have any"
        )


def _staying(query: JoinQuery) -> Iterator[str]:
    """Streams whose rows only promises let go, if anything does."""
    if query.overload is not None and query.overload.state_rows is not None:
        return
    staying = [stream for i, stream in enumerate(query.streams) if unlimited(query, i)]
    if staying and not query.promises:
        names = _listed(f"{stream.name!r} (window={stream.window!r})" for stream in staying)
        yield (
            f"rows of {names} stay forever, so the state grows as long as the join runs; give a window or a "
            f"within bound to each, or let the streams promise when a key ends ({_PROMISES})"
        )
    for stream in staying if query.promises else ():
        silent = _listed(repr(s.name) for s in query.streams if s is not stream and not s.promises)
        if silent:
            yield (
                f"stream {stream.name!r} (window={stream.window!r}): rows with partners stay forever, "
                f"because {silent} never says that a key ends; give {stream.name!r} a window, or {silent} a "
                f"promise ({_PROMISES})"
            )


def _stream(query: JoinQuery, i: int, stream: Stream) -> Iterator[str]:
    retention_us, named = query.bounds.retention_us(i), f"stream {stream.name!r}"
    fresh_us, window_us = stream.freshness_us, stream.window_us
    stay = to_text(max(0, retention_us))
    if fresh_us is not None and fresh_us < retention_us < INFINITE_US:
        yield (
            f"{named}: freshness={stream.freshness!r} is shorter than the {stay} that within lets its rows "
            f"wait, so results with older rows are lost; raise it to {stay!r}, or tighten within"
        )
    if window_us and retention_us < window_us and not (retention_us <= 0 and _shortest(query, i)):
        yield (
            f"{named}: window={stream.window!r} is longer than any pair of rows can use, because within lets "
            f"its rows wait for {stay} only; shorten it to {stay!r}, or loosen within"
        )
    if window_us and stream.lateness_us > window_us:
        yield (
            f"{named}: lateness={stream.lateness!r} is longer than window={stream.window!r}, so rows of all "
            "streams are kept for the watermark more than for their partners; check which of the two is wrong"
        )


def _shortest(query: JoinQuery, i: int) -> bool:
    """Whether no other stream has so short a window: a stream that comes last, and is meant to."""
    windows = [stream.window_us for stream in query.streams]
    return all(w is None or w > (windows[i] or 0) for n, w in enumerate(windows) if n != i)


def _listed(words: Iterable[str]) -> str:
    """A list in words."""
    listed = list(words)
    return " and ".join(filter(None, (", ".join(listed[:-1]), *listed[-1:])))
