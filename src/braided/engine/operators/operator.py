"""One operator of a plan: its inputs, the join over them, and what is made of the combinations it finds.

A plan is a tree of operators. In a batch they run one after the other, producers before consumers; what one
makes is an arriving buffer of the next, like a stream's new rows. By the law of `mjoin` each operator finds
each combination of its inputs' rows exactly once, in the batch in which the last of them arrives; so every
intermediate row arises once, and by induction from the leaves to the root every result does. Which rows are
forgotten, and that this loses nothing, is in `inputs`. Hence every plan gives the bag of the flat one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from braided.engine.operators.combining import Combining
from braided.engine.operators.inputs import Input
from braided.engine.operators.layout import Layout, attribute_format, key_format_of
from braided.engine.operators.mjoin import FlatJoin
from braided.engine.sides.keys import KeyFormat
from braided.engine.sides.side import BOTTOMLESS_US, Rows
from braided.policies.choice import Policies
from braided.query.bounds import INFINITE_US, Bounds
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan, label, leaves


class Operator:
    """A join over two or more inputs; `combining` is there once the schemas below it are known."""

    def __init__(self, query: JoinQuery, node: tuple[Plan, ...], number: int, policies: Policies) -> None:
        self._query = query
        self.node, self.number = node, number
        self.names = tuple(label(child) for child in node)
        self.join = FlatJoin(self.bounds, policies, number)
        self.combining: Combining | None = None
        self.keys: KeyFormat | None = None

    @functools.cached_property
    def bounds(self) -> Bounds:
        """What holds between the times of its inputs' rows."""
        numbers = {name: i for i, name in enumerate(self._query.names)}
        return self._query.bounds.between([[numbers[s] for s in leaves(child)] for child in self.node])

    @property
    def name(self) -> str:
        """As statistics call what it makes."""
        return label(self.node)

    @property
    def root(self) -> bool:
        """Whether what it finds are results."""
        return len(leaves(self.node)) == len(self._query.streams)

    def learn(self, inputs: Sequence[Input | None], layouts: Sequence[Layout]) -> None:
        """The schemas of some streams are known: read keys as they say; if all below are, combine."""
        below = [layout for layout in layouts if layout.stream.name in leaves(self.node)]
        self.keys = key_format_of(self._query, self.node, below) if below else None
        known = [source for source in inputs if source is not None]
        if self.combining is None and len(known) == len(inputs):
            formats = {
                number: attribute_format(attribute, below)
                for number, attribute in enumerate(self._query.graph.attributes)
                if self._query.graph.has(attribute, self.node)
            }
            self.combining = Combining(self._query, self.node, known, formats)

    def entering(self, source: Input, batch: pa.RecordBatch) -> Rows:
        """Intermediate rows of one of its inputs, from their stored columns, keyed for this operator."""
        assert self.keys is not None
        query, rows = self._query, batch.num_rows
        newest = np.full(rows, BOTTOMLESS_US if source.timed else 0, np.int64)
        ends = np.full(rows, INFINITE_US, np.int64)
        for stream, place in source.times.items():
            at = np.asarray(batch.column(place).to_numpy())
            retention_us = min(INFINITE_US, query.bounds.retention_us(query.names.index(stream)))
            newest, ends = np.maximum(newest, at), np.minimum(ends, at + retention_us)
        columns = [batch.column(k) for k in source.key(query.graph, query.graph.key(self.node))]
        checks = self.keys.checks(columns) if query.promises and not self.keys.exact else None
        return Rows(batch, self.keys.hashes(columns, rows), newest, checks=checks, ends=ends)
