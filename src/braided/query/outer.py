"""Optional streams: left, semi, anti and full joins, n-way.

The streams that must have a row in every result are the *core*. A core combination comes with every choice of
partners from each optional stream, or null where that stream has none ("left"); only if there is a partner
("semi"), or if there is none ("anti"), and without that stream's columns. With "full", for two streams, rows
of the second one without a partner come, too.

An optional stream meets the core alone: its equalities, bounds and terms of `where` are with required
streams. Its terms of `where` belong to the match, as SQL's ON does; those of the core filter the core.

An as-of stream (`window=AsOf(...)`) is looked up for rows of the core, too, though it may be required: of the
rows that match, the newest counts that is not after the newest time of the core.

In a plan the core is one input: a stream, or what an operator made of all required streams. Optional streams
are above it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from braided.query.condition import Call, Condition, parse
from braided.query.durations import to_us
from braided.query.errors import InvalidValue
from braided.query.plan_tree import Plan, label, leaves, operators

if TYPE_CHECKING:
    from braided.query.join_graph import JoinGraph
    from braided.query.join_query import JoinQuery
    from braided.query.stream import Stream

Problems: TypeAlias = Iterator[tuple[str, str]]


class Kinds:
    """The streams of a query by what a result needs of them."""

    def __init__(self, query: JoinQuery) -> None:
        self._query = query
        kinds = {s.name: s.how for s in query.streams}
        self.optional = tuple(s.name for s in query.streams if s.optional)  # may have none, or are looked up
        self.core = tuple(n for n in kinds if n not in self.optional)  # have a row in every result
        self.as_of = {s.name: to_us(s.as_of.age) for s in query.streams if s.as_of is not None}
        self.shown = tuple(n for n, how in kinds.items() if how not in ("semi", "anti"))  # have columns there
        waits = bool(self.as_of)
        self.settles = waits or not set(kinds.values()) <= {"inner", "semi"}  # results wait for time
        self.late = waits or "anti" in kinds.values()  # none comes before
        self.full = "full" in kinds.values()

    @functools.cached_property
    def core_node(self) -> Plan:
        """The input of an operator that holds the core: a stream, or what an operator makes."""
        node = self._query.tree
        while not isinstance(node, str) and not set(self.core) >= set(leaves(node)):
            node = next(child for child in node if set(self.core) <= set(leaves(child)))
        return node

    @property
    def settling_us(self) -> int:
        """How long after its newest required row a result may come that waits for its last partner."""
        bounds, names = self._query.bounds, self._query.names
        ends = [bounds.deadline_us(names.index(name)) or 0 for name in self.optional]
        mutual = [bounds.matrix[1][0]] if self.full else []
        return max(0, *ends, *mutual) if self.settles else 0

    def operator_of(self, stream: str) -> tuple[Plan, ...]:
        """Return the operator that a stream is an input of."""
        return next(node for node in operators(self._query.tree) if stream in node)

    def needed(self, stream: Stream) -> tuple[str, ...]:
        """Return the joined columns without which a row is part of no result, so that it is left out.

        A required row with a null where it joins optional streams alone has no partner there. Of a full join
        every row comes out.
        """
        graph = self._query.graph
        joined = graph.columns(stream.name)
        if not self.optional or (stream.optional and not self.full):
            return joined
        if self.full:
            return ()
        others = {s.name for s in self._query.streams if s.how in ("inner", "semi")} - {stream.name}
        meeting = [a for a in graph.attributes if others & {name for name, _ in a}]
        return tuple(c for c in joined if any((stream.name, c) in a for a in meeting))

    def match(self, stream: str | None) -> Condition | None:
        """Return the terms of `where` that are about an optional stream's match; None: those of the core."""
        where, optional = self._query.where, set(self.optional)
        parts = terms(where) if where is not None else ()
        return together([t for t in parts if streams_of(t) & optional == ({stream} if stream else set())])


def arranged(graph: JoinGraph, plan: str, core: Sequence[str], optional: Sequence[str]) -> Plan:
    """Plan "mjoin" or "linear": the core first, then optional streams; those with one key in one operator."""
    make = graph.linear if plan == "linear" else graph.plan
    node, left = make(core) if len(core) > 1 else core[0], list(optional)
    while left:
        keys = [graph.key((node, name)) for name in left]
        joined = [name for name, key in zip(left, keys, strict=True) if key == keys[0]]
        node = (node, *(joined[:1] if plan == "linear" else joined))
        left = [name for name in left if name not in node]
    return node


def check_plan(query: JoinQuery) -> Problems:
    """Check that optional streams are above the core."""
    core = set(query.kinds.core)
    for operator in operators(query.tree):
        below = set(leaves(operator))
        if not below <= core and not any(core <= set(leaves(child)) for child in operator):
            together = label(query.kinds.core) if len(core) > 1 else query.kinds.core[0]
            why = "an optional stream joins what the required ones make together"
            yield "plan", f"plan: {label(operator)}: {why}; put it above {together}"
            return
        apart = [c for c in operator if not isinstance(c, str) and not core & set(leaves(c))]
        if apart:
            yield "plan", f"plan: {label(apart[0])}: optional streams join required ones, not each other"
            return


@functools.lru_cache(maxsize=256)
def terms(where: str) -> tuple[Condition, ...]:
    """Return the parts of a condition that must all be true."""
    return tuple(_terms(parse(where)))


def _terms(condition: Condition) -> Iterator[Condition]:
    if isinstance(condition, Call) and condition.operation == "and":
        for argument in condition.arguments:
            yield from _terms(argument)
    else:
        yield condition


def streams_of(term: Condition) -> set[str]:
    """Return the streams that a term names."""
    return {stream for stream, _ in term.columns()}


def together(parts: Sequence[Condition]) -> Condition | None:
    """Return the condition that all parts are true; None without any."""
    return functools.reduce(lambda a, b: Call("and", (a, b)), parts) if parts else None


def check_stream(query: JoinQuery, name: str) -> Problems:
    """Check what an optional stream may be, and what goes with it."""
    stream = query.streams[query.names.index(name)]
    if not stream.optional:
        return
    how = f"how={stream.how!r}" if stream.as_of is None else f"window=AsOf({stream.as_of.age!r})"
    if name == query.names[0]:
        yield "how", f"{how}: the first stream is required; list a required stream first"
    if stream.how == "full" and len(query.names) > 2:
        remedy = "use 'left', or join two streams"
        yield "how", f"{how} is for the second of exactly two streams; {remedy}"
    if stream.how == "full" and query.keyless:
        yield "how", f"{how} needs a key: give the streams one"
    connected = query.graph.connected(query.kinds.core)
    if not query.keyless and (apart := [other for other in query.kinds.core if other not in connected]):
        among = f"stream {apart[0]!r} is joined with the other required ones through {name!r} alone"
        yield "how", f"{how}: {among}; join it with a required stream, or make {name!r} inner"
    for attribute in query.graph.attributes:
        having = {s for s, _ in attribute}
        if name in having and not having & set(query.kinds.core):
            others = ", ".join(map(repr, sorted(having - {name})))
            yield "how", f"{how}: on joins it with {others}, optional too; join it with a required stream"
    for (a, b), _ in query.pairs:
        other = b if a == name else a
        if name in (a, b) and other in query.kinds.optional:
            yield "how", f"{how}: within bounds it by {other!r}, optional too; bound it by a required stream"
    if stream.how in ("semi", "anti"):
        for output, source, column in query.selected or ():
            if source == name:
                why = f"its columns are not in the result ({how})"
                yield (
                    "how",
                    f"select: {output!r} is {source}.{column}, and {why}; leave it out, or use 'left'",
                )
    yield from _as_of(query, stream)
    yield from _refused(query)


def _as_of(query: JoinQuery, stream: Stream) -> Problems:
    if stream.as_of is None:
        return
    window = f"window=AsOf({stream.as_of.age!r})"
    if stream.how not in ("inner", "left"):
        why = f"how={stream.how!r} asks only whether there is a partner"
        yield "window", f"{window}: {why}; use a time window, or how='left'"
    if any(stream.name in pair for pair, _ in query.pairs):
        yield "window", f"{window} says which row of {stream.name!r} counts; leave it out of within"


def _refused(query: JoinQuery) -> Problems:
    """Check what does not go with optional streams, as long as this is so."""
    lossy = "a dropped row would look like one that never came, and make a null that is false"
    overload = query.overload
    if overload is not None and (overload.drops_input or overload.cuts_windows):
        option = "shed='input'" if overload.drops_input else "state_rows"
        yield "how", f"overload: {option} does not go with optional streams: {lossy}; use shed='probes'"
    for stream in query.streams:
        if stream.freshness is not None:
            yield (
                "how",
                f"freshness of {stream.name!r} does not go with optional streams: {lossy}; leave it out",
            )
        if stream.count_window is not None:
            why = "rows that are pushed out of it would be partners no more"
            yield "how", f"the window of {stream.name!r} counts rows: {why}; use a time window"
        if stream.promises and query.promises and not query.one_key:
            why = "what it promises is about one of several keys, and optional streams need one for all"
            yield "how", f"stream {stream.name!r}: {why}; leave unique, arrival and punctuation out"
    if query.memory is not None:
        why = "rows on disk would have to be looked up whenever results become final"
        yield "how", f"memory does not go with optional streams yet: {why}; leave it out"


def check_where(query: JoinQuery) -> Problems:
    """Check that no term of `where` is about two optional streams."""
    for term in terms(query.where) if query.where is not None else ():
        named = sorted(streams_of(term) & set(query.kinds.optional))
        if len(named) > 1:
            why = "each meets the required streams alone"
            remedy = "compare them in what comes out"
            yield (
                "where",
                f"where: a term names {' and '.join(map(repr, named))}, both optional: {why}; {remedy}",
            )


def check_streams(query: JoinQuery) -> None:
    """Raise if optional streams cannot be as they are asked for."""
    if query.kinds.optional and not query.kinds.core:
        raise InvalidValue.of(query.names[0], "how", "no stream is required; make the first one so (inner)")
    for name in query.names if query.kinds.optional else ():
        for option, sentence in check_stream(query, name):
            raise InvalidValue.of(name, option, sentence)


def check_whole(query: JoinQuery) -> None:
    """Raise if the plan or the condition does not go with optional streams."""
    for option, sentence in (*check_where(query), *check_plan(query)) if query.kinds.optional else ():
        raise InvalidValue(sentence, option=option)
