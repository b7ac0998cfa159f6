"""What the parts of a query must be to each other, once each is right by itself.

A check is a function of the query and a stream that yields sentences; the table it is in says which option
it is about. The first sentence raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from braided.query.bounds import INFINITE_US
from braided.query.durations import to_text
from braided.query.errors import InvalidValue, about, require_stream
from braided.query.plan_tree import operators

if TYPE_CHECKING:
    from braided.query.join_query import JoinQuery
    from braided.query.stream import Stream

Sentences: TypeAlias = Callable[["JoinQuery", "Stream"], Iterator[str]]


def check_keys(query: JoinQuery) -> None:
    """Raise unless the streams' keys say what joins, or `where` does."""
    _check_streams(query, {"key": _key})


def check(query: JoinQuery) -> None:
    """Raise if options do not go together."""
    _check_streams(query, _OF_STREAMS)
    _check_tuning(query)
    for (option, *position), sentences in _OF_QUERY.items():
        for stream in query.streams:
            with about(option, *position, stream=stream.name):
                for sentence in sentences(query, stream):
                    raise InvalidValue(sentence)
    with about("where"):
        for name, column in sorted(query.condition.columns() if query.condition is not None else ()):
            require_stream(name, query.names, f"where uses {name}.{column}")


def _check_streams(query: JoinQuery, table: Mapping[str, Sentences]) -> None:
    for option, sentences in table.items():
        for stream in query.streams:
            for sentence in sentences(query, stream):
                raise InvalidValue.of(stream.name, option, sentence)


def _key(query: JoinQuery, stream: Stream) -> Iterator[str]:
    first = query.streams[0]
    if query.on is not None:
        return
    if query.keyless:
        if query.where is None:
            yield "key is missing; name its key column (a join without any key needs where)"
    elif stream.key is None:
        yield "key is missing; name its key column, or leave out all keys"
    elif len(stream.key) != len(first.key_columns):
        yield (
            f"it has {_columns(stream)}, stream {first.name!r} has {_columns(first)}; all streams need the "
            "same number of key columns"
        )


def _counted_key(query: JoinQuery, stream: Stream) -> Iterator[str]:
    joined = query.graph.columns(stream.name)
    if query.on is not None and stream.counts_keys and (stream.key or joined) != joined:
        yield (
            f"its window counts rows by {stream.key!r}, but `on` joins it by {joined!r}; leave key out to "
            "count by these"
        )


def _time(query: JoinQuery, stream: Stream) -> Iterator[str]:
    windowed = next((s for s in query.streams if s.window_us is not None or s.count_window), None)
    if stream.time is None and (windowed or query.within):
        why = f"stream {windowed.name!r} has a window" if windowed else "within bounds times"
        yield f"time is missing; {why}, so every stream needs a time column"


def _window(query: JoinQuery, stream: Stream) -> Iterator[str]:
    if query.keyless and stream.counts_keys:
        yield "counting rows by key needs a key; use per='stream'"
    if stream.count_window is not None and not query.flat:
        yield (
            "a window that counts rows needs all streams in one operator (plan='mjoin', one key); this plan "
            f"has {len(operators(query.tree))}; use a time window"
        )
    if stream.count_window is not None and query.memory is not None:
        yield "memory does not go with a window that counts rows yet; use a time window"


def _freshness(query: JoinQuery, stream: Stream) -> Iterator[str]:
    given = f"freshness={stream.freshness!r}"
    if stream.freshness_us is None:
        return
    if query.overload is None:
        yield f"{given} only goes with overload; leave it out"
    if stream.time is None:
        yield f"{given} needs a time column; give it time=..."
    if stream.freshness_us < (stream.window_us or 0):
        yield (
            f"{given} must be at least the window, {to_text(stream.window_us or 0)}; raise it, or shorten "
            "the window"
        )


def _punctuation(_: JoinQuery, stream: Stream) -> Iterator[str]:
    if stream.upto is not None and len(stream.key_columns) > 1:
        yield f"a RangePunctuation needs a key of one column; it has {_columns(stream)}"


def _columns(stream: Stream) -> str:
    names = stream.key_columns
    return f"{len(names)} key column{'s' if len(names) > 1 else ''} ({', '.join(names)})"


def _check_tuning(query: JoinQuery) -> None:
    tuning, names = query.tuning, query.names
    indexes: Any = () if isinstance(tuning.index, str) else tuning.index
    for name, _ in indexes:
        with about("tuning", "index", name):
            require_stream(name, names, "Tuning: index")
    with about("tuning", "selectivities"):
        for pair, _ in tuning.selectivities:
            for stream in pair:
                require_stream(stream, names, "Tuning: selectivities")


def _selectivities(query: JoinQuery, stream: Stream) -> Iterator[str]:
    alone = {names[0] for names, _ in query.tuning.selectivities if len(names) == 1}
    if alone and stream.name not in alone:
        yield f"Tuning: selectivities gives some streams' but not that of {stream.name!r}; give all or none"


def _index(query: JoinQuery, stream: Stream) -> Iterator[str]:
    index = query.tuning.index_of(stream.name)
    cannot = f"Tuning: index={index!r} cannot serve stream {stream.name!r}"
    if index == "hash" and query.keyless:
        yield f"{cannot}, which has no key; use 'auto'"
    if index == "scan" and stream.counts_keys:
        yield f"{cannot}, whose window counts rows by key; use 'auto' or 'hash'"


def _target_batch(query: JoinQuery, _: Stream) -> Iterator[str]:
    if query.overload and query.overload.target_batch is not None and query.overload.drops_input:
        yield (
            "Overload: target_batch rations probes (shed='probes'); with shed='input' give probes, how many "
            "rows a batch are let in"
        )


def _overload(query: JoinQuery, stream: Stream) -> Iterator[str]:
    overload = query.overload
    if overload and stream.count_window and (overload.drops_input or overload.state_rows is not None):
        yield (
            f"Overload: stream {stream.name!r} has a window that counts rows; rows that are dropped would "
            "keep others inside it, so results would be wrong; use a time window"
        )


def _state_rows(query: JoinQuery, stream: Stream) -> Iterator[str]:
    if query.overload and query.overload.state_rows is not None and stream.time is None:
        yield f"Overload: state_rows needs a time column in stream {stream.name!r}; give it time=..."


def _allocation(query: JoinQuery, stream: Stream) -> Iterator[str]:
    overload = query.overload
    if overload is None or overload.state_rows is not None or not overload.allocation.startswith("window"):
        return
    if query.bounds.retention_us(query.names.index(stream.name)) >= INFINITE_US:
        yield (
            f"Overload: allocation={overload.allocation!r} needs a window for stream {stream.name!r}; give "
            "it one, or use 'equal'"
        )


def _memory(query: JoinQuery, _: Stream) -> Iterator[str]:
    if query.memory and query.overload:
        yield (
            "memory keeps results exact and overload does not; give one of them (overload's state_rows "
            "bounds memory, too)"
        )
    if query.memory and query.keyless:
        yield "memory needs a key: rows go to disk by slices of keys; give the streams one"


def _emit_punctuations(query: JoinQuery, _: Stream) -> Iterator[str]:
    if query.emit_punctuations and not query.promises:
        yield (
            "emit_punctuations=True needs a stream that is unique, punctuated, clustered or ordered, one key "
            "that all streams have and no window that counts rows: nothing else tells when a key is complete"
        )


_OF_STREAMS: dict[str, Sentences] = {
    "time": _time,
    "window": _window,
    "key": _counted_key,
    "freshness": _freshness,
    "punctuation": _punctuation,
}
_OF_QUERY: dict[tuple[str, ...], Sentences] = {
    ("tuning", "index"): _index,
    ("tuning", "selectivities"): _selectivities,
    ("overload", "target_batch"): _target_batch,
    ("overload",): _overload,
    ("overload", "state_rows"): _state_rows,
    ("overload", "allocation"): _allocation,
    ("memory",): _memory,
    ("emit_punctuations",): _emit_punctuations,
}
