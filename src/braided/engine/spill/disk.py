"""What of a join's state is on disk: groups written in generations, taken back, dropped once they are dead.

Nothing here decides; `feature` does, by the policies. What is written is first on disk and only then
forgotten in memory, so a write that fails loses nothing. Saved states have the rows with them, or only where
they lie, if their store lasts as long as the state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine.features import Host
from braided.engine.operators.operator import Operator
from braided.engine.sides.groups import drop_groups, in_groups, ordered_by_group
from braided.engine.sides.side import Reason, Rows, SideState, concat_rows
from braided.engine.sides.storable import conform
from braided.engine.spill.files import LastingStore, Piece, Spill, Store, described, read_rows
from braided.engine.spill.generations import Generations, Stored
from braided.engine.spill.group_statistics import GroupStatistics
from braided.engine.state import EngineState, Table
from braided.policies.arrays import Bools, Floats, Int64s
from braided.policies.flush.state_manager import owed_after_flush
from braided.query.bounds import INFINITE_US
from braided.query.errors import InvalidValue
from braided.query.memory import Memory
from braided.query.plan_tree import Plan
from braided.query.windows import CountWindow

_PREFIX = "spill/"  # of parts with rows
IN_MEMORY = 1 << 62  # the number of the generation to come
AT_ONCE_BYTES = 1 << 20  # a group that is not larger is read at once, whatever the limit is
SMALL_SHARE = 0.125  # of the limit: how large a piece of an oversized group is, so that it is left as it is


class Disk:
    """The partition groups of one engine's operators that have rows on disk, and what they owe."""

    def __init__(self, host: Host) -> None:
        assert host.query.memory is not None
        self._host, self._query, self.tree = host, host.query, host.tree
        self.memory = host.query.memory
        self.bits = self.memory.group_bits
        operators, groups = self.tree.operators, 1 << self.bits
        self.store: Store = host.site.store or Spill(self.memory.directory)
        self.generations = [Generations(len(o.node), groups) for o in operators]
        self.owed = np.zeros((len(operators), groups))
        self.met = np.zeros((len(operators), groups), np.int64)  # when a group's rows last met
        self.statistics = GroupStatistics(host, self.memory)
        self.tick = 0  # flushes and steps, in their order
        self.flushed_rows = 0

    def rows(self, node: Plan) -> int:
        """Rows of an input on disk."""
        operator = self.tree.above(node)
        return int(self.generations[operator.number].rows[operator.node.index(node)].sum())

    def bytes_in_memory(self, operator: Operator) -> Floats:
        """About how many bytes groups on disk take in memory."""
        row_bytes = np.array([self.statistics.row_bytes[child] for child in operator.node])
        return np.asarray(row_bytes @ self.generations[operator.number].rows)

    def read(
        self, operator: Operator, groups: Bools, *, with_memory: bool, smaller: Floats | None = None
    ) -> list[tuple[Rows, Int64s]]:
        """By input: rows of some groups, generation by generation, and the numbers of their generations.

        With `smaller` only of pieces with fewer rows than it says for their group.
        """
        stored = self.generations[operator.number].of(groups, smaller)
        read = self.store.read(s.piece for s in stored)
        inputs = []
        for place, child in enumerate(operator.node):
            side = self.tree.sides[child]
            here = [s for s in stored if s.place == place]
            batches = [read.pop(s.piece) for s in here]  # each is there only once
            batches.append(described(in_groups(side, groups & with_memory)))
            numbers = np.array([*(s.number for s in here), IN_MEMORY])
            rows = together([b for b in batches if b.num_rows] or batches[-1:], side.payload.schema)
            inputs.append((rows, np.repeat(numbers, [b.num_rows for b in batches])))
        return inputs

    def oversized(self, operator: Operator) -> Bools:
        """Which groups on disk are larger than the limit; not if rows must be counted, which takes all."""
        most = max(self.memory.limit_bytes, AT_ONCE_BYTES)
        return (self.bytes_in_memory(operator) > most) & (not self._query.counts)

    def small_rows(self, operator: Operator) -> Floats:
        """By group: pieces with fewer rows are small enough to be read all at once."""
        small = SMALL_SHARE * self.memory.limit_bytes / self.statistics.mean_row_bytes
        return np.where(self.oversized(operator), small, np.inf)

    # to disk

    def flush(self, operator: Operator, groups: Bools) -> None:
        """Write groups of one operator to disk: the same of every input, or `groups` by input."""
        self.flushed(operator, groups, [self.write(operator, groups)])

    def write(self, operator: Operator, groups: Bools) -> list[dict[int, Piece]]:
        """The rows in memory of some groups on disk, by input and group; memory still has them."""
        held = (in_groups(s, chosen) if s else None for s, chosen in self._by_input(operator, groups))
        return self.write_rows(operator, held)

    def write_rows(self, operator: Operator, inputs: Iterable[Rows | None]) -> list[dict[int, Piece]]:
        """Write rows of an operator's inputs to disk; the pieces by input and group."""
        groups: dict[int, list[int]] = {}

        def parts() -> Iterator[tuple[Rows, Int64s, Int64s | None]]:
            for place, rows in enumerate(inputs):
                if rows is not None and len(rows):
                    rows, groups[place], bounds = ordered_by_group(rows, self.bits)
                    yield rows, bounds, self._ends_us(operator.node[place], rows)

        written = dict(zip(groups, self.store.write(parts()), strict=True))
        places = range(len(operator.node))
        return [dict(zip(groups.get(p, ()), written.get(p, ()), strict=True)) for p in places]

    def flushed(self, operator: Operator, groups: Bools, written: list[list[dict[int, Piece]]]) -> None:
        """Memory gives up what was written, at once or in turns."""
        self.tick += 1
        self.flushed_rows += sum(self.add(operator.number, self.tick, pieces) for pieces in written)
        self.forget(operator, groups)
        if operator.combining is None:  # an input has brought nothing yet, so nothing is owed
            self.meet(operator.number, self.generations[operator.number].groups)

    def forget(self, operator: Operator, groups: Bools) -> None:
        """Memory forgets some groups of an operator: the same of every input, or `groups` by input."""
        for side, chosen in self._by_input(operator, groups):
            if side is not None:
                drop_groups(side, chosen)

    def _by_input(self, operator: Operator, groups: Bools) -> Iterator[tuple[SideState | None, Bools]]:
        by_input = np.broadcast_to(groups, (len(operator.node), groups.shape[-1]))
        return zip(map(self.tree.sides.get, operator.node), by_input, strict=True)

    # on disk

    def add(self, operator: int, number: int, pieces: list[dict[int, Piece]]) -> int:
        """One more generation of an operator is on disk, by input and group; how many rows."""
        generations = self.generations[operator]
        before = generations.rows.astype(np.float64)
        for place, by_group in enumerate(pieces):
            for group, piece in by_group.items():
                generations.put(group, Stored(number, place, piece))
        rows = generations.rows - before
        more = owed_after_flush(before, rows, self.statistics.of[operator].unique())
        self.owed[operator] += np.maximum(more, rows.any(axis=0)) if self.memory.one_sided else more
        return int(rows.sum())

    def meet(self, operator: int, groups: Bools) -> None:
        """All rows of some groups have met."""
        self.generations[operator].meet(groups)
        self.met[operator, groups] = self.tick
        self.owed[operator, groups] = 0.0

    def drop(self, operator: int, groups: Bools, smaller: Floats | None = None) -> None:
        """Some groups' rows on disk are needed no more, or only those of smaller pieces."""
        self.store.drop(self.generations[operator].drop(groups, smaller=smaller))

    def past_rows(self) -> tuple[int, int]:
        """The rows on disk, and those of them in pieces that the watermark has passed."""
        rows = sum(int(generations.rows.sum()) for generations in self.generations)
        if not self._query.windowed:
            return rows, 0
        pieces = (stored.piece for generations in self.generations for _, stored in generations)
        watermark_us = self._host.settled_us
        return rows, sum(p.rows for p in pieces if p.dies_us < watermark_us)

    def drop_dead(self, watermark_us: int) -> None:
        """Forget what the watermark has passed, of groups whose rows have met."""
        if not self._query.windowed:
            return
        for operator in self.tree.operators:
            generations = self.generations[operator.number]
            before = generations.rows.sum(axis=1)
            self.store.drop(generations.drop(~generations.owing, watermark_us))
            for child, rows in zip(operator.node, before - generations.rows.sum(axis=1), strict=True):
                self.count_dead(child, int(rows))

    def living(self, child: Plan, rows: Rows, watermark_us: int) -> Bools:
        """Which rows of an input the watermark has not passed, nor newer rows pushed out of a count window.

        They are in order of time, and all that there are of their groups.
        """
        ends_us = self._ends_us(child, rows) if len(rows) else None
        living = np.ones(len(rows), np.bool_) if ends_us is None else np.asarray(ends_us >= watermark_us)
        window = self.tree.sides[child].window
        return living if window is None else living & _inside_at_last(rows, window)

    def count_dead(self, child: Plan, rows: int) -> None:
        """Count rows that the watermark has passed."""
        if isinstance(child, str):
            self._host.counters[self._query.names.index(child)].expired_rows += rows
        else:
            self.tree.sides[child].forgotten[Reason.EXPIRE] += rows

    def count_purged(self, child: Plan, rows: int) -> None:
        """Count rows that can join no more by what streams promised."""
        if isinstance(child, str):
            self._host.counters[self._query.names.index(child)].purged_rows += rows

    # from and to a checkpoint

    def save(self, state: EngineState) -> dict[str, Any]:
        """Plain numbers, and by operator and input the rows on disk, each with its generation's number."""
        self._check_flush("snapshot", on_disk=any(self.generations))
        numbers: dict[str, Any] = {
            "tick": self.tick,
            "lineage": self.memory.lineage,
            "groups": 1 << self.bits,
            "on_disk": any(self.generations),
            "owed": self.owed.tolist(),
            "generations": {},  # by part, the numbers of its batches' generations
            **self.statistics.save(),
        }
        if isinstance(self.store, LastingStore):
            numbers["began"] = self.statistics.began
            numbers["pieces"] = [
                [[group, s.number, s.place, self.store.place(s.piece)] for group, s in generations]
                for generations in self.generations
            ]
            return numbers
        for operator, generations in enumerate(self.generations):
            for place in range(len(generations.rows)):
                here = [s for _, s in generations if s.place == place]
                read = self.store.read(s.piece for s in here)
                if here:
                    batches = [read[s.piece] for s in here]
                    state.parts[part := f"{_PREFIX}{operator}/{place}"] = Table(batches[0].schema, batches)
                    numbers["generations"][part] = [s.number for s in here]
        return numbers

    def load(self, state: EngineState, numbers: Mapping[str, Any]) -> None:
        """Go on from what was saved with the same plan; rows that were saved may be put into other groups."""
        self._check_flush("restore", on_disk=bool(numbers["generations"]))
        self.tick = numbers["tick"]
        self.statistics.load(numbers)
        store: Any = self.store
        for generations, pieces in zip(self.generations, numbers.get("pieces", ()), strict=False):
            for group, number, place, piece in pieces:
                generations.put(group, Stored(number, place, store.piece_at(piece)))
        saved: dict[tuple[int, int], dict[int, list[Rows]]] = {}
        for part, of_batches in numbers["generations"].items():
            which, place = map(int, part.removeprefix(_PREFIX).split("/"))
            for number, batch in zip(of_batches, state.part(part).batches, strict=True):
                saved.setdefault((number, which), {}).setdefault(place, []).append(read_rows(batch))
        for (number, which), inputs in sorted(saved.items()):
            operator = self.tree.operators[which]
            rows = (concat_rows(inputs[i]) if i in inputs else None for i in range(len(operator.node)))
            self.add(which, number, self.write_rows(operator, rows))
        owed = np.array(numbers["owed"])
        if owed.shape == self.owed.shape:
            self.owed = owed

    def _check_flush(self, action: str, *, on_disk: bool) -> None:
        if self.memory.one_sided and on_disk:
            raise InvalidValue(
                f"{action}: rows are on disk, and with flush={self.memory.flush!r} a saved state cannot tell "
                "which have met; use flush='adaptive-global'"
            )

    def _ends_us(self, child: Plan, rows: Rows) -> Int64s | None:
        if not self._query.windowed:
            return None
        if rows.ends is not None:
            return rows.ends
        if not isinstance(child, str):
            raise InvalidValue("this saved state is damaged: intermediate rows do not tell when they end")
        retention_us = self._query.bounds.retention_us(self._query.names.index(child))
        return None if retention_us >= INFINITE_US else rows.times + retention_us


def together(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> Rows:
    """Rows of several batches, in today's columns; copied once if all have the same ones."""
    if all(batch.schema.equals(batches[0].schema, check_metadata=True) for batch in batches):
        batches = [pa.concat_batches(batches)] if len(batches) > 1 else batches
    rows = map(read_rows, batches)
    return concat_rows([dataclasses.replace(r, batch=conform(r.batch, schema)) for r in rows])


def _inside_at_last(rows: Rows, window: CountWindow) -> Bools:
    """Which rows, in order of time, are still inside a count window by key after the last of them."""
    checks = rows.hashes if rows.checks is None else rows.checks
    order = np.lexsort((checks, rows.hashes))
    keys, at = (rows.hashes[order], checks[order]), np.arange(len(order))
    last_of_key = np.append(np.logical_or(*(key[1:] != key[:-1] for key in keys)), True)
    last_of_time = last_of_key | np.append(np.diff(rows.times[order]) != 0, True)
    behind = [np.flatnonzero(last)[np.cumsum(last) - last] for last in (last_of_key, last_of_time)]
    inside = np.empty(len(at), np.bool_)
    inside[order] = behind[0] - behind[1] < window.rows
    return inside


def check_saved(numbers: Mapping[str, Any], memory: Memory | None, *, same_plan: bool) -> None:
    """Raise if rows that are not in memory cannot be used as the join is asked for now."""
    if not numbers.get("on_disk"):
        return
    if memory is None or not same_plan:
        raise InvalidValue(
            "this state has rows on disk that owe results, or groups of keys that are not in memory: go on "
            "with the plan and a memory budget as when it was saved (the limit may differ), or start afresh"
        )
    if "pieces" in numbers and numbers["groups"] != 1 << memory.group_bits:
        raise InvalidValue(
            "this state was saved with another number of groups; go on with "
            f"bd.Memory(groups={numbers['groups']}), or start afresh"
        )
