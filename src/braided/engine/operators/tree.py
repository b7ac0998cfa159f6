"""A plan's operators and the states between them: new rows of the streams in, combinations of the root out.

In a batch the operators run one after the other, producers before consumers. What arrives at an operator's
inputs is stored first; then the combinations it completes are found, and are what arrives at the next one. A
batch that fails is taken back from `marks`: nothing is forgotten while it runs.

A tree may be only a part of a plan (`Subplan`): then intermediate rows that were made elsewhere arrive, too,
and its root finds what is handed on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from braided.engine.operators import indexing
from braided.engine.operators.inputs import Input, described, leaf
from braided.engine.operators.layout import Layout, check_key_types
from braided.engine.operators.learned import Learned
from braided.engine.operators.mjoin import Buffer, Positions
from braided.engine.operators.operator import Operator
from braided.engine.sides.columns import BORN, CHECK, ENDS, GONE, Allocate, in_memory
from braided.engine.sides.side import Mark, Reason, Rows, SideState
from braided.engine.sides.storable import no_rows
from braided.policies.choice import Policies
from braided.policies.decisions import Rations, Turn
from braided.policies.rationing import Known
from braided.policies.statistics import IntermediateStatistics
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan, label, operators
from braided.query.subplans import Subplan, whole

Arriving = dict[Plan, Rows | None]  # what is to be stored, by input
Found = tuple[Sequence[SideState], Positions]  # combinations, and the states that their rows are in
RationOperator = Callable[[tuple[Plan, ...], Turn], Rations | None]
PIECE_ROWS = 1 << 18


@dataclass(frozen=True)
class Hooks:
    """Who is told what operators, by number, take in and find, and who says what they owe and may probe."""

    arrived: Sequence[Callable[[int, int, Rows], None]] = ()
    found: Sequence[Callable[[int, Sequence[SideState], Positions], None]] = ()
    owed: Sequence[Callable[[int], Iterator[Found]]] = ()
    allow: RationOperator | None = None


class Tree:
    """The operators of one plan, producers first, and the states of all their inputs."""

    def __init__(
        self,
        query: JoinQuery,
        policies: Callable[[tuple[Plan, ...]], Policies],
        allocate: Callable[[str], Allocate] | None = None,
        subplan: Subplan | None = None,
    ) -> None:
        self._query, self._allocate = query, allocate
        self.subplan = subplan or whole(query.graph, query.tree)
        self.operators = [
            Operator(query, node, number, policies(node))
            for number, node in enumerate(operators(query.tree))
            if node in self.subplan.operators
        ]
        self.sides: dict[Plan, SideState] = {}
        self.inputs: dict[Plan, Input] = {}
        self.marks: dict[Plan, Mark] = {}  # where each side stood before the latest batch
        self.rebuilt: set[Plan] = set()  # intermediates made again since the state was last written

    @property
    def root(self) -> Operator:
        """The operator that finds results, or what is handed on."""
        return self.operators[-1]

    @property
    def intermediates(self) -> list[tuple[Input, SideState]]:
        """What lower operators made."""
        nodes = self.subplan.intermediates
        return [(self.inputs[node], self.sides[node]) for node in nodes if node in self.sides]

    def above(self, node: Plan) -> Operator:
        """The operator that a stream or an intermediate is an input of."""
        return next(operator for operator in self.operators if node in operator.node)

    def of_inputs(self, operator: Operator) -> list[SideState]:
        """The states of an operator's inputs, once all are known."""
        return [self.sides[child] for child in operator.node]

    # what is known

    def learn(self, layouts: Sequence[Layout]) -> None:
        """The schemas of some streams are known; types that cannot meet raise, and nothing has changed."""
        check_key_types(self._query, layouts)
        for layout in layouts:
            self.inputs.setdefault(layout.stream.name, leaf(layout))
        by_name = {layout.stream.name: layout for layout in layouts}
        for node in self.subplan.handed:
            if node not in self.inputs and (source := described(node, by_name)) is not None:
                self.inputs[node] = source
        for operator in self.operators:
            operator.learn([self.inputs.get(child) for child in operator.node], layouts)
            if operator.combining is not None:
                self.inputs.setdefault(operator.node, operator.combining.output)
        for layout in layouts:
            if (name := layout.stream.name) in self.subplan.streams and name not in self.sides:
                self.sides[name] = self._side(name, layout.stored_schema)
        for node in self.subplan.intermediates:
            if node in self.inputs and node not in self.sides:
                self.sides[node] = self._side(node, self.inputs[node].schema)

    def remember(self) -> Callable[[], None]:
        """What is known now; calling the answer goes back to it."""
        sides, inputs = dict(self.sides), dict(self.inputs)
        known = [(o, o.combining, o.keys) for o in self.operators]

        def forget() -> None:
            self.sides, self.inputs = sides, inputs
            for operator, combining, keys in known:
                operator.combining, operator.keys = combining, keys

        return forget

    def start(self) -> list[Learned]:
        """A batch begins: a copy of what every operator has learned, to go back to."""
        self.marks = {}
        return [operator.join.learned.copy() for operator in self.operators]

    # a batch

    def run(
        self,
        arriving: Arriving,
        floors_us: Sequence[int],
        most_rows: int,
        hooks: Hooks,
    ) -> Iterator[Found]:
        """The new combinations of the last operator, at most `most_rows` at a time."""
        for operator in self.operators[:-1]:
            found = self._found(operator, arriving, PIECE_ROWS, hooks)
            arriving[operator.node] = self.made(operator, found, floors_us, hooks)
        yield from self._found(self.root, arriving, most_rows, hooks)

    def entering(self, source: Input, batch: pa.RecordBatch) -> Rows:
        """Intermediate rows as they arrive at the operator above."""
        return self.above(source.node).entering(source, batch)

    def undo(self, before: Sequence[Learned]) -> None:
        """Take back what was stored and learned in a batch that failed."""
        for node, mark in self.marks.items():
            self.sides[node].undo(mark)
        self.marks = {}
        for operator, learned in zip(self.operators, before, strict=True):
            operator.join.learned = learned

    def done(self, before: Sequence[Learned], arrived: Arriving) -> int:
        """A batch is done: remember what it asked of the inputs; how many probes it took."""
        probes = 0
        for operator, learned in zip(self.operators, before, strict=True):
            sides = [self.sides.get(child) for child in operator.node]
            indexing.learn(operator.join, learned, sides, [arrived.get(child) for child in operator.node])
            probes += operator.join.learned.probed_since(learned)
        return probes

    def foreseen(self, arriving: Arriving) -> dict[tuple[Plan, ...], Known]:
        """What every operator knows before anything of a batch is stored."""
        found = {}
        for operator in self.operators:
            rows = [len(r) if (r := arriving.get(child)) is not None else 0 for child in operator.node]
            stored = [s.seen(s.count) if (s := self.sides.get(child)) else 0 for child in operator.node]
            found[operator.node] = Known(*operator.join.known(rows, stored))
        return found

    def expire(self, watermark_us: int, retained: Collection[Plan] = ()) -> None:
        """Forget intermediate rows that the watermark has passed, except of some inputs."""
        for source, side in self.intermediates:
            if source.node not in retained:
                side.expire(watermark_us)

    # from and to a checkpoint

    def save(self) -> list[dict[str, Any]]:
        """What the operators have learned, as plain numbers."""
        return [operator.join.learned.save() for operator in self.operators]

    def load(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Go on from what was learned with the same plan."""
        for operator, learned in zip(self.operators, saved, strict=True):
            operator.join.load(learned)

    def statistics(self) -> dict[str, IntermediateStatistics]:
        """Of the intermediates, by name."""
        return {
            label(source.node): IntermediateStatistics(
                side.rows, side.nbytes, side.forgotten[Reason.EXPIRE] + side.forgotten[Reason.SHED]
            )
            for source, side in self.intermediates
        }

    # parts of the above

    def _found(self, operator: Operator, arriving: Arriving, most_rows: int, hooks: Hooks) -> Iterator[Found]:
        """Store what arrives at an operator's inputs, and find what it completes, and what it owes."""
        if hooks.arrived:
            for place, child in enumerate(operator.node):
                if (rows := arriving.get(child)) is not None and len(rows):
                    for arrived in hooks.arrived:
                        arrived(operator.number, place, rows)
        for piece in self._combinations(operator, arriving, most_rows, hooks.allow):
            yield self.of_inputs(operator), piece
        if operator.combining is not None:
            for owed in hooks.owed:
                yield from owed(operator.number)

    def _combinations(
        self, operator: Operator, arriving: Arriving, most_rows: int, ration: RationOperator | None
    ) -> Iterator[Positions]:
        """Store what arrives at an operator's inputs, and find what it completes."""
        sides = [self.sides.get(child) for child in operator.node]
        rows = [arriving.get(child) for child in operator.node]
        indexing.choose(operator.join, sides, rows)
        buffers = []
        for child, side, entering in zip(operator.node, sides, rows, strict=True):
            if side is None:
                buffers.append(Buffer(0, 0))
                continue
            self.marks[child] = mark = side.reserve(0 if entering is None else len(entering))
            if entering is not None:
                side.append(entering)
            buffers.append(Buffer(mark.count, side.count))
        if operator.combining is None:  # a stream below has brought nothing yet, so nothing can match
            operator.join.pass_over(buffers)
            return
        allowed = functools.partial(ration, operator.node) if ration else None
        yield from operator.join.combinations(self.of_inputs(operator), buffers, most_rows, allowed)

    def made(
        self, operator: Operator, pieces: Iterator[Found], floors_us: Sequence[int], hooks: Hooks
    ) -> Rows | None:
        """The combinations of a lower operator as rows that arrive at the one above."""
        batches = []
        for sides, piece in pieces:
            assert operator.combining is not None
            holding = operator.combining.holding(sides, piece, floors_us)
            if holding.shape[1]:
                batches.append(operator.combining.batch(sides, holding))
                for found in hooks.found:
                    found(operator.number, sides, holding)
        if operator.combining is None:
            return None
        source = operator.combining.output
        made = pa.concat_batches(batches) if batches else no_rows(source.schema)
        return self.entering(source, made)

    def _side(self, node: Plan, schema: pa.Schema) -> SideState:
        allocate = self._allocate(label(node)) if self._allocate else in_memory
        memory = self._query.memory
        added = [GONE, CHECK] if self._query.promises or memory is not None else []
        if memory is not None and memory.one_sided:
            added.append(BORN)
        if isinstance(node, str):
            stream = self._query.streams[self._query.names.index(node)]
            return SideState(node, schema, added, allocate, window=stream.count_window)
        return SideState(label(node), schema, [ENDS, *added], allocate)
