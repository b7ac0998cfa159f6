"""Which stored rows can be in no result to come, where streams promise something about one of several keys.

A stream's promise closes values of *its* attributes; a row knows the values of all attributes that its
streams have. Every row here owes nothing: it has met all rows that came before. Let n be an input of
operator O (a stream, or what a lower operator makes), r a row of it, and s another node of the plan that has
no stream in common with n. Two rows *fit* if they are equal in all attributes that both know.

*Quiet.* s is quiet for r if no row to come of s fits r. A stream is, if it is closed for the values of r. A
    lower operator is, if all of its inputs are; or if one input t is, and all stored rows of t that fit r are
    spent: whatever it makes needs a row of t, and none is left that it could make something new of.
*Spent.* r is spent if O makes nothing new of it: all other inputs of O are quiet for r; or one is quiet, and
    has no stored row that fits.
*Dead.* r is in no result to come if it is spent and no stored row that O made fits r (at the root: if it is
    spent); or if some s is quiet for r and has no stored row that fits, for every result needs one.

Dead rows may count as not stored, for they are in no result to come; so the rules are applied until nothing
changes. A row of a stream lives as long as any row that was made of it: plans may change, and then what
operators made is made again from the streams' rows.

Hashes of 64 bits decide what fits: if they collide, a row stays longer. What is closed is decided by the
values themselves.

Example: orders (customer, item), customers, items, in the plan ((orders customers) items). Customers are
unique, items are punctuated, orders are punctuated by customer. An order whose customer is there is spent; it
is dead once its item is closed, too, because the row that was made of both is dead then. A customer is dead
once no more orders of it come and none is stored. An item stays: orders promise nothing of items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from braided.engine.kernels import closing
from braided.engine.operators.inputs import Input
from braided.engine.promises.key_sets import KeyTable
from braided.engine.sides.keys import KeyFormat, Keys, keys_in
from braided.engine.sides.side import SideState
from braided.policies.arrays import Bools, Int64s
from braided.query.join_graph import Attribute, JoinGraph
from braided.query.plan_tree import Plan, leaves, operators

Key = tuple[Attribute, ...]


@dataclass
class Stored:
    """The rows of one node that have not been forgotten, and what is known of them in a sweep."""

    source: Input
    side: SideState
    positions: Int64s
    alive: Bools
    keys: dict[Key, Keys] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Input, side: SideState) -> Stored:
        """All rows of a side."""
        positions = np.flatnonzero(~side.columns.held("gone")) + side.first
        return cls(source, side, positions, np.ones(len(positions), np.bool_))


class Sweep:
    """One look through all stored rows of a plan.

    `formats` tells how attributes are read, `closed` which keys a stream is closed for; `promised` are the
    attributes of the streams that promise something.
    """

    def __init__(
        self,
        graph: JoinGraph,
        plan: Plan,
        stored: Mapping[Plan, Stored],
        formats: Callable[[Key], KeyFormat],
        promised: Mapping[str, Key],
        closed: Callable[[str, Keys], Bools],
    ) -> None:
        self._graph, self._stored, self._formats = graph, stored, formats
        self._promised, self._is_closed = promised, closed
        self._operators = operators(plan)
        self._above = {child: operator for operator in self._operators for child in operator}
        self._closed: dict[tuple[str, Plan], Bools] = {}
        self._quiet: dict[tuple[Plan, Plan], Bools] = {}
        self._missing: dict[tuple[Plan, Plan], Bools] = {}
        self._spent: dict[Plan, Bools] = {}

    def run(self) -> dict[Plan, Int64s]:
        """The positions of dead rows, by node, in order."""
        while self._round():
            self._quiet, self._missing, self._spent = {}, {}, {}
        return {node: s.positions[~s.alive] for node, s in self._stored.items() if not s.alive.all()}

    def keys(self, node: Plan, key: Key) -> Keys:
        """The values that rows of a node have in some attributes, which all of them know."""
        stored, format_ = self._stored[node], self._formats(key)
        if key not in stored.keys and key == self._graph.key(self._above[node]):  # as they are indexed
            columns, at = stored.side.columns, stored.positions - stored.side.columns.base
            stored.keys[key] = Keys(columns["hash"][at], None if format_.exact else columns["check"][at])
        elif key not in stored.keys:
            places = stored.source.key(self._graph, key)
            stored.keys[key] = keys_in(format_, stored.side.payload.gather(stored.positions, places))
        return stored.keys[key]

    def knows(self, node: Plan, key: Key) -> bool:
        """Whether rows of a node have all of some attributes, and there are any."""
        return node in self._stored and all(self._graph.has(a, node) for a in key)

    # parts of the above

    def _round(self) -> bool:
        """Find rows that are dead as things are; from the root down: what was made of a row dies first."""
        before = self._living()
        for operator in reversed(self._operators):
            for node in operator:
                if node in self._stored and self._stored[node].alive.any():
                    self._stored[node].alive &= ~self._dead(node)
        return self._living() < before

    def _living(self) -> int:
        return sum(int(np.count_nonzero(s.alive)) for s in self._stored.values())

    def _dead(self, node: Plan) -> Bools:
        operator, below = self._above[node], set(leaves(node))
        dead = self._is_spent(node)
        if operator != self._operators[-1]:
            dead = dead & ~self._fits(node, dead, operator)
        for other in self._above:
            if below.isdisjoint(leaves(other)):
                dead = dead | self._never(node, other)
        return dead

    def _is_spent(self, node: Plan) -> Bools:
        """Which rows of a node its operator makes nothing new of."""
        if node not in self._spent:
            others = [other for other in self._above[node] if other != node]
            spent = np.logical_and.reduce([self._is_quiet(other, node) for other in others])
            for other in others:
                spent |= self._never(node, other)
            self._spent[node] = spent
        return self._spent[node]

    def _never(self, node: Plan, other: Plan) -> Bools:
        """For which rows of a node another one is quiet and has none that fits."""
        if (node, other) not in self._missing:
            quiet = self._is_quiet(other, node)
            self._missing[node, other] = quiet & ~self._fits(node, quiet, other)
        return self._missing[node, other]

    def _is_quiet(self, node: Plan, other: Plan) -> Bools:
        """For which rows of another node no row to come of a node fits."""
        if isinstance(node, str):
            return self._closes(node, other)
        if (node, other) not in self._quiet:
            inputs = [self._is_quiet(child, other) for child in node]
            quiet = np.logical_and.reduce(inputs)
            for child, of_input in zip(node, inputs, strict=True):
                if (asked := of_input & ~quiet).any():
                    unspent = ~self._is_spent(child) if child in self._stored else None
                    quiet |= asked & ~self._fits(other, asked, child, unspent)
            self._quiet[node, other] = quiet
        return self._quiet[node, other]

    def _closes(self, stream: str, node: Plan) -> Bools:
        """For which rows of a node a stream is closed."""
        if (stream, node) not in self._closed:
            key = self._promised.get(stream)
            if key is None or not self.knows(node, key):
                self._closed[stream, node] = np.zeros(len(self._stored[node].positions), np.bool_)
            else:
                self._closed[stream, node] = self._is_closed(stream, self.keys(node, key))
        return self._closed[stream, node]

    def _fits(self, node: Plan, asked: Bools, other: Plan, among: Bools | None = None) -> Bools:
        """For which of some rows of a node another one has a stored row that fits, perhaps `among` some."""
        stored, fits = self._stored.get(other), np.zeros(len(asked), np.bool_)
        living = fits[:0] if stored is None else stored.alive
        living = living if among is None else living & among
        key = self._graph.key((node, other))
        if not asked.any() or not living.any() or not key:
            return np.full(len(asked), living.any())
        fits[asked] = is_in(self.keys(node, key).hashes[asked], self.keys(other, key).hashes[living])
        return fits


def is_in(hashes: Int64s, among: Int64s) -> Bools:
    """Which hashes are among others; the smaller list is made a table, because that takes longest."""
    if len(hashes) < len(among):
        among = among[_in_table(among, hashes)]
    return _in_table(hashes, among)


def _in_table(hashes: Int64s, among: Int64s) -> Bools:
    table = KeyTable()
    table.put(among, among, closing.CLOSED)
    return np.asarray(table.states(hashes, hashes) == closing.CLOSED)
