"""A join's state within its memory budget: what goes to disk, and when it is joined from there.

Rows are flushed before a batch, to make room for it; owed combinations are found in steps of their own before
a batch (`work`), or after the last one (`finish`). A step is whole or not at all: until it is committed
nothing has changed but that rows may have moved to disk, which no result can show.

An operator *owes* combinations of rows that were never in memory together (see `merging`). Where
merges wait (`defer`), any row of an operator with rows on disk may be owed to them, and any row of those
above to what will come of that; so none of these expire. Once more than half of them would have, all is
settled from below: what is in memory of groups with rows on disk is flushed, all is merged, and what has died
goes. So the work and the room are in proportion to the rows that live. Without `defer` groups with rows on
disk have none in memory between batches, and nothing is owed.

Where any attempt at a batch may be the one that counts, as on Spark, rows are flushed after a batch, when its
results are out, and what is merged together with the next one was decided and saved before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from braided.engine.features import Feature, Host, Numbers, Step
from braided.engine.operators.mjoin import Positions
from braided.engine.operators.ranges import Ranges
from braided.engine.operators.tree import Found
from braided.engine.sides.groups import group_of
from braided.engine.sides.side import Rows, SideState, passed
from braided.engine.spill.deadlines import Deadlines
from braided.engine.spill.disk import Disk, check_saved
from braided.engine.spill.disk_phase import DiskPhase
from braided.engine.spill.room import Room
from braided.engine.spill.sifting import Sifting
from braided.engine.spill.tasks import Task, Tasks
from braided.engine.state import EngineState
from braided.policies.arrays import Bools, Int64s
from braided.policies.flush.question import Merge
from braided.query.errors import InvalidValue
from braided.query.plan_tree import Plan, leaves


class Spilling(Feature):
    """Keeps an engine's state within `Memory(limit=...)`."""

    name = "spill"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        assert host.query.memory is not None
        self.memory, self.tree = host.query.memory, host.tree
        self.disk = Disk(host)
        self.phase = DiskPhase(self.disk, host)
        self.deadlines = Deadlines(host, self.disk)
        self.sifting = Sifting(host, self.disk, self.phase)
        self.room = Room(host, self.disk, self.phase, self.sifting)
        self.defers = self.memory.defer is not False  # or rows were restored that may owe something
        if self.defers and host.query.emit_punctuations:
            raise InvalidValue(
                "emit_punctuations needs bd.Memory(..., defer=False): a key is complete when all its results "
                "are out, and with defer they may wait on disk"
            )
        self.owes = False  # or something may be
        self.read_rows = 0
        self._tasks: Tasks = {}
        self._began_us = 0  # the watermark when the step began
        self._ranges = self._later_ranges = Ranges(host.query.condition)
        self.next: list[Merge | None] = [None, None]  # decided for a batch with rows, and for one without

    # what is held

    def retains(self) -> set[Plan]:
        """The inputs whose rows may be owed to rows on disk, so that they must not expire."""
        if not self.defers or not self.owes:
            return set()
        return self._beside_disk()

    def _beside_disk(self) -> set[Plan]:
        """The inputs of operators with rows on disk, and of those above."""
        operators = [(o.node, set(leaves(o.node))) for o in self.tree.operators]
        spilled = [below for (_, below), g in zip(operators, self.disk.generations, strict=True) if g]
        return {child for node, below in operators if any(s <= below for s in spilled) for child in node}

    def hidden(self, hashes: Int64s) -> Bools | None:
        """Rows on disk are held, though sides do not see them."""
        spilled = np.any([generations.groups for generations in self.disk.generations], axis=0)
        return np.asarray(spilled[group_of(hashes, self.disk.bits)])

    def save(self, state: EngineState) -> None:
        """What is on disk, and what is merged next."""
        numbers = self.disk.save(state)
        numbers |= {"defers": self.defers, "owes": self.owes, "next": self.next, "rate": self.phase.rate}
        numbers |= {"sifting": self.sifting.save(), "ranges": self._ranges.save()}
        numbers |= {"deadlines": self.deadlines.save()}
        state.put_feature(self.name, numbers)

    def load(self, state: EngineState, *, same_plan: bool) -> None:
        """Go on; rows that were saved may owe something, whatever is asked for now."""
        numbers = state.feature(self.name)
        check_saved(numbers, self.memory, same_plan=same_plan)
        if numbers and same_plan:
            self.disk.load(state, numbers)
            self.defers |= numbers["on_disk"] and numbers["defers"]
            self.defers |= any(generations.owing.any() for generations in self.disk.generations)
            self.owes = numbers["owes"]
            self.next = [None if merge is None else Merge(*merge) for merge in numbers["next"]]
            self.sifting.load(numbers["sifting"])
            self.deadlines.load(numbers["deadlines"])
            self._ranges = self._later_ranges = self._ranges.load(numbers["ranges"])
            self.phase.rate = self.memory.disk_rate or numbers["rate"]

    @classmethod
    def outlasts(cls, state: EngineState) -> bool:
        """Rows on disk cannot do without it."""
        check_saved(state.feature(cls.name), None, same_plan=False)
        return False

    def describe(self, numbers: Numbers) -> None:
        """What is on disk, what it owes, and why the disk phase last decided as it did."""
        size, reason = self.disk.store.bytes, self.phase.reason
        if reason:
            numbers.reasons.append(f"on disk: {size:,} bytes; {reason}")
        owed = sum(self.phase.owed_in_all(o).sum() for o in self.tree.operators) if self.defers else 0
        numbers.join |= {"spilled_bytes": size, "owed": round(owed), "disk_decision": reason}
        if self.defers:
            exempt = [s.live_rows for node in self.retains() if (s := self.tree.sides.get(node)) is not None]
            numbers.join |= {"owed_seconds": self.deadlines.age_s, "exempt_rows": sum(exempt)}
        for name, of_stream in zip(self.host.query.names, numbers.streams, strict=True):
            if "live_rows" in of_stream:
                of_stream["spilled_rows"] = self.disk.rows(name)
        for source, _ in self.tree.intermediates:
            numbers.intermediates[source.name]["spilled_rows"] = self.disk.rows(source.node)

    # flushing

    def make_room(self, incoming: int) -> None:
        """Make room for this many bytes more, or take groups back; on Spark, decide what is merged next."""
        if not self.defers:
            self.room.take_back(incoming)
        self.room.make(incoming)
        self.owes |= any(generations.owing.any() for generations in self.disk.generations)
        if self.host.site.retried:
            self.next = [self.phase.decide(idle=idle) if self.defers else None for idle in (False, True)]

    # steps

    def work(self, *, idle: bool, ended: bool) -> Iterator[Tasks]:
        """What is to be merged before the next batch; if that is idle, memory gives nothing."""
        if ended:
            yield from self._finish()
            return
        merge = self.phase.decide(idle=idle) if self.defers else None
        if self.defers and self._to_settle(merge, idle=idle):
            yield from self._all_owed()
            self._settled(self.host.settled_us, idle=idle)
            self.defers, merge = not self._at_once, None
        if merge is not None:
            yield self._task_of(merge)
        for operator, groups in self.deadlines.due(self.phase.rate).items() if self.defers else ():
            yield {operator: Task(groups, with_memory=True, leaves=True)}

    @property
    def _at_once(self) -> bool:
        """Whether no merge may wait: as is asked for, or because `where` might fail on what is merged."""
        return self.memory.defer is False or self._later_ranges.may_fail

    def _planned(self, step: Step) -> Tasks:
        """What is merged together with a batch: decided from what was saved when the last one ended.

        If `where` might fail on rows that the batch brings and others on disk, they meet now.
        """
        retried = self.host.site.retried
        if not self.defers or step.later.ended or not (retried or self._later_ranges.may_fail):
            return {}
        idle = all(a is None for a in step.arrivals)
        merge = self.next[idle]
        if self._to_settle(merge, idle=idle):
            return {
                o.number: Task(g.groups, with_memory=True, leaves=True, settles=True)
                for o, g in zip(self.tree.operators, self.disk.generations, strict=True)
            }
        tasks = {} if merge is None else self._task_of(merge, leaves=True)
        for operator, groups in self.deadlines.due(self.phase.rate).items():
            more = tasks[operator].groups if operator in tasks else False
            tasks[operator] = Task(groups | more, with_memory=True, leaves=True)
        return tasks

    def _finish(self) -> Iterator[Tasks]:
        """All that is owed, from below, when nothing more arrives."""
        for operator in self.tree.operators:
            for groups in self.phase.parts(operator, self.disk.generations[operator.number].groups):
                yield {operator.number: Task(groups, with_memory=True, dropped=groups)}
            self.disk.forget(operator, np.ones(1 << self.disk.bits, np.bool_))
        self.disk.store.close()

    def begin(self, step: Step) -> None:
        """Plan what is merged in this step."""
        self._began_us = self.host.settled_us
        if not self.defers:
            self.disk.drop_dead(self._began_us)
        batches = zip(self.host.query.names, step.arrivals, strict=True)
        self._later_ranges = self._ranges.including({n: a.rows.batch for n, a in batches if a is not None})
        self._tasks = dict(self._planned(step) if step.work is None else step.work)
        if not step.idle or step.handed or step.work is not None:
            self.owes |= any(self.disk.generations)
        if step.batch:
            self.disk.statistics.batch()
            self.deadlines.begin()
        self.phase.rows, self.phase.seconds = 0, 0.0
        self.disk.tick += 1
        for side in self.tree.sides.values():
            side.tick = self.disk.tick

    def arrived(self, operator: int, place: int, rows: Rows) -> None:
        """Count what arrives by group; also in a batch without rows, if some waited for the watermark."""
        self.owes |= any(self.disk.generations)
        self.disk.statistics.arrived(operator, place, rows)
        self.deadlines.arrived(operator, rows)
        if self.memory.one_sided:
            groups = group_of(rows.hashes, self.disk.bits)
            spilled = self.disk.generations[operator].groups
            self.disk.owed[operator] += np.bincount(groups, minlength=len(spilled)) * spilled

    def found(self, operator: int, sides: Sequence[SideState], positions: Positions) -> None:
        """Count what came of each group."""
        self.disk.statistics.count_found(operator, sides, positions)

    def owed(self, operator: int) -> Iterator[Found]:
        """The combinations that an operator owes, as far as this step is to find them."""
        which, generations = self.tree.operators[operator], self.disk.generations[operator]
        if generations and not self.defers and operator not in self._tasks:
            groups = generations.groups & self.disk.statistics.held(which).any(axis=0)
            if groups.any():  # rows that arrived for groups on disk meet them now, and go there
                self._tasks[operator] = Task(groups, with_memory=True, leaves=True)
        if (task := self._tasks.get(operator)) is not None:
            if task.leaves:
                whole = not self.defers or all(isinstance(child, str) for child in which.node)
                task.write(self.disk, which, self._began_us, keep_dead=not whole)
            for groups in self.phase.parts(which, task.groups):
                yield from self.phase.merge(which, groups, with_memory=task.with_memory)

    def commit(self, step: Step) -> None:
        """What the step merged has met."""
        disk, self._ranges = self.disk, self._later_ranges
        for number, task in self._tasks.items():
            if task.dropped is not None:
                operator = self.tree.operators[number]
                disk.drop(number, task.dropped, task.smaller)
                disk.flushed(operator, task.groups, task.pieces)
                for child, rows in zip(operator.node, task.dead, strict=False):
                    disk.count_dead(child, rows)
            disk.meet(number, task.groups)
            self.deadlines.met(number, task.groups, with_memory=task.with_memory)
        self.deadlines.commit()
        if any(task.settles for task in self._tasks.values()):
            self._settled(self._began_us, idle=step.idle)
            self.defers = not self._at_once
        if self._tasks:
            self.sifting.written()
        self._tasks = {}
        disk.statistics.after_interval()
        self.room.freed(self.phase.rows * disk.statistics.mean_row_bytes)
        self.read_rows += self.phase.rows
        self.phase.measured()

    def purge(self, step: Step | None) -> None:
        """Rows on disk of keys that are closed by now go, if nothing is owed."""
        self.sifting.count_closed()
        if not self.defers:
            self.sifting.sift_due(idle=step is not None and step.idle)

    def undo(self) -> None:
        """What the step wrote goes."""
        for task in self._tasks.values():
            written = (of_input for inputs in task.pieces for of_input in inputs)
            self.disk.store.drop(p for of_input in written for p in of_input.values())
        self._tasks, self._later_ranges = {}, self._ranges

    # parts of the above

    def _task_of(self, merge: Merge, *, leaves: bool = False) -> Tasks:
        """Merge one group; what memory has of it goes along, and to disk, if it may and is asked to."""
        groups = np.zeros(1 << self.disk.bits, np.bool_)
        groups[merge.group] = True
        asked = leaves or self.phase.along or self.memory.owed_within is not None
        leaves = asked and self.memory.take_along
        return {merge.operator: Task(groups, self.memory.one_sided or leaves, leaves=leaves)}

    def _to_settle(self, merge: Merge | None, *, idle: bool) -> bool:
        """Whether all is merged: none may wait, most rows are dead, or there is nothing better to do."""
        if self._at_once or self._mostly_dead():
            return True
        return idle and merge is None and bool(self.sifting.due(idle=True).any())

    def _mostly_dead(self) -> bool:
        """Whether more than half of the rows on disk can join no more, or of these and those owed to them."""
        on_disk, past = self.disk.past_rows()
        dead = past + self.sifting.dead_rows()
        beside = self._beside_disk() if self.host.query.windowed else set()
        sides = {node: self.tree.sides[node] for node in beside & self.tree.sides.keys()}
        in_memory = sum(side.live_rows for side in sides.values())
        beyond = sum(passed(side, self.host.past_us(node)) for node, side in sides.items())
        return 2 * dead > on_disk or 2 * (dead + beyond) > on_disk + in_memory

    def _settled(self, watermark_us: int, *, idle: bool) -> None:
        """Nothing is owed: dead rows go, and groups come back if there is room again."""
        self.owes = self.memory.one_sided
        self.deadlines.clear()
        self.disk.drop_dead(watermark_us)
        self.sifting.sift_due(idle=idle)
        self.room.take_back()

    def _all_owed(self) -> Iterator[Tasks]:
        """All that is owed, from below; afterwards groups with rows on disk have none in memory."""
        for operator in self.tree.operators:
            generations = self.disk.generations[operator.number]
            if generations:
                self.disk.flush(operator, generations.groups)
            owing = generations.groups if self.memory.one_sided else generations.owing
            for groups in self.phase.parts(operator, owing):
                yield {operator.number: Task(groups, with_memory=False)}
