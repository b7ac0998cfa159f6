"""What a query must say to run on streams that never end, on Spark."""

from __future__ import annotations

from collections.abc import Iterator

from braided.query.errors import InvalidValue
from braided.query.join_query import JoinQuery
from braided.query.windows import UNBOUNDED


def check_streaming(query: JoinQuery) -> None:
    """Raise unless every stream says how long its rows stay and how late they may come."""
    for wrong in streaming_problems(query):
        raise wrong


def streaming_problems(query: JoinQuery) -> Iterator[InvalidValue]:
    """What each stream does not say; at most one for a stream."""
    for stream in query.streams:
        if stream.window is None and (stream.punctuation is None or not query.promises):
            yield InvalidValue.of(
                stream.name,
                "window",
                "a streaming join needs a window, or its state grows forever; give one, or write "
                f"window={UNBOUNDED!r} if that is meant",
            )
        elif stream.lateness is None and query.windowed:
            yield InvalidValue.of(
                stream.name,
                "lateness",
                "a streaming join needs lateness, how far out of order rows may come; rows later than that "
                "are set aside; for example lateness='1 minute'",
            )
        elif stream.count_window is not None and stream.count_window.per == "stream":
            yield InvalidValue.of(
                stream.name,
                "window",
                "a count window per stream needs all rows in one place and is not available on Spark; use "
                "per='key'",
            )
