"""Plans of all shapes, with groups in memory and on disk, for tests of flush policies."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from braided.policies.flush.question import Groups

SETTING = {"interval_s": 5.0, "disk_rate": 100.0, "buffer_rows": 1000.0}


def groups(rows: Any, **others: Any) -> Groups:
    """Groups of which only some numbers are given: nothing arrived, nothing was found."""
    rows = np.array(rows, dtype=np.float64)
    given: dict[str, Any] = {
        name: np.array(v, dtype=np.float64) if _many(v) else v for name, v in others.items()
    }
    zeros, row_bytes = np.zeros(rows.shape[1]), (8.0,) * len(rows)
    nothing = Groups("join", rows, row_bytes, np.zeros(rows.shape), zeros + 1, zeros, zeros)
    return dataclasses.replace(nothing, **given)


def _many(values: object) -> bool:
    return isinstance(values, list | np.ndarray)


def some_plans(many: int, *, seed: int) -> list[list[Groups]]:
    """Random trees of one to five operators with two to eight inputs; many numbers are zero."""
    rng = np.random.default_rng(seed)
    return [_plan(rng, int(rng.integers(1, 6))) for _ in range(many)]


def _plan(rng: np.random.Generator, operators: int) -> list[Groups]:
    parents = [int(rng.integers(i + 1, operators)) for i in range(operators - 1)]
    return [_groups(rng, f"join{i}", parent) for i, parent in enumerate([*parents, None])]


def _groups(rng: np.random.Generator, name: str, parent: int | None) -> Groups:
    shape = (int(rng.choice([2, 2, 3, 8])), int(rng.integers(1, 9)))
    inputs, by_group = shape[0], shape[1]
    local = _counts(rng, by_group)
    found = Groups(
        name,
        _counts(rng, shape) * (rng.random(by_group) < 0.8),
        tuple(float(n) for n in rng.integers(1, 50, inputs)),
        _counts(rng, shape),
        _counts(rng, by_group) // 10,
        local,
        local if parent is None else np.floor(local * rng.random(by_group)),
        parent=parent,
        silent=tuple(bool(s) for s in rng.random(inputs) < rng.choice([0.2, 1.0])),
    )
    if rng.random() < 0.2:
        return found  # nothing is known of disk
    return dataclasses.replace(
        found,
        disk_rows=_counts(rng, shape),
        owed=_counts(rng, by_group) * 10,
        downstream=_counts(rng, by_group),
    )


def _counts(rng: np.random.Generator, shape: Any) -> Any:
    kind = rng.random()
    if kind < 0.1:
        return np.zeros(shape)
    counts = rng.integers(0, 200, shape).astype(np.float64)
    return np.where(rng.random(shape) < 0.7, counts, 0.0)


def by_hand(name: str) -> list[Groups]:
    """Plans at the edge."""
    return {
        "no operator": [],
        "no group": [groups(np.zeros((2, 0)))],
        "nothing anywhere": [groups([[0, 0], [0, 0]], unique=[0, 0])],
        "no key counted": [groups([[5, 5], [5, 5]], unique=[0, 0], arrived=[[1, 2], [3, 4]])],
        "nothing arrived": [groups([[5, 5], [5, 5]])],
        "one group": [groups([[7], [0]], arrived=[[0], [1]])],
        "rows of unknown size": [groups([[7, 3], [0, 3]], row_bytes=(0.0, 0.0), arrived=[[1, 1], [1, 1]])],
        "eight inputs": [groups(np.full((8, 3), 1e4), arrived=np.ones((8, 3)), unique=[2, 100, 1])],
    }[name]


EDGES = (
    "no operator",
    "no group",
    "nothing anywhere",
    "no key counted",
    "nothing arrived",
    "one group",
    "rows of unknown size",
    "eight inputs",
)
PLANS = [*map(by_hand, EDGES), *some_plans(150, seed=11)]
