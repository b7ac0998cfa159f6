"""The disk phase: which group is merged next, decided by the policies from what is known of all groups."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any

import numpy as np

from braided.engine.operators.operator import Operator
from braided.engine.operators.tree import Tree
from braided.engine.spill.disk import Disk
from braided.policies.flush import registry
from braided.policies.flush.question import Decision, Groups, Merge, Setting
from braided.policies.flush.state_manager import owed_after_flush

_FIRST_RATE = 1e6  # rows a second that a merge takes, until it is measured
_log = logging.getLogger("braided.memory")


class DiskPhase:
    """Decides merges for one join."""

    def __init__(self, disk: Disk, tree: Tree) -> None:
        self._disk, self._tree = disk, tree
        self.memory = disk.memory
        self.along = self.memory.flush == "adaptive-global" and self.memory.state_manager
        self._rate = self.memory.disk_rate or _FIRST_RATE
        self.reason = ""  # why it last decided as it did, with its numbers

    @property
    def owing(self) -> bool:
        """Whether there may be something to merge."""
        return bool(self._disk.owed.any()) or (self.along and any(self._disk.generations))

    def measured(self, rows: int, seconds: float) -> None:
        """A merge of this many rows took this long."""
        if rows and seconds > 0 and self.memory.disk_rate is None:
            self._rate = 0.5 * self._rate + 0.5 * rows / seconds

    def decide(self, *, idle: bool) -> Merge | None:
        """What to merge now; the reason is logged."""
        decision = self.decision(idle=idle)
        self.reason = decision.reason
        _log.info("%s", self.reason)
        return decision.merge

    def decision(self, *, idle: bool) -> Decision:
        """What the policy says; an idle batch leaves all time and memory to merges."""
        plan = [self.groups(o, with_rows=False) for o in self._tree.operators]
        room = self._disk.room_bytes / self._disk.statistics.mean_row_bytes
        setting = Setting(self.memory.interval_s, self._rate, room, self.memory.memory_weight)
        if idle:
            setting = dataclasses.replace(setting, buffer_rows=math.inf, memory_weight=0.0)
        adaptive = self.memory.flush == "adaptive-global"
        name = self.memory.flush if self.memory.state_manager or not adaptive else "state-spill"
        return registry.MERGES[name](plan, setting)

    def groups(self, operator: Operator, *, with_rows: bool) -> Groups:
        """What is known of an operator's groups; `with_rows` also of their rows in memory."""
        statistics = self._disk.statistics
        counts = statistics.of[operator.number]
        *arrived, local, overall = counts.now
        none = np.zeros_like(local)
        return Groups(
            operator.name,
            rows=statistics.held(operator) if with_rows else np.zeros_like(arrived),
            row_bytes=tuple(statistics.row_bytes[child] for child in operator.node),
            arrived=np.array(arrived),
            unique=counts.unique() if with_rows else none + 1.0,
            local=local,
            overall=overall,
            disk_rows=self._disk.generations[operator.number].rows.astype(np.float64),
            owed=self.owed(operator),
            downstream=statistics.downstream(operator) if with_rows else none,
            parent=None if operator is self._tree.root else self._tree.above(operator.node).number,
            silent=tuple(counts.silent),
        )

    def owed(self, operator: Operator) -> Any:
        """About how many combinations groups owe.

        The state manager's merges take rows in memory along, so what they owe to those on disk counts, too.
        Where inputs are flushed one by one, it does anyway; there after a merge nothing is known to be owed
        until something arrives or leaves.
        """
        owed = self._disk.owed[operator.number]
        if not self.memory.one_sided and not self.along:
            return owed
        on_disk = self._disk.generations[operator.number].rows.astype(np.float64)
        held = self._disk.statistics.held(operator)
        unique = self._disk.statistics.of[operator.number].unique()
        if self.along:
            return owed + owed_after_flush(on_disk, held, unique)
        same_key = unique ** (len(held) - 1)
        return np.where(owed > 0, (np.prod(on_disk + held, axis=0) - np.prod(held, axis=0)) / same_key, 0.0)
