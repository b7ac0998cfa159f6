"""Room in memory: how much state takes, which groups go to disk for rows to come, and which come back.

Rows that were flushed or purged hold their room until a side is rebuilt without them. So that this is seldom,
only a part of the limit is for rows that are found, and the rest for those that are gone.
"""

from __future__ import annotations

import numpy as np

from braided.engine.features import Feature, Host
from braided.engine.sides.freeing import free_at_once, give_back
from braided.engine.spill.disk import Disk
from braided.engine.spill.disk_phase import DiskPhase
from braided.engine.spill.group_statistics import LOCAL
from braided.engine.spill.sifting import Sifting
from braided.policies.flush import registry
from braided.query.memory import LIVE_SHARE

_BACK_SHARE = 0.5  # of the limit: groups come back from disk while no more is held
_GIVE_BACK_SHARE = 0.25  # of the limit: what may be free and not given back


class Room:
    """Keeps what an engine holds in memory within its limit."""

    def __init__(self, host: Host, disk: Disk, phase: DiskPhase, sifting: Sifting) -> None:
        self._host, self._disk, self._phase, self._sifting = host, disk, phase, sifting
        self._memory, self._tree = disk.memory, host.tree
        self.choose = registry.FLUSHES[self._memory.flush]
        self._free = 0.0  # bytes that were freed since memory was given back
        free_at_once(self._memory.limit_bytes)

    @property
    def held(self) -> int:
        """Bytes of rows in memory, stored and waiting, of indexes, and of what is known of groups."""
        known = sum(counts.nbytes for counts in self._disk.statistics.of)
        waiting = sum(nbytes() for nbytes in self._host.features.of(Feature.nbytes))
        return sum(side.nbytes for side in self._tree.sides.values()) + known + waiting

    @property
    def _gone(self) -> float:
        """About how many bytes rows take that are gone and still held."""
        row_bytes = self._disk.statistics.row_bytes
        return sum(s.gone_rows * row_bytes[n] for n, s in self._tree.sides.items())

    def _over(self, incoming: int) -> float:
        """By how many bytes rows that are found would be too many."""
        return self.held - self._gone + incoming - LIVE_SHARE * self._memory.limit_bytes

    def make(self, incoming: int) -> None:
        """Purge, flush, and give up rows that are gone, until this many bytes more fit."""
        limit = self._memory.limit_bytes
        if not incoming and self.held <= limit:
            return  # the next batch will say how much it needs
        if self._over(incoming) > 0:
            for purge in self._host.features.of(Feature.purge):
                purge(None)
        if (over := self._over(incoming)) > 0:
            self._flush(max(over, self._memory.flush_share * limit))
        if self.held + incoming > limit:
            gone = self._gone
            for side in self._tree.sides.values():
                side.leave_out_gone()
            self.freed(gone)

    def take_back(self, incoming: int = 0) -> None:
        """Groups, none of which owes anything, come back to memory, those that most arrives for first."""
        room = _BACK_SHARE * self._memory.limit_bytes - (self.held - self._gone) - incoming
        for operator in self._tree.operators:
            generations = self._disk.generations[operator.number]
            if room <= 0 or not generations:
                continue
            sizes = self._disk.bytes_in_memory(operator)
            arrived = self._disk.statistics.of[operator.number].now[:LOCAL].sum(axis=0) * generations.groups
            chosen = np.zeros(len(arrived), np.bool_)
            for group in np.argsort(-arrived, kind="stable").tolist():
                if arrived[group] > 0 and sizes[group] <= room:
                    chosen[group] = True
                    room -= sizes[group]
            if chosen.any():
                back = self._disk.read(operator, chosen, with_memory=False)
                for child, (rows, _) in zip(operator.node, back, strict=True):
                    alive = self._disk.living(child, rows, self._host.settled_us)
                    self._tree.sides[child].append(rows.pick(alive))
                    self._disk.count_dead(child, int(np.count_nonzero(~alive)))
                self._disk.drop(operator.number, chosen)

    def freed(self, size: float) -> None:
        """This many bytes are free again; from time to time they go back to the system."""
        self._free += size
        if self._free > _GIVE_BACK_SHARE * self._memory.limit_bytes:
            give_back()
            self._free = 0.0

    def _flush(self, size: float) -> None:
        """Write the least useful groups to disk, this many bytes at least."""
        plan = [self._phase.groups(o, with_rows=True) for o in self._tree.operators]
        chosen = self.choose(plan, size)
        by_operator = [np.zeros(generations.rows.shape, np.bool_) for generations in self._disk.generations]
        for number, group, side in chosen:
            by_operator[number][slice(None) if side is None else side, group] = True
        for operator, groups in zip(self._tree.operators, by_operator, strict=True):
            if groups.any():
                self._disk.flush(operator, groups)
        self._sifting.written()
