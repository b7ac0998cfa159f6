"""Where a plan is cut if rows must lie together by key: a subplan is joined in one place for each key.

Operators one above the other that have an attribute of their keys in common can run in the same place: rows
that are equal in it meet there. Where no attribute is left that all of them have, the plan is cut, and what
the lower part finds goes to another place, by another key. A plan on one key is never cut.

>>> from braided.query.join_graph import JoinGraph, attributes
>>> graph = JoinGraph(attributes([("a.k", "b.k"), ("b.m", "c.m"), ("c.m", "d.m")]))
>>> for part in subplans(graph, ((("a", "b"), "c"), "d")):
...     print(part.node, part.inputs, part.key)
('a', 'b') ('a', 'b') ((('a', 'k'), ('b', 'k')),)
((('a', 'b'), 'c'), 'd') (('a', 'b'), 'c', 'd') ((('b', 'm'), ('c', 'm'), ('d', 'm')),)
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from braided.query.join_graph import Attribute, JoinGraph
from braided.query.plan_tree import Plan, leaves, operators


@dataclass(frozen=True)
class Subplan:
    """Operators of a plan that run in one place, producers first, and the attributes all of them have."""

    operators: tuple[tuple[Plan, ...], ...]
    key: tuple[Attribute, ...]

    @property
    def node(self) -> tuple[Plan, ...]:
        """Its last operator: what it finds is handed on, or is the result."""
        return self.operators[-1]

    @functools.cached_property
    def inputs(self) -> tuple[Plan, ...]:
        """What arrives from outside: streams, and rows of other subplans."""
        return tuple(c for node in self.operators for c in node if c not in self.operators)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams among its inputs."""
        return tuple(c for c in self.inputs if isinstance(c, str))

    @property
    def handed(self) -> tuple[tuple[Plan, ...], ...]:
        """The other inputs: rows that lower subplans made."""
        return tuple(c for c in self.inputs if not isinstance(c, str))

    @property
    def intermediates(self) -> tuple[tuple[Plan, ...], ...]:
        """Whose rows it stores beside those of streams."""
        return (*self.handed, *self.operators[:-1])


def whole(graph: JoinGraph, plan: Plan) -> Subplan:
    """Return the plan in one piece."""
    return Subplan(operators(plan), graph.key(leaves(plan)))


def subplans(graph: JoinGraph, plan: Plan) -> tuple[Subplan, ...]:
    """Cut the plan into as many pieces as its keys need; what one produces goes to a later one."""
    if isinstance(plan, str):
        return ()
    if graph.key(leaves(plan)) or not graph.attributes:
        return (whole(graph, plan),)
    members, key = [plan], set(graph.key(plan))
    waiting, lower = [c for c in plan if not isinstance(c, str)], []
    while waiting:
        node = waiting.pop(0)
        if common := key & set(graph.key(node)):
            key = common
            members.append(node)
            waiting += [c for c in node if not isinstance(c, str)]
        else:
            lower.append(node)
    own = tuple(node for node in operators(plan) if node in members)
    ordered = tuple(a for a in graph.attributes if a in key)
    return (*(part for node in lower for part in subplans(graph, node)), Subplan(own, ordered))
