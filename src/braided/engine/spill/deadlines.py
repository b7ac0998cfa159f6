"""Since when groups on disk owe something, and which must be merged so that it does not wait too long.

Time is the engine's own: on Spark when the batch before ended, as it was recorded, so that every attempt at a
batch decides the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from braided.engine.features import Host
from braided.engine.sides.groups import group_of
from braided.engine.sides.side import Rows
from braided.engine.spill.disk import Disk
from braided.engine.spill.files import LastingStore
from braided.policies.arrays import Bools
from braided.policies.flush import deadlines
from braided.query.plan_tree import height

_SMOOTH = 0.5  # of the time between batches, as it was known


class Deadlines:
    """When the groups of one engine must be merged, by `Memory(owed_within=...)`."""

    def __init__(self, host: Host, disk: Disk) -> None:
        self._disk, self._clock = disk, host.site.clock
        # what one operator owes may be owed again by those above: each has its part of the time
        self.within_s = (disk.memory.owed_within_s or math.inf) / height(host.query.tree)
        self._since_s = np.full(disk.owed.shape, math.inf)
        self._touched = np.zeros(disk.owed.shape, np.bool_)  # rows came since for groups on disk
        self._gap_s, self._last_s = 0.0, 0.0

    @property
    def age_s(self) -> float:
        """How long the oldest owed result has waited, at most."""
        since_s = self._since_s.min()
        return max(0.0, self._clock() - float(since_s)) if since_s < math.inf else 0.0

    def begin(self) -> None:
        """A batch begins."""
        now_s = self._clock()
        if self._last_s and now_s > self._last_s:
            gap_s = now_s - self._last_s
            self._gap_s = _SMOOTH * (self._gap_s or gap_s) + (1 - _SMOOTH) * gap_s
        self._last_s = now_s

    def arrived(self, operator: int, rows: Rows) -> None:
        """Rows arrive at an operator: those for groups on disk are owed to these."""
        groups = self._disk.generations[operator].groups
        if groups.any():
            came = np.bincount(group_of(rows.hashes, self._disk.bits), minlength=len(groups))
            self._touched[operator] |= groups & (came > 0)

    def met(self, operator: int, groups: Bools, *, with_memory: bool) -> None:
        """Groups have been merged, with their rows in memory or without these."""
        self._since_s[operator, groups] = math.inf
        self._touched[operator, groups] = not with_memory

    def clear(self) -> None:
        """Nothing is owed."""
        self._since_s[:], self._touched[:] = math.inf, False

    def commit(self) -> None:
        """Note since when groups owe something; if there is no time yet, later."""
        owing = np.array([generations.owing for generations in self._disk.generations])
        on_disk = np.array([generations.groups for generations in self._disk.generations])
        self._touched = (self._touched | owing) & on_disk
        self._since_s[~on_disk] = math.inf
        if now_s := self._clock():
            self._since_s[self._touched & (self._since_s == math.inf)] = now_s
            self._touched[:] = False

    def due(self, rate: float) -> dict[int, Bools]:
        """By operator, from below, the groups to be merged now, if merges take so many rows a second."""
        if self.within_s == math.inf:
            return {}
        rows = np.array([generations.rows.sum(axis=0) for generations in self._disk.generations])
        next_s = self._clock() + self._gap_s
        chosen = deadlines.due(
            self._since_s.ravel(), rows.ravel() / rate, within_s=self.within_s, next_s=next_s
        )
        masks = np.zeros(rows.shape, np.bool_)
        masks.ravel()[chosen] = True
        return {operator: groups for operator, groups in enumerate(masks) if groups.any()}

    # from and to a checkpoint

    def save(self) -> dict[str, Any]:
        """As plain numbers: moments if the clock goes on for a later engine, else how long ago they were."""
        known = [(o, g, self._since_s[o, g]) for o, g in np.argwhere(np.isfinite(self._since_s)).tolist()]
        base_s = 0.0 if self._lasts else self._clock()
        touched = np.argwhere(self._touched).tolist()
        since = [[o, g, float(since_s) - base_s] for o, g, since_s in known]
        return {"since": since, "touched": touched, "gap": self._gap_s, "last": self._last_s - base_s}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Go on from saved numbers; groups that are not there any more owe nothing."""
        base_s, (operators, groups) = 0.0 if self._lasts else self._clock(), self._since_s.shape
        for operator, group, since_s in saved["since"]:
            if operator < operators and group < groups:
                self._since_s[operator, group] = base_s + since_s
        for operator, group in saved["touched"]:
            if operator < operators and group < groups:
                self._touched[operator, group] = True
        self._gap_s, self._last_s = saved["gap"], base_s + saved["last"]

    @property
    def _lasts(self) -> bool:
        return isinstance(self._disk.store, LastingStore)
