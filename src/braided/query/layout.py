"""Where rows go: a grid of cells, of which every result is owned by exactly one.

A layout has *dimensions*. A dimension belongs to attributes of the join graph (a row's coordinate is a hash
of their values) or, in a join without a key, to one stream (a hash of the row itself). A row is sent to every
cell that agrees with the coordinates it knows. A result fixes every attribute and has a row of every stream,
so it knows all coordinates: all of its rows meet in one cell, and in no other.

    orders (customer)          customer = 0     customer = 1
    item = 0    items -> row   | cell 0 |       | cell 1 |       an order knows both coordinates: one copy
    item = 1                   | cell 2 |       | cell 3 |       a customer goes to a column, an item to a row

One key is one dimension: nothing is copied. Several keys are one each, so the join runs in one stage,
whatever the plan; the price is copies. The cells of a dimension are its *share*; `choose` picks the shares
that copy least.

>>> from braided.query.join_query import JoinQuery
>>> from braided.query.stream import Stream
>>> streams = [Stream(name) for name in ("orders", "customers", "items")]
>>> query = JoinQuery(streams, on=[("orders.customer", "customers.id"), ("orders.item", "items.id")])
>>> layout = choose(query, 8, {"orders": 100, "customers": 1, "items": 10})
>>> layout.shares, [layout.copies(name) for name in query.names]
((1, 8), [1, 8, 1])
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from braided.query.errors import InvalidValue, require_stream
from braided.query.join_graph import Attribute
from braided.query.subplans import subplans

if TYPE_CHECKING:
    from braided.query.join_query import JoinQuery

DEFAULT_BUCKETS = 8
BATCH_ROWS = 100_000.0  # of each stream in a batch, where nothing is known
_ROW_SECONDS = 1e-6  # to pack, move and unpack a row once (measured: see docs/inside/engine.md)
_STAGE_SECONDS = 0.5  # a further stage takes in every batch


@dataclass(frozen=True)
class Dimension:
    """Rows are spread along it by the values of some attributes, or by the rows of one stream."""

    key: tuple[Attribute, ...] = ()
    stream: str | None = None

    def known_to(self, stream: str) -> bool:
        """Whether rows of a stream know their coordinate; else they go to every one."""
        return stream == self.stream or any(name == stream for a in self.key for name, _ in a)

    def given_by(self, attributes: Sequence[Attribute]) -> bool:
        """Whether values of some attributes alone give the coordinate."""
        return bool(self.key) and set(self.key) <= set(attributes)

    def columns(self, stream: str) -> tuple[str, ...]:
        """The columns of a stream that give the coordinate: one for each attribute, for they are equal."""
        return tuple(next(c for s, c in attribute if s == stream) for attribute in self.key)

    def __str__(self) -> str:
        if self.stream is not None:
            return f"rows of {self.stream}"
        return " and ".join(" = ".join(f"{s}.{c}" for s, c in attribute) for attribute in self.key)


@dataclass(frozen=True)
class HotKey:
    """A key that has so many rows that those of one stream, the fat one, are spread over several cells.

    The other streams' rows with this key are copied to all of these. The key is known by its hash; `text` is
    how people read it.
    """

    hash: int
    stream: str
    cells: int
    text: str = ""


@dataclass(frozen=True)
class Layout:
    """The dimensions of a join, and how many cells each has; hot keys go with one dimension only."""

    dimensions: tuple[Dimension, ...]
    shares: tuple[int, ...]
    hot_keys: tuple[HotKey, ...] = field(default=())

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return math.prod(self.shares)

    @property
    def strides(self) -> tuple[int, ...]:
        """What a coordinate counts in the number of a cell."""
        return tuple(math.prod(self.shares[:i]) for i in range(len(self.shares)))

    def copies(self, stream: str) -> int:
        """How many cells a row of a stream is sent to, hot keys aside."""
        pairs = zip(self.dimensions, self.shares, strict=True)
        return math.prod(share for dimension, share in pairs if not dimension.known_to(stream))

    def tells(self, stream: str, promised: Sequence[Attribute]) -> bool:
        """Whether rows of a stream are spread by more than what it promises something about.

        Cells that get none of its rows with a value must then be told that there are such.
        """
        pairs = zip(self.dimensions, self.shares, strict=True)
        return any(share > 1 and d.known_to(stream) and not d.given_by(promised) for d, share in pairs)

    def offsets(self, stream: str, closing: Sequence[Attribute] | None = None) -> tuple[int, ...]:
        """What to add to the cell of a stream's row with all unknown coordinates 0; 0 comes first.

        Of what closes values of some attributes only these are known.
        """
        offsets = [0]
        for dimension, share, stride in zip(self.dimensions, self.shares, self.strides, strict=True):
            if not (dimension.known_to(stream) if closing is None else dimension.given_by(closing)):
                offsets = [offset + stride * i for i in range(share) for offset in offsets]
        return tuple(sorted(offsets))

    def sent(self, rates: Mapping[str, float]) -> float:
        """How many rows are sent, for so many of each stream."""
        return sum(rate * self.copies(stream) for stream, rate in rates.items())


def dimensions_of(query: JoinQuery) -> tuple[Dimension, ...]:
    """The key that all streams have; else the keys that the same streams have, one each; else the streams.

    A result belongs where its required rows say, so optional streams' rows are no dimension.
    """
    graph = query.graph
    if not graph.attributes:
        return tuple(Dimension(stream=name) for name in query.kinds.core)
    if common := graph.key(query.names):
        return (Dimension(common),)
    by_streams: dict[frozenset[str], list[Attribute]] = {}
    for attribute in graph.attributes:
        by_streams.setdefault(frozenset(stream for stream, _ in attribute), []).append(attribute)
    return tuple(Dimension(tuple(attributes)) for attributes in by_streams.values())


def choose(query: JoinQuery, cells: int, rates: Mapping[str, float] | None = None) -> Layout:
    """The layout of this many cells, a power of two, that sends the fewest rows.

    What is sent is a sum of products of shares, so it is convex in their logarithms: halving one share to
    double another as long as that helps ends at the least, or close to it.
    """
    dimensions, rates = dimensions_of(query), check_rates(query, rates)
    shares = [1] * len(dimensions)
    for _ in range(cells.bit_length() - 1):
        shares = min(_doubled(shares), key=lambda s: _cost(dimensions, s, rates))
    while True:
        best = min(_moved(shares), key=lambda s: _cost(dimensions, s, rates), default=shares)
        if _cost(dimensions, best, rates) >= _cost(dimensions, shares, rates):
            return Layout(dimensions, tuple(shares))
        shares = best


def in_stages(query: JoinQuery, layout: Layout, rates: Mapping[str, float] | None = None) -> tuple[bool, str]:
    """Whether several stages would cost less than the grid, and why.

    A stage more costs time in every batch and moves what lower ones found (as many rows as a stream brings,
    by a guess); the grid costs the copies.
    """
    stages, rates = len(subplans(query.graph, query.tree)), check_rates(query, rates)
    if stages == 1:
        return False, "one key" if len(layout.dimensions) == 1 else "every pair of rows is compared"
    read, sent = sum(rates.values()), layout.sent(rates)
    grid = _ROW_SECONDS * sent
    staged = _ROW_SECONDS * (read + (stages - 1) * read / len(rates)) + _STAGE_SECONDS * (stages - 1)
    which = "fewer" if grid <= staged else "more"
    return grid > staged, (
        f"{sent / max(1.0, read):.1f} copies of a row on average cost {which} seconds a batch (about "
        f"{grid:.1f}) than {stages} stages (about {staged:.1f})"
    )


def explain_layout(
    query: JoinQuery, buckets: int | None = None, rates: Mapping[str, float] | None = None
) -> Iterator[str]:
    """Say where rows go on Spark; of a join on one key only if `buckets`, a power of two, are asked for."""
    if buckets is not None and (not isinstance(buckets, int) or buckets < 1 or buckets & (buckets - 1)):
        return
    layout = choose(query, buckets or DEFAULT_BUCKETS, rates)
    if len(layout.dimensions) == 1 and buckets is None:
        return
    staged, _ = in_stages(query, layout, rates)
    yield from layout_lines(query, layout, staged and not query.one_stage, rates)


def layout_lines(
    query: JoinQuery, layout: Layout, staged: bool, rates: Mapping[str, float] | None = None
) -> Iterator[str]:
    """Say where rows go by a layout, or that they go through stages, and why."""
    cheaper, reason = in_stages(query, layout, rates)
    if staged != cheaper:
        promised = "count windows need it" if query.counts else "promises need it"
        needs = "a budget needs it" if query.overload or query.memory else promised
        reason += f"; {needs if query.one_stage and not staged else 'it was asked for'}"
    yield f"on Spark: {'stages' if staged else 'a grid'} ({reason})"
    if staged:
        if query.promises and not query.one_key:
            yield "  what streams promise is not used in stages"
        return
    pairs = zip(layout.shares, layout.dimensions, strict=True)
    spread = " x ".join(f"{share} by {dimension}" for share, dimension in pairs if share > 1)
    yield f"  {layout.cells} cells: {spread or 'one'}"
    copied = [f"{name} to {n}" for name in query.names if (n := layout.copies(name)) > 1]
    yield "  a row goes to one cell" + "".join(f", of {text}" for text in copied)
    for hot in layout.hot_keys:
        yield f"  rows of {hot.stream} with the key {hot.text} are spread over {hot.cells} cells"


def check_rates(query: JoinQuery, rates: Mapping[str, float] | None) -> dict[str, float]:
    """How many rows each stream brings, guessed where it is not given; what cannot be raises."""
    for name, rate in (rates or {}).items():
        require_stream(name, query.names, "rates")
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < math.inf:
            raise InvalidValue(
                f"rates: stream {name!r} must bring a number of rows, zero or more; got {rate!r}"
            )
    return {name: float((rates or {}).get(name, BATCH_ROWS)) for name in query.names}


def _cost(dimensions: tuple[Dimension, ...], shares: Sequence[int], rates: Mapping[str, float]) -> float:
    return Layout(dimensions, tuple(shares)).sent(rates)


def _doubled(shares: Sequence[int]) -> list[list[int]]:
    return [[2 * s if i == j else s for j, s in enumerate(shares)] for i in range(len(shares))]


def _moved(shares: Sequence[int]) -> Iterator[list[int]]:
    """All shares with one halved and another doubled."""
    for i, share in enumerate(shares):
        if share > 1:
            halved = [s // 2 if i == j else s for j, s in enumerate(shares)]
            yield from (m for j, m in enumerate(_doubled(halved)) if j != i)
