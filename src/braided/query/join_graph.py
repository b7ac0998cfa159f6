"""Which columns must be equal, and what each operator of a plan can be keyed by.

Every condition of `on` makes two columns equal; columns that are equal to the same column are equal to each
other. So conditions fall into classes, the *attributes* of the join: sets of columns that all have one value
in a result. Without `on` there is one attribute for each key column, and every stream has it.

An operator is keyed by the attributes that all of its inputs have. An attribute that only some of them have
is compared once a combination is found.

>>> graph = JoinGraph(attributes(["orders.customer = customers.id".split(" = "),
...                               "orders.item = items.id".split(" = ")]))
>>> graph.attributes
((('customers', 'id'), ('orders', 'customer')), (('items', 'id'), ('orders', 'item')))
>>> graph.plan(["orders", "customers", "items"])  # as few operators as there are keys
(('orders', 'customers'), 'items')
>>> graph.key((("orders", "customers"), "items"))
((('items', 'id'), ('orders', 'item')),)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from braided.query.errors import InvalidType, InvalidValue, about, require_stream, shown
from braided.query.plan_tree import Plan, label, leaves, operators
from braided.query.stream import Stream

ColumnName: TypeAlias = tuple[str, str]  # stream, column
Attribute: TypeAlias = tuple[ColumnName, ...]  # columns that are equal in every result, in order


def attributes(on: Iterable[Sequence[str]]) -> tuple[Attribute, ...]:
    """Return the classes of columns that pairs such as ("orders.item", "items.id") make equal."""
    classes: list[set[ColumnName]] = []
    for pair in on:
        both = {column_name(text) for text in pair}
        touched = [c for c in classes if c & both]
        classes = [c for c in classes if not c & both] + [both.union(*touched)]
    return tuple(sorted(tuple(sorted(c)) for c in classes))


def read_on(on: object, streams: Sequence[str]) -> tuple[tuple[str, str], ...] | None:
    """Read pairs of "stream.column" as a user gives them, and sort each and all; bad ones raise."""
    if on is None:
        return None
    if isinstance(on, str) or not isinstance(on, Iterable):
        raise InvalidType.must("on", "pairs such as ('orders.item', 'items.id')", on)
    pairs = []
    for position, pair in enumerate(on):
        with about("on", position):
            pairs.append(_pair(pair, streams))
    if not pairs:
        example = f"{streams[0]}.id = {streams[1]}.id"
        remedy = f"add one, such as {example}, or leave it out to join by the streams' keys"
        raise InvalidValue(f"on names no pair of columns; {remedy}", stream=streams[1])
    connected = JoinGraph(attributes(pairs)).connected(streams)
    for name in streams:
        if name not in connected:
            apart = f"on: no equality joins stream {name!r} with {', '.join(map(repr, connected))}"
            raise InvalidValue(f"{apart}; add one, such as {streams[0]}.id = {name}.id", stream=name)
    return tuple(sorted(set(pairs)))


def _pair(pair: Any, streams: Sequence[str]) -> tuple[str, str]:
    if isinstance(pair, str):  # "orders.item = items.id"
        pair = [text.strip() for text in pair.split("=")]
    texts = tuple(pair) if isinstance(pair, tuple | list) else ()
    if len(texts) != 2 or not all(isinstance(t, str) and all(t.partition(".")) for t in texts):
        raise InvalidValue(f"on: each entry is a pair such as ('orders.item', 'items.id'); got {shown(pair)}")
    for text in texts:
        require_stream(column_name(text)[0], streams, f"on uses {text}")
    first, second = sorted(texts, key=lambda text: streams.index(column_name(text)[0]))
    if column_name(first)[0] == column_name(second)[0]:
        remedy = "a stream that joins itself is given twice, under two names"
        raise InvalidValue(f"on: a pair must name two different streams; got {pair!r} ({remedy})")
    return first, second


def column_name(text: str) -> ColumnName:
    """Split "stream.column" into its two names."""
    stream, column = text.split(".", 1)
    return stream, column


@dataclass(frozen=True)
class JoinGraph:
    """The attributes of a join."""

    attributes: tuple[Attribute, ...]

    def columns(self, stream: str) -> tuple[str, ...]:
        """Return the columns of a stream that must be equal to others."""
        return tuple(c for attribute in self.attributes for s, c in attribute if s == stream)

    def with_promised_key(self, stream: Stream) -> Stream:
        """Return a stream that promises something of the one attribute it has with its column as the key."""
        joined = [self.source(a, stream.name)[1] for a in self.attributes if self.has(a, stream.name)]
        if stream.key is not None or not stream.promises or len(joined) != 1:
            return stream
        return replace(stream, key=joined)

    def has(self, attribute: Attribute, node: Plan) -> bool:
        """Return whether a stream below a node has a column of an attribute."""
        below = leaves(node)
        return any(stream in below for stream, _ in attribute)

    def key(self, operator: tuple[Plan, ...]) -> tuple[Attribute, ...]:
        """Return the attributes that all inputs of an operator have."""
        return tuple(a for a in self.attributes if all(self.has(a, child) for child in operator))

    def equalities(self, operator: tuple[Plan, ...]) -> list[str]:
        """Write what is equal in an operator's inputs, one text for each attribute of its key."""
        below = leaves(operator)
        return [" = ".join(f"{s}.{c}" for s, c in a if s in below) for a in self.key(operator)]

    def source(self, attribute: Attribute, node: Plan) -> ColumnName:
        """Return the column that an input of an operator gives for an attribute."""
        below = leaves(node)
        return next((stream, column) for stream, column in attribute if stream in below)

    def check(self, plan: Plan) -> None:
        """Raise if an operator's inputs have no column in common; a join without any key may."""
        for operator in operators(plan) if self.attributes else ():
            if not self.key(operator):
                inputs = f"the inputs {', '.join(map(label, operator))} of one operator"
                why = "have no key in common, so every pair of rows would be compared"
                raise InvalidValue(f"plan: {inputs} {why}; put streams together that `on` connects")

    def connected(self, streams: Sequence[str]) -> tuple[str, ...]:
        """Return the streams that are connected with the first one."""
        reached = {streams[0]}
        for _ in streams:  # each round reaches one more, if there is one
            touched = (a for a in self.attributes if any(n in reached for n, _ in a))
            reached |= {s for a in touched for s, _ in a if s in streams}
        return tuple(s for s in streams if s in reached)

    def plan(self, streams: Sequence[str]) -> Plan:
        """Plan as few operators as the keys allow: join all inputs that share an attribute at once."""
        nodes: list[Plan] = list(streams)
        if not self.attributes:
            return tuple(nodes)
        while len(nodes) > 1:
            widest = max(self.attributes, key=lambda a: sum(self.has(a, node) for node in nodes))
            joined = tuple(node for node in nodes if self.has(widest, node))
            place = nodes.index(joined[0])
            nodes = [node for node in nodes if node not in joined]
            nodes.insert(place, joined)
        return nodes[0]

    def linear(self, streams: Sequence[str]) -> Plan:
        """Plan binary operators, each with the next stream in order that has a key in common."""
        plan: Plan = streams[0]
        left = list(streams[1:])
        while left:
            stream = next(s for s in left if not self.attributes or self.key((plan, s)))
            plan = (plan, stream)
            left.remove(stream)
        return plan
