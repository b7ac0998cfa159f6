"""A join's state within its memory budget: what goes to disk, and when it is joined from there.

Rows are flushed before a batch, to make room for it; owed combinations are found in steps of their own before
a batch (`due`), or after the last one (`finishing`). A step is whole or not at all: until it is committed
nothing has changed but that rows may have moved to disk, which no result can show.

An operator *owes* combinations of rows that were never in memory together (see `operators.merging`). Where
merges wait (`defer`), any row of an operator with rows on disk may be owed to them, and any row of those
above to what will come of that; so none of these expire. Once more than half of what is on disk would have,
all is settled from below: what is in memory of groups with rows on disk is flushed, all is merged, and pieces
that have died go. So the work and the room on disk are in proportion to the rows that live. Without `defer`
groups with rows on disk have none in memory between batches, and nothing is owed.

Memory: rows that were flushed hold their room until a side is rebuilt without them. So that this is seldom,
only a part of the limit is for rows that are found, and the rest for those that are gone.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from braided.operators.merging import across, apart
from braided.operators.mjoin import Positions
from braided.operators.operator import Operator
from braided.operators.tree import Found, Tree
from braided.policies.flush import registry
from braided.policies.flush.question import Decision, Groups, Setting
from braided.policies.flush.state_manager import owed_after_flush
from braided.query.bounds import INFINITE_US
from braided.query.errors import InvalidValue
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan, leaves
from braided.runtime.group_counts import GroupCounts
from braided.state.freeing import free_at_once, give_back
from braided.state.generations import Generation, Generations, by_number
from braided.state.keys import Bools, Int64s
from braided.state.side import Rows, SideState, by_group, group_of
from braided.state.spill import Piece, Spill, Store, by_numbers, numbered
from braided.state.storable import conform

_LIVE_SHARE = 0.75  # of the limit: rows that may be found; the rest is for those that are gone
_MERGE_SHARE = 0.125  # of the limit: rows that are merged at a time, and rows that wait meanwhile
_GIVE_BACK_SHARE = 0.25  # of the limit: what may be free and not given back
_PIECE_ROWS = 1 << 17
_FIRST_RATE = 1e6  # rows a second that a merge takes, until it is measured
_DECISIONS = 256
_MOST_PIECES = 8  # of a group and input, before they are written as one
_IN_MEMORY = 1 << 62  # the number of the generation to come
_ROW_BYTES = 40  # of a stored row, besides its columns: hash, time, link and its part of the index


@dataclass
class _Task:
    """Groups of one operator whose generations are to meet in this step."""

    groups: Bools
    with_memory: bool  # rows in memory are the latest generation
    last: bool = False  # nothing more arrives, so all may be dropped afterwards
    pieces: list[dict[int, Piece]] = field(default_factory=list)  # rows in memory, already written
    anew: Bools | None = None  # groups of which these are all rows, because they had many pieces
    leaves: bool = False  # rows in memory are written, and go


Tasks = dict[int, _Task]  # by number of operator


class Spilling:
    """What of one engine's state is on disk."""

    def __init__(
        self, query: JoinQuery, tree: Tree, clock: Callable[[], float], store: Store | None = None
    ) -> None:
        """Rows that are not in memory go to `store`; None: to files."""
        assert query.memory is not None
        self._memory, self._query, self._tree, self._clock = query.memory, query, tree, clock
        self._bits = self._memory.group_bits
        self._spill: Store = Spill(self._memory.directory) if store is None else store
        free_at_once()
        shape = [(len(o.node), 1 << self._bits) for o in tree.operators]
        self.generations = [Generations(*s) for s in shape]
        self._owed = [np.zeros(groups) for _, groups in shape]
        self._row_bytes = {child: 64.0 for o in tree.operators for child in o.node}
        self._counts = [GroupCounts(self._memory, inputs, len(shape)) for inputs, _ in shape]
        self._defers = self._memory.defer is not False  # or rows were restored that may owe something
        if self._defers and query.emit_punctuations:
            raise InvalidValue(
                "emit_punctuations needs bd.Memory(..., defer=False): a key is complete when all its results "
                "are out, and with defer they may wait on disk"
            )
        self._along = self._memory.flush == "adaptive-global" and self._memory.state_manager
        self._tick = 0  # flushes and steps, in their order
        self._met = [np.zeros(groups, np.int64) for _, groups in shape]  # when all rows of a group last met
        self.flushed_rows = self.read_rows = 0
        self.expired_rows: collections.Counter[Plan] = collections.Counter()  # on disk, and not yet told
        self._free = 0.0  # bytes that were freed since memory was given back
        self._began = clock()
        self._rate = self._memory.disk_rate or _FIRST_RATE
        self._tasks: Tasks = {}
        self._merged = [0, 0.0]  # rows, seconds of this step
        self._shuffle = np.random.default_rng(query.tuning.seed)
        self.decisions: collections.deque[Decision] = collections.deque(maxlen=_DECISIONS)
        self.merges = 0

    # what others ask

    @property
    def bytes(self) -> int:
        """Bytes on disk."""
        return self._spill.bytes

    @property
    def held(self) -> int:
        """Bytes of stored rows in memory, of their indexes, and of what is known of groups."""
        return sum(s.nbytes for s in self._tree.sides.values()) + sum(c.nbytes for c in self._counts)

    def rows(self, node: Plan) -> int:
        """Rows of an input on disk."""
        operator = self._tree.above(node)
        return int(self.generations[operator.number].rows[operator.node.index(node)].sum())

    @property
    def keeps(self) -> set[Plan]:
        """The inputs whose rows may be owed to rows on disk, so that they must not expire."""
        if not self._defers:
            return set()
        spilled = [o.node for o in self._tree.operators if self.generations[o.number]]
        found: set[Plan] = set()
        for operator in self._tree.operators:
            below = leaves(operator.node)
            if any(set(leaves(node)) <= set(below) for node in spilled):
                found.update(operator.node)
        return found

    def on_disk(self, hashes: Int64s) -> Bools:
        """Which keys, by their hashes at every operator, are of groups with rows on disk."""
        spilled = np.zeros(1 << self._bits, np.bool_)
        for generations in self.generations:
            spilled |= generations.groups
        found: Bools = spilled[group_of(hashes, self._bits)]
        return found

    # flushing

    def make_room(self, incoming: int) -> None:
        """Flush, and give up rows that are gone, until so many bytes more fit."""
        limit, held = self._memory.limit_bytes, self.held
        if not incoming and held <= limit:
            return  # the next batch will say how much it needs
        gone = sum(s.gone_rows * self._row_bytes[node] for node, s in self._tree.sides.items())
        over = held - gone + incoming - _LIVE_SHARE * limit
        if over > 0:
            self._flush(max(over, self._memory.flush_share * limit))
        if held + incoming > limit:
            for side in self._tree.sides.values():
                side.leave_out_gone()
            self._freed(gone)

    def _flush(self, size: float) -> None:
        """Write the least useful groups to disk, so many bytes at least."""
        plan = [self._groups(o, with_rows=True) for o in self._tree.operators]
        chosen = registry.FLUSHES[self._memory.flush](plan, size)
        for operator in self._tree.operators:
            groups = np.zeros((len(operator.node), 1 << self._bits), np.bool_)
            for flush in chosen:
                if flush.operator == operator.number:
                    groups[slice(None) if flush.side is None else flush.side, flush.group] = True
            if groups.any():
                self._flush_groups(operator, groups)

    def _flush_groups(self, operator: Operator, groups: Any) -> None:
        """Write groups of one operator to disk; `groups` by input."""
        self._flushed(operator, groups, self._write(operator, groups))

    def _all_inputs(self, operator: Operator, groups: Bools) -> Any:
        """The same groups of every input."""
        return np.broadcast_to(groups, (len(operator.node), len(groups)))

    def _write(self, operator: Operator, groups: Any) -> list[dict[int, Piece]]:
        """The rows in memory of some groups on disk, by input and group; memory still has them."""
        sides = [self._tree.sides.get(child) for child in operator.node]

        def parts() -> Iterator[tuple[Rows, Int64s, Int64s | None]]:
            for child, side, mine in zip(operator.node, sides, groups, strict=True):
                if side is not None:
                    rows, bounds = side.in_groups(mine)
                    yield rows, bounds, self._ends_us(child, rows)

        pieces = iter(self._spill.write(parts()))
        written = [
            {} if side is None else dict(zip(np.flatnonzero(mine).tolist(), next(pieces), strict=True))
            for side, mine in zip(sides, groups, strict=True)
        ]
        self._spill.drop(p for found in written for p in found.values() if not p.rows)
        return [{g: p for g, p in found.items() if p.rows} for found in written]

    def _flushed(self, operator: Operator, groups: Any, written: list[dict[int, Piece]]) -> None:
        """Memory gives up what was written."""
        number, generations = operator.number, self.generations[operator.number]
        rows = np.zeros_like(generations.rows)
        for place, found in enumerate(written):
            for group, piece in found.items():
                rows[place, group] = piece.rows
        more = owed_after_flush(
            generations.rows.astype(float), rows.astype(float), self._counts[number].unique()
        )
        self._owed[number] += np.maximum(more, rows.any(axis=0)) if self._memory.one_sided else more
        self.flushed_rows += int(rows.sum())
        self._tick += 1
        generations.add(self._tick, written)
        self._drop(operator, groups)
        if operator.combining is None:  # an input has brought nothing yet, so nothing is owed
            for group in np.flatnonzero(generations.groups).tolist():
                self._meet(number, group)

    def _drop(self, operator: Operator, groups: Any) -> None:
        """Memory forgets some groups of an operator; `groups` by input."""
        for child, mine in zip(operator.node, groups, strict=True):
            if child in self._tree.sides:
                self._tree.sides[child].drop_groups(mine)

    def _meet(self, operator: int, group: int) -> None:
        """All rows of a group have met."""
        self.generations[operator].met(group)
        self._met[operator][group] = self._tick
        self._owed[operator][group] = 0.0

    def _ends_us(self, child: Plan, rows: Rows) -> Int64s | None:
        if not self._query.windowed:
            return None
        if rows.ends is not None:
            return rows.ends
        assert isinstance(child, str)
        retention_us = self._query.bounds.retention_us(self._query.names.index(child))
        return None if retention_us >= INFINITE_US else rows.times + retention_us

    # steps

    def due(self, watermark_us: int, *, idle: bool) -> Iterator[Tasks]:
        """What is to be merged before the next batch, step by step; if that is idle, memory gives nothing."""
        if self._defers and self._memory.defer is False:
            yield from self._all_owed()
            self._defers = False
        if self._defers and self._query.windowed:
            yield from self._settling(watermark_us)
        owing = any(owed.any() for owed in self._owed) or (self._along and any(self.generations))
        if self._defers and owing:
            decision = self._decision(idle=idle)
            if decision.merge is not None:
                groups = np.zeros(1 << self._bits, np.bool_)
                groups[decision.merge.group] = True
                with_memory = self._memory.one_sided or self._along
                yield {decision.merge.operator: _Task(groups, with_memory, leaves=self._along)}

    def finishing(self) -> Iterator[Tasks]:
        """All that is owed, from below, when nothing more arrives."""
        for operator in self._tree.operators:
            for groups in self._parts(operator, self.generations[operator.number].groups):
                yield {operator.number: _Task(groups, with_memory=True, last=True)}
            self._drop(operator, self._all_inputs(operator, np.ones(1 << self._bits, np.bool_)))
        self._spill.close()

    def begin(self, tasks: Tasks, watermark_us: int) -> None:
        """A step begins."""
        if not self._defers:
            self._drop_dead(watermark_us)
        self._tasks = dict(tasks)
        if not tasks:
            for counts in self._counts:
                counts.batch()
        self._merged = [0, 0.0]
        self._tick += 1
        for side in self._tree.sides.values():
            side.tick = self._tick

    def commit(self) -> None:
        """The step has found all it was to find."""
        for number, task in self._tasks.items():
            operator, generations = self._tree.operators[number], self.generations[number]
            if task.anew is not None:
                for group in np.flatnonzero(task.anew).tolist():
                    self._spill.drop(generations.drop(group))
            if task.pieces:
                self._flushed(operator, self._all_inputs(operator, task.groups), task.pieces)
            for group in np.flatnonzero(task.groups).tolist():
                self._meet(number, group)
                if task.last:
                    self._spill.drop(generations.drop(group))
            if task.last:
                self._drop(operator, self._all_inputs(operator, task.groups))
        self._tasks = {}
        self._after_interval()
        rows, seconds = self._merged
        self._freed(rows * sum(self._row_bytes.values()) / len(self._row_bytes))
        self.read_rows += int(rows)
        if rows and self._memory.disk_rate is None:
            self._rate = 0.5 * self._rate + 0.5 * rows / max(seconds, 1e-6)

    def abort(self) -> None:
        """The step has failed: what it wrote goes."""
        for task in self._tasks.values():
            self._spill.drop(p for found in task.pieces for p in found.values())
        self._tasks = {}

    # what the tree tells and asks

    def arrived(self, operator: int, place: int, rows: Rows) -> None:
        """Rows arrive at an input."""
        self._counts[operator].arrived(place, rows.hashes)
        child = self._tree.operators[operator].node[place]
        self._row_bytes[child] = rows.batch.nbytes / len(rows) + _ROW_BYTES
        if self._memory.one_sided:
            groups = group_of(rows.hashes, self._bits)
            spilled = self.generations[operator].groups
            self._owed[operator] += np.bincount(groups, minlength=len(spilled)) * spilled

    def found(self, operator: int, sides: Sequence[SideState], positions: Positions) -> None:
        """An operator has found combinations."""
        groups = sides[0].groups_at(positions[0], self._bits)
        self._counts[operator].found(groups)
        if operator != self._tree.root.number:
            return
        self._counts[operator].contributed(groups)
        for source, side, at in zip(self._inputs(self._tree.root), sides, positions, strict=True):
            for below in self._tree.operators[:-1]:
                if set(leaves(below.node)) <= set(source.streams):
                    self._counts[below.number].contributed(self._lineage(source, side, at, below))

    def merged(self, operator: int) -> Iterator[Found]:
        """The combinations that an operator owes, as far as this step is to find them."""
        which = self._tree.operators[operator]
        if not self._defers and operator not in self._tasks:
            self._add_cold(which)
        task = self._tasks.get(operator)
        if task is not None:
            if task.leaves:
                self._write_all(which, task)
            for groups in self._parts(which, task.groups) if task.with_memory else [task.groups]:
                yield from self._across(which, groups, with_memory=task.with_memory)

    # from and to a checkpoint

    def kept(self) -> tuple[dict[str, Any], dict[str, list[pa.RecordBatch]]]:
        """Plain numbers, and the rows on disk by operator and input, each with its generation's number."""
        if self._memory.one_sided and any(self.generations):
            raise InvalidValue(
                f"snapshot: rows are on disk, and with flush={self._memory.flush!r} they cannot be saved; "
                "use flush='adaptive-global'"
            )
        said = {
            "tick": self._tick,
            "counts": [counts.kept() for counts in self._counts],
            "owed": [owed.tolist() for owed in self._owed],
        }
        parts: dict[str, list[pa.RecordBatch]] = {}
        for operator, generations in zip(self._tree.operators, self.generations, strict=True):
            for place in range(len(operator.node)):
                several = [(g.number, p) for _, g in generations for p in g.pieces[place]]
                if several:
                    read = self._spill.read(p for _, p in several)
                    found = [numbered(read[piece], number) for number, piece in several]
                    parts[f"{operator.number}/{place}"] = found
        return said, parts

    def restore(self, said: Mapping[str, Any], parts: Mapping[str, Sequence[pa.RecordBatch]]) -> None:
        """Go on from what was kept, of the same plan; groups may be others."""
        if self._memory.one_sided and parts:
            raise InvalidValue(
                f"restore: rows are on disk, and flush={self._memory.flush!r} cannot tell which have met; "
                "use flush='adaptive-global'"
            )
        self._tick = said["tick"]
        for counts, kept in zip(self._counts, said["counts"], strict=True):
            counts.restore(kept)
        by_generation: dict[tuple[int, int], dict[int, Rows]] = {}
        for name, batches in parts.items():
            operator, place = map(int, name.split("/"))
            for number, rows in by_numbers(batches):
                by_generation.setdefault((number, operator), {})[place] = rows
        for (number, which), inputs in sorted(by_generation.items()):
            self._put_back(self._tree.operators[which], number, inputs)
        for mine, owed in zip(self._owed, said["owed"], strict=True):
            mine[:] = owed if len(owed) == len(mine) else mine
        self._defers |= any(self.generations)

    def _put_back(self, operator: Operator, number: int, inputs: Mapping[int, Rows]) -> None:
        """Write one generation's rows of an operator to disk."""
        pieces = [
            self._write_rows(child, inputs[place]) if place in inputs else {}
            for place, child in enumerate(operator.node)
        ]
        generations = self.generations[operator.number]
        before = generations.rows.astype(np.float64)
        generations.add(number, pieces)
        more = generations.rows - before
        self._owed[operator.number] += owed_after_flush(before, more, np.ones(more.shape[1]))

    def _write_rows(self, child: Plan, rows: Rows) -> dict[int, Piece]:
        """Write an input's rows to disk, by group."""
        groups = group_of(rows.hashes, self._bits)
        ordered = rows.take(by_group(groups))
        there = np.unique(groups)
        bounds = np.append(np.searchsorted(np.sort(groups), there), len(rows))
        (written,) = self._spill.write([(ordered, bounds, self._ends_us(child, ordered))])
        return dict(zip(there.tolist(), written, strict=True))

    def numbers(self) -> dict[str, Any]:
        """What a checkpoint keeps if rows are in a store of their own: numbers, and where pieces lie."""
        assert not self._defers
        return {
            "tick": self._tick,
            "began": self._began,
            "lineage": self._memory.lineage,
            "counts": [counts.kept() for counts in self._counts],
            "row_bytes": list(self._row_bytes.values()),
            "pieces": [
                [[group, [[p.kept() for p in pieces] for pieces in g.pieces]] for group, g in generations]  # type: ignore[attr-defined]
                for generations in self.generations
            ],
        }

    def restore_numbers(self, said: Mapping[str, Any], piece: Callable[[Any], Any]) -> None:
        """Go on from these numbers; `piece` reads where one lies. All of a group has met."""
        self._tick, self._began = said["tick"], said["began"]
        for counts, kept in zip(self._counts, said["counts"], strict=True):
            counts.restore(kept)
        self._row_bytes = dict(zip(self._row_bytes, said["row_bytes"], strict=True))
        for generations, groups in zip(self.generations, said["pieces"], strict=True):
            for group, inputs in groups:
                pieces = tuple(tuple(piece(p) for p in of_input) for of_input in inputs)
                generations.put(group, Generation(self._tick, pieces))
                self._spill.bytes += sum(p.size for of_input in pieces for p in of_input)

    # parts of the above

    def _add_cold(self, operator: Operator) -> None:
        """Groups with rows on disk that rows arrived for: they meet in this batch, and go to disk."""
        groups = self._held(operator).any(axis=0) & self.generations[operator.number].groups
        if groups.any():
            self._tasks[operator.number] = _Task(groups, with_memory=True, leaves=True)

    def _write_all(self, operator: Operator, task: _Task) -> None:
        """Write the rows in memory of a task's groups; where there are many pieces, all rows as one."""
        task.anew = task.groups & self.generations[operator.number].crowded(_MOST_PIECES)
        task.pieces = self._write(operator, self._all_inputs(operator, task.groups & ~task.anew))
        if task.anew.any():
            for place, (rows, _) in enumerate(self._read(operator, task.anew, with_memory=True)):
                task.pieces[place] |= self._write_rows(operator.node[place], rows)

    def _settling(self, watermark_us: int) -> Iterator[Tasks]:
        """All that is owed, from below, if most of what is on disk has died."""
        dead = sum(g.dead_rows(watermark_us) for g in self.generations)
        if 2 * dead <= sum(int(g.rows.sum()) for g in self.generations):
            return
        yield from self._all_owed()
        self._drop_dead(watermark_us)

    def _all_owed(self) -> Iterator[Tasks]:
        """All that is owed, from below; afterwards groups with rows on disk have none in memory."""
        for operator in self._tree.operators:
            generations = self.generations[operator.number]
            if generations:
                self._flush_groups(operator, self._all_inputs(operator, generations.groups))
            owing = generations.groups if self._memory.one_sided else generations.owing
            for groups in self._parts(operator, owing):
                yield {operator.number: _Task(groups, with_memory=False)}

    def _drop_dead(self, watermark_us: int) -> None:
        if self._query.windowed:
            for operator in self._tree.operators:
                generations = self.generations[operator.number]
                before = generations.rows.sum(axis=1)
                self._spill.drop(generations.drop_dead(watermark_us))
                for child, rows in zip(operator.node, before - generations.rows.sum(axis=1), strict=True):
                    self.expired_rows[child] += int(rows)

    def _parts(self, operator: Operator, groups: Bools) -> Iterator[Bools]:
        """Some groups, as many at a time as may be merged together."""
        most = _MERGE_SHARE * self._memory.limit_bytes
        sizes = self._disk_bytes(operator)
        part, size = np.zeros_like(groups), 0.0
        for group in np.flatnonzero(groups).tolist():
            if part.any() and size + sizes[group] > most:
                yield part
                part, size = np.zeros_like(groups), 0.0
            part[group] = True
            size += sizes[group]
        if part.any():
            yield part

    def _disk_bytes(self, operator: Operator) -> Any:
        """About how many bytes groups on disk take in memory."""
        row_bytes = np.array([self._row_bytes[child] for child in operator.node])
        return row_bytes @ self.generations[operator.number].rows

    def _across(self, operator: Operator, groups: Bools, *, with_memory: bool) -> Iterator[Found]:
        """The combinations across generations of some groups, in random order."""
        began = self._clock()
        sources = [self._tree.sides[child] for child in operator.node]
        inputs = self._read(operator, groups, with_memory=with_memory)
        self._merged[0] += sum(len(rows) for rows, _ in inputs)
        size = self._disk_bytes(operator)[groups].sum()
        slices = int(size / (_MERGE_SHARE * self._memory.limit_bytes)).bit_length()
        for number in range(1 << slices):
            sides, numbers = [], []
            for source, (rows, of_rows) in zip(sources, inputs, strict=True):
                chosen = _slice(rows, self._bits, slices, number)
                side = SideState(
                    source.name, source.payload.schema,
                    has_ends=source.has_ends, turned=self._bits + slices, stamped=source.stamped,
                )  # fmt: skip
                side.append(rows if chosen is None else rows.pick(chosen))
                sides.append(side)
                numbers.append(of_rows if chosen is None else of_rows[chosen])
            for positions in self._owed_by(operator, sides, numbers):
                self._merged[1] += self._clock() - began
                yield sides, np.ascontiguousarray(positions[:, self._shuffle.permutation(positions.shape[1])])
                began = self._clock()
        self.merges += 1
        self._merged[1] += self._clock() - began

    def _read(self, operator: Operator, groups: Bools, *, with_memory: bool) -> list[tuple[Rows, Int64s]]:
        """By input: rows of some groups, generation by generation, and the numbers of their generations."""
        generations = by_number(self.generations[operator.number], np.flatnonzero(groups))
        read = self._spill.read(p for g in generations for pieces in g.pieces for p in pieces)
        found = []
        for place, child in enumerate(operator.node):
            side = self._tree.sides[child]
            held, _ = side.in_groups(groups & with_memory)
            parts = [
                (_conformed(read[p], side.payload.schema), g.number)
                for g in generations
                for p in g.pieces[place]
            ]
            parts.append((held, _IN_MEMORY))
            rows, numbers = [r for r, _ in parts], [n for _, n in parts]
            found.append((_together(rows), np.repeat(np.array(numbers, np.int64), [len(r) for r in rows])))
        return found

    def _owed_by(
        self, operator: Operator, sides: Sequence[SideState], numbers: Sequence[Int64s]
    ) -> Iterator[Positions]:
        """The combinations that some rows owe each other, by the numbers of their generations."""
        if self._memory.one_sided:
            met = self._met[operator.number]
            return apart(operator.bounds, sides, numbers, met, self._bits, _PIECE_ROWS)
        all_of_them = np.unique(np.concatenate(numbers))
        ends = [np.searchsorted(of_rows, all_of_them, side="right").tolist() for of_rows in numbers]
        starts = [[0] * len(sides), *map(list, zip(*ends, strict=True))]
        return across(operator.bounds, sides, starts, _PIECE_ROWS)

    def _decision(self, *, idle: bool) -> Decision:
        """What the disk phase decides now."""
        plan = [self._groups(o, with_rows=False) for o in self._tree.operators]
        row_bytes = sum(self._row_bytes.values()) / len(self._row_bytes)
        room = _MERGE_SHARE * self._memory.limit_bytes / row_bytes
        setting = Setting(self._memory.interval_s, self._rate, room, self._memory.memory_weight)
        if idle:
            setting = dataclasses.replace(setting, buffer_rows=math.inf, memory_weight=0.0)
        adaptive = self._memory.flush == "adaptive-global"
        name = self._memory.flush if self._memory.state_manager or not adaptive else "state-spill"
        decision = registry.MERGES[name](plan, setting)
        self.decisions.append(decision)
        return decision

    def _groups(self, operator: Operator, *, with_rows: bool) -> Groups:
        """What is known of an operator's groups."""
        number, counts = operator.number, self._counts[operator.number]
        arrived, local, overall = counts.now()
        none = np.zeros(1 << self._bits)
        parent = None if operator is self._tree.root else self._tree.above(operator.node).number
        return Groups(
            operator.name,
            rows=self._held(operator) if with_rows else np.zeros((len(operator.node), len(none))),
            row_bytes=tuple(self._row_bytes[child] for child in operator.node),
            arrived=arrived,
            unique=counts.unique() if with_rows else none + 1.0,
            local=local,
            overall=overall,
            disk_rows=self.generations[number].rows.astype(np.float64),
            owed=self._owed_now(operator),
            downstream=self._downstream(operator) if with_rows else none,
            parent=parent,
            silent=counts.silent,
        )

    def _owed_now(self, operator: Operator) -> Any:
        """About how many combinations groups owe.

        The state manager's merges take rows in memory along, so what they owe to those on disk counts, too.
        Where inputs are flushed one by one, it does anyway; there after a merge nothing is known to be owed
        until something arrives or leaves.
        """
        owed = self._owed[operator.number]
        if not self._memory.one_sided and not self._along:
            return owed
        on_disk = self.generations[operator.number].rows.astype(np.float64)
        held = self._held(operator)
        if self._along:
            return owed + owed_after_flush(on_disk, held, self._counts[operator.number].unique())
        same_key = self._counts[operator.number].unique() ** (len(held) - 1)
        return np.where(owed > 0, (np.prod(on_disk + held, axis=0) - np.prod(held, axis=0)) / same_key, 0.0)

    def _held(self, operator: Operator) -> Any:
        """Rows in memory by input and group."""
        sides = [self._tree.sides.get(child) for child in operator.node]
        none = np.zeros(1 << self._bits)
        return np.array([none if s is None else s.rows_by_group(self._bits) for s in sides], np.float64)

    def _downstream(self, operator: Operator) -> Any:
        """Intermediate rows in memory that came of each group."""
        found = np.zeros(1 << self._bits)
        if self._memory.flush == "state-spill":
            for source, side in self._tree.intermediates:
                if operator.node in source.lineage:
                    groups = self._lineage(source, side, np.arange(side.first, side.count), operator)
                    found += np.bincount(groups, minlength=len(found))
        return found

    def _inputs(self, operator: Operator) -> Sequence[Any]:
        assert operator.combining is not None
        return operator.combining.inputs

    def _lineage(self, source: Any, side: SideState, at: Any, below: Operator) -> Int64s:
        """The groups of a lower operator that rows came from.

        Some were stored before they carried them, or when there were more groups.
        """
        if below.node in source.lineage:
            (carried,) = side.payload.gather(at, [source.lineage[below.node]])
            groups = np.asarray(carried.fill_null(-1).to_numpy()).astype(np.int64)
            if not len(groups) or (groups.min() >= 0 and groups.max() < 1 << self._bits):
                return groups
        assert below.keys is not None
        key = source.key(self._query.graph, self._query.graph.key(below.node))
        return group_of(below.keys.hashes(side.payload.gather(at, key), len(at)), self._bits)

    def _freed(self, size: float) -> None:
        """So many bytes are free again; from time to time they go back to the system."""
        self._free += size
        if self._free > _GIVE_BACK_SHARE * self._memory.limit_bytes:
            give_back()
            self._free = 0.0

    def _after_interval(self) -> None:
        passed = self._clock() - self._began
        if passed >= self._memory.interval_s:
            for counts in self._counts:
                counts.interval(passed / self._memory.interval_s)
            self._began = self._clock()


def _conformed(rows: Rows, schema: pa.Schema) -> Rows:
    """Rows in today's columns."""
    return dataclasses.replace(rows, batch=conform(rows.batch, schema))


def _together(parts: list[Rows]) -> Rows:
    """Rows of several pieces as one; at least one. A side that never had rows does not know all they have."""
    parts = [p for p in parts if len(p)] or parts[:1]
    if len(parts) == 1:
        return parts[0]

    def of(name: str) -> Any:
        values = [getattr(p, name) for p in parts]
        return None if values[0] is None else np.concatenate(values)

    batch = pa.concat_batches([p.batch for p in parts])
    return Rows(batch, of("hashes"), of("times"), None, of("checks"), of("ends"), of("born"))


def _slice(rows: Rows, bits: int, slices: int, number: int) -> Bools | None:
    """Which rows are of one of several slices, by bits of the hash behind those of the group; None: all."""
    if not slices:
        return None
    chosen: Bools = (group_of(rows.hashes, bits + slices) & ((1 << slices) - 1)) == number
    return chosen
