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

Where any attempt at a batch may be the one that counts, as on Spark, rows are flushed after a batch, when its
results are out, and what is merged together with the next one (`planned`) was decided and kept before.

Memory: rows that were flushed hold their room until a side is rebuilt without them. So that this is seldom,
only a part of the limit is for rows that are found, and the rest for those that are gone.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braided.engine.operators.mjoin import Positions
from braided.engine.operators.operator import Operator
from braided.engine.operators.tree import Found, Tree
from braided.engine.sides.freeing import free_at_once, give_back
from braided.engine.sides.groups import by_group, drop_groups, group_of, in_groups
from braided.engine.sides.side import Rows, SideState
from braided.engine.spill.disk_merges import DiskMerges
from braided.engine.spill.files import Piece, Spill, Store
from braided.engine.spill.generations import Generations
from braided.engine.spill.group_statistics import GroupStatistics
from braided.policies.arrays import Bools, Int64s
from braided.policies.flush import registry
from braided.policies.flush.question import Decision, Groups, Merge, Setting
from braided.policies.flush.state_manager import owed_after_flush
from braided.query.bounds import INFINITE_US
from braided.query.errors import InvalidValue
from braided.query.join_query import JoinQuery
from braided.query.memory import LIVE_SHARE
from braided.query.plan_tree import Plan, leaves

_BACK_SHARE = 0.5  # of the limit: groups come back from disk while no more is held
_GIVE_BACK_SHARE = 0.25  # of the limit: what may be free and not given back
_FIRST_RATE = 1e6  # rows a second that a merge takes, until it is measured
_DECISIONS = 256
_MOST_PIECES = 8  # of a group and input, before they are written as one
_log = logging.getLogger("braided.memory")


@dataclass
class _Task:
    """Groups of one operator whose generations are to meet in this step."""

    groups: Bools
    with_memory: bool  # rows in memory are the latest generation
    last: bool = False  # nothing more arrives, so all may be dropped afterwards
    pieces: list[dict[int, Piece]] = field(default_factory=list)  # rows in memory, already written
    anew: Bools | None = None  # groups of which these are all rows, because they had many pieces
    leaves: bool = False  # rows in memory are written, and go
    settles: bool = False  # with those of all operators: afterwards nothing is owed


Tasks = dict[int, _Task]  # by number of operator


class Spilling:
    """What of one engine's state is on disk."""

    def __init__(
        self, query: JoinQuery, tree: Tree, clock: Callable[[], float], store: Store | None = None
    ) -> None:
        """Rows that are not in memory go to `store`; None: to files."""
        assert query.memory is not None
        self.memory, self._query, self.tree = query.memory, query, tree
        self._bits = self.memory.group_bits
        self.store: Store = Spill(self.memory.directory) if store is None else store
        free_at_once()
        groups = 1 << self._bits
        self.generations = [Generations(len(o.node), groups) for o in tree.operators]
        self.owed = [np.zeros(groups) for _ in tree.operators]
        self.statistics = GroupStatistics(query, self.memory, tree, clock)
        self.merges = DiskMerges(
            self.memory, tree, self.store, self.generations, self.statistics, clock, query.tuning.seed
        )
        self.defers = self.memory.defer is not False  # or rows were restored that may owe something
        if self.defers and query.emit_punctuations:
            raise InvalidValue(
                "emit_punctuations needs bd.Memory(..., defer=False): a key is complete when all its results "
                "are out, and with defer they may wait on disk"
            )
        self.along = self.memory.flush == "adaptive-global" and self.memory.state_manager
        self.tick = 0  # flushes and steps, in their order
        self.flushed_rows = self.read_rows = 0
        self.expired_rows: collections.Counter[Plan] = collections.Counter()  # on disk, and not yet told
        self._free = 0.0  # bytes that were freed since memory was given back
        self._rate = self.memory.disk_rate or _FIRST_RATE
        self._tasks: Tasks = {}
        self._watermark_us = 0  # when the step began
        self.decisions: collections.deque[Decision] = collections.deque(maxlen=_DECISIONS)
        self.next: list[Merge | None] = [None, None]  # decided for a batch with rows, and for one without

    # what others ask

    @property
    def bytes(self) -> int:
        """Bytes on disk."""
        return self.store.bytes

    @property
    def held(self) -> int:
        """Bytes of stored rows in memory, of their indexes, and of what is known of groups."""
        return sum(s.nbytes for s in self.tree.sides.values()) + self.statistics.nbytes

    @property
    def owed_combinations(self) -> int:
        """About how many combinations wait on disk."""
        return round(sum(self._owed_now(o).sum() for o in self.tree.operators)) if self.defers else 0

    @property
    def last_reason(self) -> str:
        """Why the disk phase last decided as it did, with its numbers; nothing if it was never asked."""
        return self.decisions[-1].reason if self.decisions else ""

    def rows(self, node: Plan) -> int:
        """Rows of an input on disk."""
        operator = self.tree.above(node)
        return int(self.generations[operator.number].rows[operator.node.index(node)].sum())

    @property
    def keeps(self) -> set[Plan]:
        """The inputs whose rows may be owed to rows on disk, so that they must not expire."""
        if not self.defers:
            return set()
        spilled = [o.node for o in self.tree.operators if self.generations[o.number]]
        found: set[Plan] = set()
        for operator in self.tree.operators:
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
        """Flush, and give up rows that are gone, until so many bytes more fit; or take groups back."""
        limit, held = self.memory.limit_bytes, self.held
        gone = sum(s.gone_rows * self.statistics.row_bytes[n] for n, s in self.tree.sides.items())
        if not self.defers:
            self._take_back(_BACK_SHARE * limit - (held - gone) - incoming)
        if not incoming and held <= limit:
            return  # the next batch will say how much it needs
        over = held - gone + incoming - LIVE_SHARE * limit
        if over > 0:
            self._flush(max(over, self.memory.flush_share * limit))
        if held + incoming > limit:
            for side in self.tree.sides.values():
                side.leave_out_gone()
            self._freed(gone)

    def _flush(self, size: float) -> None:
        """Write the least useful groups to disk, so many bytes at least."""
        plan = [self._groups(o, with_rows=True) for o in self.tree.operators]
        chosen = registry.FLUSHES[self.memory.flush](plan, size)
        for operator in self.tree.operators:
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
        sides = [self.tree.sides.get(child) for child in operator.node]

        def parts() -> Iterator[tuple[Rows, Int64s, Int64s | None]]:
            for child, side, mine in zip(operator.node, sides, groups, strict=True):
                if side is not None:
                    rows, bounds = in_groups(side, mine)
                    yield rows, bounds, self._ends_us(child, rows)

        pieces = iter(self.store.write(parts()))
        written = [
            {} if side is None else dict(zip(np.flatnonzero(mine).tolist(), next(pieces), strict=True))
            for side, mine in zip(sides, groups, strict=True)
        ]
        self.store.drop(p for found in written for p in found.values() if not p.rows)
        return [{g: p for g, p in found.items() if p.rows} for found in written]

    def _flushed(self, operator: Operator, groups: Any, written: list[dict[int, Piece]]) -> None:
        """Memory gives up what was written."""
        number, generations = operator.number, self.generations[operator.number]
        rows = np.zeros_like(generations.rows)
        for place, found in enumerate(written):
            for group, piece in found.items():
                rows[place, group] = piece.rows
        more = owed_after_flush(
            generations.rows.astype(float), rows.astype(float), self.statistics.unique(number)
        )
        self.owed[number] += np.maximum(more, rows.any(axis=0)) if self.memory.one_sided else more
        self.flushed_rows += int(rows.sum())
        self.tick += 1
        generations.add(self.tick, written)
        self._drop(operator, groups)
        if operator.combining is None:  # an input has brought nothing yet, so nothing is owed
            for group in np.flatnonzero(generations.groups).tolist():
                self._meet(number, group)

    def _drop(self, operator: Operator, groups: Any) -> None:
        """Memory forgets some groups of an operator; `groups` by input."""
        for child, mine in zip(operator.node, groups, strict=True):
            if child in self.tree.sides:
                drop_groups(self.tree.sides[child], mine)

    def _meet(self, operator: int, group: int) -> None:
        """All rows of a group have met."""
        self.generations[operator].met(group)
        self.merges.met[operator][group] = self.tick
        self.owed[operator][group] = 0.0

    def _ends_us(self, child: Plan, rows: Rows) -> Int64s | None:
        if not self._query.windowed:
            return None
        if rows.ends is not None:
            return rows.ends
        assert isinstance(child, str)
        retention_us = self._query.bounds.retention_us(self._query.names.index(child))
        return None if retention_us >= INFINITE_US else rows.times + retention_us

    def _take_back(self, room: float) -> None:
        """Groups that owe nothing come back to memory, those that most arrives for first."""
        for operator in self.tree.operators:
            generations = self.generations[operator.number]
            if room <= 0 or not generations:
                continue
            sizes = self.statistics.bytes_of(operator, generations.rows)
            arrived = self._groups(operator, with_rows=False).arrived.sum(axis=0) * generations.groups
            chosen = np.zeros(len(arrived), np.bool_)
            for group in np.argsort(-arrived, kind="stable").tolist():
                if arrived[group] > 0 and sizes[group] <= room:
                    chosen[group] = True
                    room -= sizes[group]
            if chosen.any():
                for child, (rows, _) in zip(
                    operator.node, self.merges.read(operator, chosen, with_memory=False), strict=True
                ):
                    self.tree.sides[child].append(rows)
                for group in np.flatnonzero(chosen).tolist():
                    self.store.drop(generations.drop(group))

    # steps

    def due(self, watermark_us: int, *, idle: bool) -> Iterator[Tasks]:
        """What is to be merged before the next batch, step by step; if that is idle, memory gives nothing."""
        if self.defers and self.memory.defer is False:
            yield from self._all_owed()
            self.defers = False
        if self.defers and self._mostly_dead(watermark_us):
            yield from self._all_owed()
            self._drop_dead(watermark_us)
        if self.defers and self._owing:
            merge = self._decide(idle=idle)
            if merge is not None:
                yield self._task_of(merge)

    def planned(self, watermark_us: int, *, idle: bool) -> Tasks:
        """What is merged together with a batch: decided from what was kept when the last one ended."""
        if not self.defers:
            return {}
        if self.memory.defer is False or self._mostly_dead(watermark_us):
            return {
                o.number: _Task(g.groups, with_memory=True, leaves=True, settles=True)
                for o, g in zip(self.tree.operators, self.generations, strict=True)
            }
        merge = self.next[idle]
        return {} if merge is None else self._task_of(merge, leaves=True)

    def decide_next(self) -> None:
        """Decide what is merged together with the next batch, whether that brings rows or not."""
        owing = self.defers and self._owing
        self.next = [self._decide(idle=idle) if owing else None for idle in (False, True)]

    def finishing(self) -> Iterator[Tasks]:
        """All that is owed, from below, when nothing more arrives."""
        for operator in self.tree.operators:
            for groups in self.merges.parts(operator, self.generations[operator.number].groups):
                yield {operator.number: _Task(groups, with_memory=True, last=True)}
            self._drop(operator, self._all_inputs(operator, np.ones(1 << self._bits, np.bool_)))
        self.store.close()

    def begin(self, tasks: Tasks, watermark_us: int, *, batch: bool) -> None:
        """A step begins; with `batch`, it is one that brings rows, or might have."""
        if not self.defers:
            self._drop_dead(watermark_us)
        self._tasks, self._watermark_us = dict(tasks), watermark_us
        if batch:
            self.statistics.batch()
        self.merges.rows, self.merges.seconds = 0, 0.0
        self.tick += 1
        for side in self.tree.sides.values():
            side.tick = self.tick

    def commit(self) -> None:
        """The step has found all it was to find."""
        for number, task in self._tasks.items():
            operator, generations = self.tree.operators[number], self.generations[number]
            if task.anew is not None:
                for group in np.flatnonzero(task.anew).tolist():
                    self.store.drop(generations.drop(group))
            if task.pieces:
                self._flushed(operator, self._all_inputs(operator, task.groups), task.pieces)
            for group in np.flatnonzero(task.groups).tolist():
                self._meet(number, group)
                if task.last:
                    self.store.drop(generations.drop(group))
            if task.last:
                self._drop(operator, self._all_inputs(operator, task.groups))
        if any(task.settles for task in self._tasks.values()):
            self._drop_dead(self._watermark_us)
            self.defers = self.memory.defer is not False
        self._tasks = {}
        self.statistics.after_interval()
        rows, seconds = self.merges.rows, self.merges.seconds
        self._freed(rows * self.statistics.mean_row_bytes)
        self.read_rows += rows
        if rows and seconds > 0 and self.memory.disk_rate is None:
            self._rate = 0.5 * self._rate + 0.5 * rows / seconds

    def abort(self) -> None:
        """The step has failed: what it wrote goes."""
        for task in self._tasks.values():
            self.store.drop(p for found in task.pieces for p in found.values())
        self._tasks = {}

    # what the tree tells and asks

    def arrived(self, operator: int, place: int, rows: Rows) -> None:
        """Rows arrive at an input."""
        self.statistics.arrived(operator, place, rows)
        if self.memory.one_sided:
            groups = group_of(rows.hashes, self._bits)
            spilled = self.generations[operator].groups
            self.owed[operator] += np.bincount(groups, minlength=len(spilled)) * spilled

    def found(self, operator: int, sides: Sequence[SideState], positions: Positions) -> None:
        """An operator has found combinations."""
        self.statistics.found(operator, sides, positions)

    def merged(self, operator: int) -> Iterator[Found]:
        """The combinations that an operator owes, as far as this step is to find them."""
        which = self.tree.operators[operator]
        if not self.defers and operator not in self._tasks:
            self._add_cold(which)
        task = self._tasks.get(operator)
        if task is not None:
            if task.leaves:
                self._write_all(which, task)
            for groups in self.merges.parts(which, task.groups) if task.with_memory else [task.groups]:
                yield from self.merges.across(which, groups, with_memory=task.with_memory)

    # parts of the above

    def write_rows(self, child: Plan, rows: Rows) -> dict[int, Piece]:
        """Write an input's rows to disk, by group."""
        groups = group_of(rows.hashes, self._bits)
        ordered = rows.take(by_group(groups))
        there = np.unique(groups)
        bounds = np.append(np.searchsorted(np.sort(groups), there), len(rows))
        (written,) = self.store.write([(ordered, bounds, self._ends_us(child, ordered))])
        return dict(zip(there.tolist(), written, strict=True))

    def _task_of(self, merge: Merge, *, leaves: bool = False) -> Tasks:
        """Merge one group; with `leaves` what memory has of it goes along, and to disk."""
        groups = np.zeros(1 << self._bits, np.bool_)
        groups[merge.group] = True
        leaves = leaves or self.along
        return {merge.operator: _Task(groups, self.memory.one_sided or leaves, leaves=leaves)}

    def _add_cold(self, operator: Operator) -> None:
        """Groups with rows on disk that rows arrived for: they meet in this batch, and go to disk."""
        groups = self.statistics.held(operator).any(axis=0) & self.generations[operator.number].groups
        if groups.any():
            self._tasks[operator.number] = _Task(groups, with_memory=True, leaves=True)

    def _write_all(self, operator: Operator, task: _Task) -> None:
        """Write the rows in memory of a task's groups; where there are many pieces, all rows as one."""
        task.anew = task.groups & self.generations[operator.number].crowded(_MOST_PIECES)
        task.pieces = self._write(operator, self._all_inputs(operator, task.groups & ~task.anew))
        if task.anew.any():
            for place, (rows, _) in enumerate(self.merges.read(operator, task.anew, with_memory=True)):
                task.pieces[place] |= self.write_rows(operator.node[place], rows)

    def _mostly_dead(self, watermark_us: int) -> bool:
        """Whether the watermark has passed more than half of what is on disk."""
        if not self._query.windowed:
            return False
        dead = sum(g.dead_rows(watermark_us) for g in self.generations)
        return 2 * dead > sum(int(g.rows.sum()) for g in self.generations)

    def _all_owed(self) -> Iterator[Tasks]:
        """All that is owed, from below; afterwards groups with rows on disk have none in memory."""
        for operator in self.tree.operators:
            generations = self.generations[operator.number]
            if generations:
                self._flush_groups(operator, self._all_inputs(operator, generations.groups))
            owing = generations.groups if self.memory.one_sided else generations.owing
            for groups in self.merges.parts(operator, owing):
                yield {operator.number: _Task(groups, with_memory=False)}

    def _drop_dead(self, watermark_us: int) -> None:
        if self._query.windowed:
            for operator in self.tree.operators:
                generations = self.generations[operator.number]
                before = generations.rows.sum(axis=1)
                self.store.drop(generations.drop_dead(watermark_us))
                for child, rows in zip(operator.node, before - generations.rows.sum(axis=1), strict=True):
                    self.expired_rows[child] += int(rows)

    @property
    def _owing(self) -> bool:
        return any(owed.any() for owed in self.owed) or (self.along and any(self.generations))

    def _decide(self, *, idle: bool) -> Merge | None:
        """What the disk phase decides now; its reason is logged."""
        decision = self._decision(idle=idle)
        self.decisions.append(decision)
        _log.info("%s", decision.reason)
        return decision.merge

    def _decision(self, *, idle: bool) -> Decision:
        plan = [self._groups(o, with_rows=False) for o in self.tree.operators]
        room = self.merges.room_bytes / self.statistics.mean_row_bytes
        setting = Setting(self.memory.interval_s, self._rate, room, self.memory.memory_weight)
        if idle:
            setting = dataclasses.replace(setting, buffer_rows=math.inf, memory_weight=0.0)
        adaptive = self.memory.flush == "adaptive-global"
        name = self.memory.flush if self.memory.state_manager or not adaptive else "state-spill"
        return registry.MERGES[name](plan, setting)

    def _groups(self, operator: Operator, *, with_rows: bool) -> Groups:
        """What is known of an operator's groups."""
        on_disk = self.generations[operator.number].rows.astype(np.float64)
        return self.statistics.groups(operator, on_disk, self._owed_now(operator), with_rows=with_rows)

    def _owed_now(self, operator: Operator) -> Any:
        """About how many combinations groups owe.

        The state manager's merges take rows in memory along, so what they owe to those on disk counts, too.
        Where inputs are flushed one by one, it does anyway; there after a merge nothing is known to be owed
        until something arrives or leaves.
        """
        owed = self.owed[operator.number]
        if not self.memory.one_sided and not self.along:
            return owed
        on_disk = self.generations[operator.number].rows.astype(np.float64)
        held, unique = self.statistics.held(operator), self.statistics.unique(operator.number)
        if self.along:
            return owed + owed_after_flush(on_disk, held, unique)
        same_key = unique ** (len(held) - 1)
        return np.where(owed > 0, (np.prod(on_disk + held, axis=0) - np.prod(held, axis=0)) / same_key, 0.0)

    def _freed(self, size: float) -> None:
        """So many bytes are free again; from time to time they go back to the system."""
        self._free += size
        if self._free > _GIVE_BACK_SHARE * self.memory.limit_bytes:
            give_back()
            self._free = 0.0
