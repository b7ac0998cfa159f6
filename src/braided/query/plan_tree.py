"""The shape of a plan: nested tuples of stream names, and what follows from the shape alone.

`("a", "b", "c")` is the flat plan, one operator; `((("a", "b"), "c"), "d")` the linear one; anything between
may be nested, of any width. A node is a stream's name (a leaf) or a tuple of nodes (an operator, and at the
same time the intermediate rows it produces). Every node but the root has a side state. A stream that is used
twice has two names (jaqpot, footnote 5).

>>> bushy = (("a", "b"), ("c", "d"))
>>> operators(bushy)
(('a', 'b'), ('c', 'd'), (('a', 'b'), ('c', 'd')))
>>> intermediates(bushy)  # the states that are fed by operators
(('a', 'b'), ('c', 'd'))
>>> [str(h) for h in half_joins(bushy)][:5]
['a>b', 'b>a', 'c>d', 'd>c', '(a b)>(c d)']
>>> ascent(linear(["a", "b", "c"]), "a")  # the inputs of operators that hold a row of the stream
('a', ('a', 'b'))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from braided.query.errors import InvalidType, InvalidValue, require_stream, shown

Plan: TypeAlias = "str | tuple[Plan, ...]"


@dataclass(frozen=True)
class HalfJoin:
    """Rows that came from `driver` look up matches in the state of `probed`, another input of its operator.

    In an operator of more than two inputs the driver's rows probe one input after the other: what probes the
    second is the driver's row with its matches in the first. The half-join is still named by its driver.
    """

    driver: Plan
    probed: Plan

    def __str__(self) -> str:
        return f"{label(self.driver)}>{label(self.probed)}"


Orders: TypeAlias = Mapping[Plan, tuple[Plan, ...]]


def label(node: Plan) -> str:
    """Return a short name of a node."""
    return node if isinstance(node, str) else f"({' '.join(label(child) for child in node)})"


def flat(streams: Sequence[str]) -> Plan:
    """Plan one operator over all streams."""
    return tuple(streams)


def linear(streams: Sequence[str]) -> Plan:
    """Plan binary operators, one stream more at each."""
    plan: Plan = streams[0]
    for stream in streams[1:]:
        plan = (plan, stream)
    return plan


def height(plan: Plan) -> int:
    """How many operators a row passes at most."""
    return 0 if isinstance(plan, str) else 1 + max(map(height, plan))


def read_plan(plan: object, streams: Sequence[str]) -> Plan:
    """Read a plan as a user gives it, a word or in tuples; bad ones raise.

    >>> read_plan([["a", "b"], "c"], ["a", "b", "c"])
    (('a', 'b'), 'c')
    """
    if plan in ("mjoin", "linear"):
        return str(plan)
    if not isinstance(plan, tuple | list):
        wrong = InvalidValue if isinstance(plan, str) else InvalidType
        tuples = "nested tuples of stream names such as (('a', 'b'), 'c')"
        raise wrong(f"plan must be 'mjoin', 'linear' or {tuples}; got {shown(plan)}")
    tree = as_tuples(plan)
    for operator in operators(tree):
        if len(operator) < 2:
            raise InvalidValue(f"plan: an operator must have at least two inputs; got {operator!r}")
    named = leaves(tree)
    for name in named:
        if named.count(name) > 1:
            raise InvalidValue(f"plan: a stream used twice must have two names; got {name!r} twice")
        require_stream(name, streams, "plan")
    for name in streams:
        if name not in named:
            raise InvalidValue(f"plan: stream {name!r} is missing; every stream must be in it once")
    return tree


def as_tuples(plan: object) -> Plan:
    """Return a plan out of nested tuples or lists."""
    if isinstance(plan, str):
        return plan
    if not isinstance(plan, tuple | list):
        raise InvalidType(f"plan: a node must be a stream's name or a tuple of nodes; got {shown(plan)}")
    return tuple(as_tuples(child) for child in plan)


def leaves(plan: Plan) -> tuple[str, ...]:
    """Return the streams, from left to right."""
    return (plan,) if isinstance(plan, str) else tuple(name for child in plan for name in leaves(child))


def operators(plan: Plan) -> tuple[tuple[Plan, ...], ...]:
    """Return all operators, producers before consumers; the root is the last."""
    if isinstance(plan, str):
        return ()
    return (*(operator for child in plan for operator in operators(child)), plan)


def intermediates(plan: Plan) -> tuple[Plan, ...]:
    """Return the intermediate states: what every operator but the root produces."""
    return operators(plan)[:-1]


def ascent(plan: Plan, stream: str) -> tuple[Plan, ...]:
    """Return the operator inputs that hold a stream's rows, from its leaf to below the root."""
    if isinstance(plan, str):
        return ()
    child = next(c for c in plan if stream in leaves(c))
    return (*ascent(child, stream), child)


def plain_orders(plan: Plan) -> dict[Plan, tuple[Plan, ...]]:
    """Return for each input of an operator the others in the plan's order: its rows probe them in turn."""
    return {c: tuple(other for other in node if other != c) for node in operators(plan) for c in node}


def half_joins(plan: Plan, orders: Orders | None = None) -> tuple[HalfJoin, ...]:
    """Return all half-joins, producers before consumers, each input's in its probe order."""
    orders = orders or plain_orders(plan)
    return tuple(HalfJoin(c, probed) for node in operators(plan) for c in node for probed in orders[c])
