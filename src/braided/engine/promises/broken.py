"""The sentence for a row that breaks a promise."""

from __future__ import annotations

from braided.engine.intake import Arrival
from braided.engine.promises.closed_keys import ClosedKeys
from braided.engine.sides.keys import KeyFormat
from braided.query.errors import BrokenPromise
from braided.query.stream import Stream


def broken_promise(
    stream: Stream, closed: ClosedKeys, keys: KeyFormat, arrival: Arrival, row: int
) -> BrokenPromise:
    """Say which promise of a stream a row of an arrival breaks."""
    values = [arrival.rows.batch.column(column)[row].as_py() for column in stream.key_columns]
    key = repr(values[0]) if len(values) == 1 else repr(tuple(values))
    rank = int(keys.ranks(arrival.rows.hashes[row : row + 1])[0]) if keys.ordered else None
    return BrokenPromise(
        f"stream {stream.name!r}: a row with key {key} came, but {_promise(stream, closed, rank)}; mend "
        "the source or leave the promise out, or count such rows and leave them out with "
        "bd.Tuning(on_violation='count')"
    )


def _promise(stream: Stream, closed: ClosedKeys, rank: int | None) -> str:
    if rank is not None:
        if rank <= closed.upto and stream.arrival == "ordered":
            return _order(stream, "below")
        if rank <= closed.upto and stream.upto is not None:
            return f"a punctuation had closed all keys up to a larger {stream.upto}"
        if rank >= closed.since and stream.arrival == "descending":
            return _order(stream, "above")
    if stream.unique:
        return "unique=True says that no key comes twice, and this one did"
    if stream.punctuation is not None and stream.arrival == "any":
        return "a punctuation had said that no more of them would come"
    if stream.punctuation is not None:
        return "a punctuation or the end of its cluster had said that no more of them would come"
    return f"arrival={stream.arrival!r} says that rows of a key come together, and its rows were over"


def _order(stream: Stream, side: str) -> str:
    return f"arrival={stream.arrival!r} says that no key comes {side} an earlier batch's"
