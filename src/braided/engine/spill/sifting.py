"""Rows on disk that no row to come can meet: when they are looked for, and how groups are rewritten without.

Rows on disk are pushed out of count windows, and keys are closed by promises. What is closed waits, counted
by group, until looking is worth it: once about half of a group's rows may be dead, or a group has doubled
since it was last looked through. So reading and writing are in proportion to the rows that come, and what is
on disk to those that live. Only rows that owe nothing are looked at; whoever calls sees to that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from braided.engine.features import Host
from braided.engine.operators.operator import Operator
from braided.engine.sides.groups import group_of
from braided.engine.sides.side import Rows
from braided.engine.spill.disk import Disk
from braided.engine.spill.disk_phase import DiskPhase
from braided.policies.arrays import Bools, Floats, Int64s
from braided.query.errors import SpillFailed
from braided.query.plan_tree import Plan


class Sifting:
    """Looks through the groups of one engine that have rows on disk."""

    def __init__(self, host: Host, disk: Disk, phase: DiskPhase) -> None:
        self._host, self._disk, self._phase = host, disk, phase
        groups = 1 << disk.bits
        self._waiting = np.zeros(groups)  # closures that rows on disk were not judged by
        self._kept = np.zeros(groups)  # rows of a group when it was last looked through, or first written
        self._counts = host.query.counts  # so any row may push others out of its count window
        self._per_key = float(len(host.query.streams))  # rows of a key, as last seen

    @property
    def _rows(self) -> Int64s:
        """Rows on disk by group, of all operators."""
        return np.asarray(sum(generations.rows.sum(axis=0) for generations in self._disk.generations))

    def count_closed(self) -> None:
        """Count closed keys that may have rows on disk, and closed ranges, which may be anywhere."""
        closed, groups = self._host.closed_hidden, len(self._waiting)
        self._waiting += closed.ranges / groups
        for hashes in closed.hashes:
            self._waiting += np.bincount(group_of(hashes, self._disk.bits), minlength=groups)
        closed.clear()

    def written(self) -> None:
        """Rows went to disk: of groups that had none there, this is what they begin with."""
        rows = self._rows
        self._kept = np.where(self._kept > 0, np.where(rows > 0, self._kept, 0), rows)
        self._waiting *= rows > 0  # what is not on disk does not wait

    def dead_rows(self) -> float:
        """About how many rows on disk can join no more, by closed keys.

        How many rows a key has may be quite wrong: of a group that has doubled since it was last looked
        through all may be dead.
        """
        rows = self._rows
        doubled = ((self._waiting > 0) | self._counts) & (rows >= 2 * self._kept)
        return float(np.where(doubled, rows, np.minimum(rows, self._waiting * self._per_key)).sum())

    def due(self, *, idle: bool) -> Bools:
        """Which groups are worth looking through; if nothing else is to be done, all in which keys closed."""
        rows = self._rows
        doubled = rows >= 2 * self._kept
        worth = idle | (2 * self._waiting * self._per_key >= rows) | doubled
        return np.asarray((rows > 0) & (((self._waiting > 0) & worth) | (self._counts & doubled)))

    def sift_due(self, *, idle: bool) -> None:
        """Rewrite what is worth it, of rows that owe nothing, without those that can join no more.

        Where that fails, rows stay a while longer.
        """
        if not (groups := self.due(idle=idle)).any():
            return
        sizes = np.sum([self._disk.bytes_in_memory(o) for o in self._disk.tree.operators], axis=0)
        with contextlib.suppress(SpillFailed):
            for part in self._phase.split(groups, sizes):
                self._sift(part)

    def _sift(self, groups: Bools) -> None:
        rows: dict[Plan, Rows] = {}
        for operator in self._disk.tree.operators:
            read = self._disk.read(operator, groups, with_memory=False)
            rows |= zip(operator.node, (of_input for of_input, _ in read), strict=True)
        keys = len(np.unique(np.concatenate([r.hashes for r in rows.values()])))
        self._per_key = max(1.0, sum(map(len, rows.values())) / max(1, keys))
        needed = self._host.needed(rows, lambda hashes: groups[group_of(hashes, self._disk.bits)])
        for operator in self._disk.tree.operators:
            self._rewrite(operator, groups, rows, needed)
        self._waiting[groups] = 0.0
        self._kept[groups] = self._rows[groups]

    def _rewrite(
        self, operator: Operator, groups: Bools, rows: Mapping[Plan, Rows], needed: Mapping[Plan, Bools]
    ) -> None:
        """Write what is still needed of an operator's groups, if not all of it is."""
        disk, watermark_us = self._disk, self._host.settled_us
        living = {child: disk.living(child, rows[child], watermark_us) for child in operator.node}
        stay = {child: living[child] & needed.get(child, True) for child in operator.node}
        touched = np.zeros_like(groups)
        for child in operator.node:
            touched[group_of(rows[child].hashes[~stay[child]], disk.bits)] = True
        if not touched.any():
            return
        chosen = [stay[c] & touched[group_of(rows[c].hashes, disk.bits)] for c in operator.node]
        kept = [rows[c].pick(these) for c, these in zip(operator.node, chosen, strict=True)]
        written = disk.write_rows(operator, kept)
        disk.drop(operator.number, touched)
        disk.tick += 1
        disk.add(operator.number, disk.tick, written)
        disk.meet(operator.number, touched)
        for child in operator.node:
            disk.count_dead(child, int(np.count_nonzero(~living[child])))
            disk.count_purged(child, int(np.count_nonzero(living[child] & ~stay[child])))

    # from and to a checkpoint

    def save(self) -> dict[str, Any]:
        """As plain numbers."""
        return {"waiting": self._waiting.tolist(), "kept": self._kept.tolist(), "per_key": self._per_key}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Go on from saved numbers; if there are other groups now, look through all of them soon."""
        waiting: Floats = np.array(saved["waiting"])
        if len(waiting) == len(self._waiting):
            self._waiting, self._kept = waiting, np.array(saved["kept"])
        else:
            self._waiting[:] = waiting.sum() / len(self._waiting)
        self._per_key = saved["per_key"]
