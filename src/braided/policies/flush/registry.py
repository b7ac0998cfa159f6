"""All flush policies and their disk phases, by the names that `Memory(flush=...)` knows."""

from __future__ import annotations

from braided.policies.flush import (
    adaptive_global,
    disk_phases,
    hash_merge,
    largest,
    rpj,
    state_manager,
    state_spill,
)
from braided.policies.flush.question import ChooseFlush, ChooseMerge

FLUSHES: dict[str, ChooseFlush] = {
    "adaptive-global": adaptive_global.choose,
    "state-spill": state_spill.choose,
    "hash-merge": hash_merge.choose,
    "rpj": rpj.choose,
    "largest": largest.choose,
}

MERGES: dict[str, ChooseMerge] = {
    "adaptive-global": state_manager.decide,
    "state-spill": disk_phases.never,
    "hash-merge": disk_phases.most_owed,
    "rpj": disk_phases.best_task,
    "largest": disk_phases.largest_part,
}
