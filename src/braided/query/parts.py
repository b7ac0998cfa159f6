"""The parts of a query as a user or a file gives them: streams, `within` and `select`, in one stored form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from braided.query.bounds import Pair, Within
from braided.query.durations import to_text, to_us
from braided.query.errors import InvalidType, InvalidValue, about, require_stream, shown
from braided.query.stream import Stream

MAX_STREAMS = 16
RESULT_TIME = "result_time"
PUNCTUATION = "punctuation"


def read_streams(given: Any) -> tuple[Stream, ...]:
    """Read two to sixteen streams with different names; a mapping has their options by name."""
    if isinstance(given, Stream | str) or not isinstance(given, Iterable):
        raise InvalidType.must("streams", "a list of bd.Stream", given, owner="JoinQuery")
    if isinstance(given, Mapping):
        streams = tuple(_named(str(name), options) for name, options in given.items())
    else:
        streams = tuple(_stream(position, stream) for position, stream in enumerate(given))
    if not 2 <= len(streams) <= MAX_STREAMS:
        alone = f" ({streams[0].name!r})" if len(streams) == 1 else ""
        needs = f"JoinQuery: a join needs 2 to {MAX_STREAMS} streams"
        raise InvalidValue(f"{needs}; got {len(streams)}{alone}", option="streams")
    names = [stream.name for stream in streams]
    for i, name in enumerate(names):
        if name in names[:i]:
            twice = f"stream {name!r} is given twice; stream names must differ"
            raise InvalidValue(twice, option="streams", position=(i,))
    return streams


def _stream(position: int, given: Any) -> Stream:
    if isinstance(given, Mapping):
        with about("streams", position):
            return Stream.from_dict(given)
    if not isinstance(given, Stream):
        raise InvalidType.must("streams", "bd.Stream values", given, owner="JoinQuery")
    return given


def _named(name: str, options: Any) -> Stream:
    with about(stream=name):
        if options is not None and not isinstance(options, Mapping):
            raise InvalidType(f"stream {name!r} must be a mapping of options; got {shown(options)}")
        other = (options or {}).get("name", name)
        if other != name:
            raise InvalidValue.of(name, "name", f"name is given twice, the other is {other!r}; leave it out")
        return Stream.from_dict({"name": name, **(options or {})})


def read_within(within: Any, names: Sequence[str]) -> Within | None:
    """Read bounds between pairs of streams, each pair once and in the streams' order.

    In a file a pair may be a text such as "orders, payments".
    """
    tightest: dict[Pair, tuple[int, int]] = {}
    for position, pair, bound in _within_items(within or {}):
        with about("within", position):
            first, second = _within_pair(pair, names)
            low, high = _within_bound(bound, f"within ({first!r}, {second!r})")
        if names.index(first) > names.index(second):
            first, second, low, high = second, first, -high, -low
        old = tightest.get((first, second), (low, high))
        tightest[first, second] = (max(low, old[0]), min(high, old[1]))
    return tuple((pair, (to_text(a), to_text(b))) for pair, (a, b) in sorted(tightest.items())) or None


def _within_items(within: Any) -> list[tuple[Any, Any, Any]]:
    """Return for each bound where it is, its pair of streams, and the bound itself."""
    if isinstance(within, Mapping):
        return [(pair, pair, bound) for pair, bound in within.items()]
    try:
        return [
            (i, tuple(w["streams"]), (w["from"], w["to"])) if isinstance(w, Mapping) else (i, w[0], w[1])
            for i, w in enumerate(within)
        ]
    except (TypeError, KeyError, IndexError):
        wanted = "within must map pairs of streams to bounds, such as {('orders', 'payments'): '1 hour'}"
        raise InvalidType(f"{wanted}; got {shown(within)}") from None


def _within_pair(pair: Any, names: Sequence[str]) -> Pair:
    if isinstance(pair, str):
        pair = [name.strip() for name in pair.split(",")]
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidType(f"within: each entry bounds a pair of streams; got {shown(pair)}")
    for name in pair:
        require_stream(name, names, "within")
    if pair[0] == pair[1]:
        raise InvalidValue(f"within: a pair must name two different streams; got {pair[0]!r} twice")
    return pair[0], pair[1]


def _within_bound(bound: Any, owner: str) -> tuple[int, int]:
    pair = isinstance(bound, tuple | list)
    if pair and len(bound) != 2:
        raise InvalidType(f"{owner} must be a duration or a (from, to) pair; got {shown(bound)}")
    low, high = (to_us(b, owner=owner) for b in (bound if pair else (bound, bound)))
    low = low if pair else -high
    if low > high:
        raise InvalidValue(f"{owner}: from must not be above to; got {bound!r}")
    return low, high


def read_select(select: Any, names: Sequence[str]) -> tuple[tuple[str, str], ...] | None:
    """Read output names and the columns they stand for."""
    if select is None:
        return None
    try:
        pairs = tuple(dict(select).items())
    except (TypeError, ValueError):
        pairs = ()
    if not pairs:
        wanted = "select must map output names to stream.column, such as {'order_id': 'orders.order_id'}"
        raise InvalidType(f"{wanted}; got {shown(select)}")
    for name, source in pairs:
        with about("select", name):
            if not isinstance(name, str) or not isinstance(source, str) or "." not in source:
                wrong = f"select {shown(name)} must be 'stream.column'; got {shown(source)}"
                raise InvalidValue(wrong, value=source)
            require_stream(source.split(".", 1)[0], names, f"select {name!r}")
            if name == RESULT_TIME:
                raise InvalidValue(f"select: the name {RESULT_TIME!r} is taken by the result's time")
    return pairs
