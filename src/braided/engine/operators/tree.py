"""A plan's operators and the states between them: new rows of the streams in, combinations of the root out.

In a batch the operators run one after the other, producers before consumers. What arrives at an operator's
inputs is stored first; then the combinations it completes are found, and are what arrives at the next one. A
batch that fails is taken back from `marks`: nothing is forgotten while it runs.

A tree may be only a part of a plan (`Subplan`): then intermediate rows that were made elsewhere arrive, too,
and its root finds what is handed on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from braided.engine.fields import remember_fields
from braided.engine.kernels.tables import PROBES
from braided.engine.operators import indexing
from braided.engine.operators.counted import Counted
from braided.engine.operators.inputs import Input, described
from braided.engine.operators.layout import Layout, key_format_of
from braided.engine.operators.learned import Learned
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.operator import Operator
from braided.engine.sides.columns import (
    BORN,
    CHECK,
    COUNTED,
    ENDS,
    FINAL,
    GONE,
    NEXT_COUNTED,
    in_memory,
)  # fmt: skip
from braided.engine.sides.side import Mark, Reason, Rows, SideState
from braided.engine.sides.storable import no_rows
from braided.engine.site import Site
from braided.policies.choice import Policies
from braided.policies.decisions import Rations, Turn
from braided.policies.rationing import Known
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan, operators
from braided.query.subplans import whole

Arriving = dict[Plan, Rows | None]  # what is to be stored, by input
Found = tuple[Sequence[SideState], Positions]  # combinations, and the states that their rows are in
PIECE_ROWS = 1 << 18


@dataclass(frozen=True)
class Hooks:
    """The functions of features that hear what operators take in and find, and decide who may probe."""

    arrived: Sequence[Callable[[int, int, Rows], None]] = ()
    found: Sequence[Callable[[int, Sequence[SideState], Positions], None]] = ()
    owed: Sequence[Callable[[int], Iterator[Found]]] = ()
    allow: Callable[[tuple[Plan, ...], Turn], Rations | None] | None = None


class Tree:
    """The operators of one plan, producers first, and the states of all their inputs."""

    def __init__(
        self, query: JoinQuery, site: Site, policies: Callable[[tuple[Plan, ...]], Policies]
    ) -> None:
        self._query, self._allocate = query, site.allocate
        self.subplan = site.subplan or whole(query.graph, query.tree)
        self.operators = [
            Operator(query, node, number, policies(node))
            for number, node in enumerate(operators(query.tree))
            if node in self.subplan.operators
        ]
        self.sides: dict[Plan, SideState] = {}
        self.inputs: dict[Plan, Input] = {}
        self.marks: dict[Plan, Mark] = {}  # where each side stood before the latest batch
        self.counted: Counted | None = None  # asks whether rows are inside count windows, if there are any
        self.entered: dict[Plan, int] = {}  # rows that each side got in the latest batch
        self._entered_before = self.entered
        self.remade = 0  # how often rows that had been found were stored again
        self.rebuilt: set[Plan] = set()  # intermediates made again since the state was last written

    @property
    def root(self) -> Operator:
        """The operator that finds results, or what is handed on."""
        return self.operators[-1]

    @property
    def intermediates(self) -> list[tuple[Input, SideState]]:
        """The inputs that lower operators make, with their sides."""
        nodes = self.subplan.intermediates
        return [(self.inputs[node], self.sides[node]) for node in nodes if node in self.sides]

    def above(self, node: Plan) -> Operator:
        """The operator that a stream or an intermediate is an input of."""
        return next(operator for operator in self.operators if node in operator.node)

    # what is known

    def learn(self, layouts: Sequence[Layout]) -> None:
        """The schemas of some streams are known; types that cannot meet raise, and nothing has changed."""
        key_format_of(self._query.graph.attributes, layouts)  # raises if types cannot meet
        memory = self._query.memory
        lineage = memory is not None and memory.lineage == "carried"
        nodes: list[Plan] = [*self.subplan.streams, *self.subplan.intermediates, self.root.node]
        for node in nodes:
            source = None if node in self.inputs else described(node, tuple(layouts), lineage=lineage)
            if source is not None:
                self.inputs[node] = source
                if node != self.root.node:
                    self.sides[node] = self._side(source)
        self.counted = Counted(layouts, lambda name: self.sides[name]) if self._query.counts else None
        for operator in self.operators:
            operator.learn(self.inputs, layouts, self.counted)

    def remember(self) -> list[Callable[[], None]]:
        """Return what goes back to what is known now."""
        known = [remember_fields(operator, ("combining", "keys")) for operator in self.operators]
        return [*known, remember_fields(self, ("sides", "inputs", "counted"))]

    def start(self) -> list[Learned]:
        """A batch begins: a copy of what every operator has learned, to go back to."""
        self.marks, self.entered, self._entered_before = {}, {}, self.entered
        return [operator.join.learned.copy() for operator in self.operators]

    # a batch

    def run(
        self, arriving: Arriving, floors_us: Sequence[int], most_rows: int, hooks: Hooks
    ) -> Iterator[Found]:
        """The new combinations of the last operator, at most `most_rows` at a time."""
        for operator in self.operators[:-1]:
            pieces = self._find(operator, arriving, PIECE_ROWS, hooks)
            arriving[operator.node] = self._made(operator, pieces, floors_us, hooks)
        yield from self._find(self.root, arriving, most_rows, hooks)

    def undo(self, before: Sequence[Learned]) -> None:
        """Take back what was stored and learned in a batch that failed."""
        for node, mark in self.marks.items():
            self.sides[node].undo(mark)
        self.marks, self.entered = {}, self._entered_before
        for operator, learned in zip(self.operators, before, strict=True):
            operator.join.learned = learned

    def done(self, before: Sequence[Learned], arrived: Arriving) -> int:
        """A batch is done: remember what it asked of the inputs; how many probes it took."""
        probes = 0
        for operator, learned in zip(self.operators, before, strict=True):
            sides = [self.sides.get(child) for child in operator.node]
            indexing.learn(operator.join, learned, sides, [arrived.get(child) for child in operator.node])
            probes += int((operator.join.learned.tallies[PROBES] - learned.tallies[PROBES]).sum())
        return probes

    def foreseen(self, arriving: Arriving) -> dict[tuple[Plan, ...], Known]:
        """Return what every operator knows before anything of a batch is stored."""
        known = {}
        for operator in self.operators:
            rows = [len(r) if (r := arriving.get(child)) is not None else 0 for child in operator.node]
            stored = [s.seen(s.count) if (s := self.sides.get(child)) else 0 for child in operator.node]
            known[operator.node] = operator.join.known(rows, stored)
        return known

    def rebuild(self, floors_us: Sequence[int], nodes: Collection[Plan] | None = None) -> None:
        """Make the rows of all intermediates again, or of some; nothing is emitted or learned.

        Needed where a state comes back with another plan, and where rationed probes have left rows out. Each
        combination of the rows stored below arises once, as in a batch that brings all of them.
        """
        self.remade += 1
        for operator in self.operators[:-1]:
            unknown = operator.combining is None or operator.silent
            if unknown or (nodes is not None and operator.node not in nodes):
                continue
            self.rebuilt.add(operator.node)
            before, side = operator.join.learned.copy(), self.sides[operator.node]
            side.forget(range(side.first, side.count), Reason.REMAKE)
            sides = [self.sides[child] for child in operator.node]
            for source in sides:
                source.leave_out_gone()
            buffers = [range(s.first, s.count) for s in sides]
            if operator.firsts is not None:
                operator.firsts.start([s.first for s in sides])
            pieces = operator.join.combinations(sides, buffers, PIECE_ROWS)
            rows = self._made(operator, ((sides, piece) for piece in pieces), floors_us, Hooks())
            if rows is not None:
                side.append(rows)
            operator.join.learned = before

    def rebuild_probes(self, node: Plan) -> int:
        """Estimate how many probes it takes to make an intermediate's rows again."""
        inputs = next(operator.node for operator in self.operators if operator.node == node)
        stored = {child: side.seen(side.count) for child, side in self.sides.items()}
        return sum(stored.get(c, 0) for c in inputs) + stored.get(node, 0) * (len(inputs) - 2)

    # parts of the above

    def _find(self, operator: Operator, arriving: Arriving, most_rows: int, hooks: Hooks) -> Iterator[Found]:
        """Store what arrives at an operator's inputs, and find what it completes, and what it owes."""
        rows = [arriving.get(child) for child in operator.node]
        for place, entering in enumerate(rows):
            if entering is not None and len(entering):
                for arrived in hooks.arrived:
                    arrived(operator.number, place, entering)
        indexing.choose(operator.join, [self.sides.get(child) for child in operator.node], rows)
        buffers = [self._store(child, entering) for child, entering in zip(operator.node, rows, strict=True)]
        if operator.firsts is not None:
            operator.firsts.start([buffer.start for buffer in buffers])
        if (
            operator.combining is None or operator.silent
        ):  # a stream below has brought nothing yet, or must not
            operator.join.pass_over(buffers)
            return
        sides = [self.sides[child] for child in operator.node]
        ration = functools.partial(hooks.allow, operator.node) if hooks.allow else None
        for piece in operator.join.combinations(sides, buffers, most_rows, ration):
            yield sides, piece
        for owed in hooks.owed:
            yield from owed(operator.number)

    def _store(self, node: Plan, rows: Rows | None) -> range:
        """Store what arrives at an input; return its positions."""
        if (side := self.sides.get(node)) is None:
            return range(0)
        self.entered[node] = 0 if rows is None else len(rows)
        self.marks[node] = mark = side.reserve(self.entered[node])
        if rows is not None:
            side.append(rows)
        return range(mark.count, side.count)

    def _made(
        self, operator: Operator, pieces: Iterator[Found], floors_us: Sequence[int], hooks: Hooks
    ) -> Rows | None:
        """The combinations of a lower operator as rows that arrive at the one above."""
        batches = []
        for sides, piece in pieces:
            assert operator.combining is not None
            holding = operator.combining.holding(sides, piece, floors_us)
            if operator.firsts is not None:
                holding = operator.firsts.pick(sides, holding)
            if holding.shape[1]:
                batches.append(operator.combining.batch(sides, holding))
                for found in hooks.found:
                    found(operator.number, sides, holding)
        if operator.combining is None:
            return None
        source = operator.combining.output
        made = pa.concat_batches(batches) if batches else no_rows(source.schema)
        return self.above(source.node).entering(source, made)

    def _side(self, source: Input) -> SideState:
        allocate = self._allocate(source.name) if self._allocate else in_memory
        memory = self._query.memory
        columns = [] if source.leaf else [ENDS]
        if self._query.promises or memory is not None:
            columns += [GONE, CHECK]
        if memory is not None and memory.one_sided:
            columns.append(BORN)
        stream = next((s for s in self._query.streams if s.name == source.node), None)
        if self._query.kinds.optional and (
            source.node == self._query.kinds.core_node or (stream and stream.how == "full")
        ):
            columns.append(FINAL)
        window = stream.count_window if stream is not None else None
        if stream is not None and self._query.counts_apart(stream):
            columns += [COUNTED, NEXT_COUNTED]
        return SideState(source.name, source.schema, columns, allocate, window=window)
