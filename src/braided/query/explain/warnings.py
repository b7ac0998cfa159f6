"""What is allowed and rarely intended: each sentence names the stream, the value and the remedy.

Values that cannot be meant at all are refused when a query is made; these are for `explain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from braided.query.durations import to_text

if TYPE_CHECKING:
    from braided.query.join_query import JoinQuery
    from braided.query.stream import Stream

_PROMISES = "punctuation, unique or arrival"


def warnings(query: JoinQuery) -> list[str]:
    """Return sentences about a query, the most dangerous first."""
    return [*_keyless(query), *_staying(query), *chain(*(_stream(query, s) for s in query.streams))]


def _keyless(query: JoinQuery) -> Iterator[str]:
    if query.keyless:
        pairs = f"every pair of rows of {_listed(map(repr, query.names))} inside the bounds"
        remedy = "give the streams a key, or equal columns with on, if they have any"
        yield f"without a key {pairs} is compared, in one bucket; {remedy}"


def _staying(query: JoinQuery) -> Iterator[str]:
    """Yield a warning for streams whose rows only promises let go, if anything does."""
    if query.overload is not None and query.overload.cuts_windows:
        return
    staying = [s for s in query.streams if query.stay_us(s) is None and not s.count_window]
    if staying and not query.promises:
        names = _listed(f"{stream.name!r} (window={stream.window!r})" for stream in staying)
        forever = f"rows of {names} stay forever, so the state grows as long as the join runs"
        remedy = f"or let the streams promise when a key ends ({_PROMISES})"
        yield f"{forever}; give a window or a within bound to each, {remedy}"
    for stream in staying if query.promises else ():
        if query.on is not None and not _closed_by_others(query, stream):
            columns = _listed(f"{stream.name}.{c}" for c in query.graph.columns(stream.name))
            why = f"because no other stream promises anything about {columns} alone"
            remedy = f"give {stream.name!r} a window, or others a promise about it ({_PROMISES})"
            yield f"stream {stream.name!r} (window={stream.window!r}): rows stay forever, {why}; {remedy}"
            continue
        silent = _listed(repr(s.name) for s in query.streams if s is not stream and not s.promises)
        if silent:
            named = f"stream {stream.name!r} (window={stream.window!r})"
            why = f"because {silent} never says that a key ends"
            remedy = f"give {stream.name!r} a window, or {silent} a promise ({_PROMISES})"
            yield f"{named}: rows with partners stay forever, {why}; {remedy}"


def _closed_by_others(query: JoinQuery, stream: Stream) -> bool:
    """Return whether another stream's promises are about attributes that rows of a stream have."""
    promised = (query.promised(other) for other in query.streams if other is not stream)
    return any(key and all(query.graph.has(a, stream.name) for a in key) for key in promised)


def _stream(query: JoinQuery, stream: Stream) -> Iterator[str]:
    stay_us, fresh_us, window_us = query.stay_us(stream), stream.freshness_us, stream.window_us
    if stay_us is None:
        return
    stay, named, window = to_text(stay_us), f"stream {stream.name!r}", f"window={stream.window!r}"
    if fresh_us is not None and fresh_us < stay_us:
        why = f"shorter than the {stay} that within lets its rows wait, so results with older rows are lost"
        yield f"{named}: freshness={stream.freshness!r} is {why}; raise it to {stay!r}, or tighten within"
    if window_us and stay_us < window_us and (stay_us or not _shortest(query, stream)):
        why = f"longer than any pair of rows can use, because within lets its rows wait for {stay} only"
        yield f"{named}: {window} is {why}; shorten it to {stay!r}, or loosen within"
    if window_us and stream.lateness_us > window_us:
        why = "rows of all streams are kept for the watermark more than for their partners"
        longer = f"lateness={stream.lateness!r} is longer than {window}"
        yield f"{named}: {longer}, so {why}; check which of the two is wrong"


def _shortest(query: JoinQuery, stream: Stream) -> bool:
    """Return whether every other stream has a longer window: this one is meant to come last."""
    others = (other.window_us for other in query.streams if other is not stream)
    return all(us is None or us > (stream.window_us or 0) for us in others)


def _listed(words: Iterable[str]) -> str:
    """Join words with commas and a final "and"."""
    listed = list(words)
    return " and ".join(filter(None, (", ".join(listed[:-1]), *listed[-1:])))
