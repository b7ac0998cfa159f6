"""The search for combinations against nested loops: chains, sweeps, any output size, what may be seen."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from braided.engine.kernels import index
from braided.engine.kernels import tables as t
from braided.engine.kernels.probe import count_matches, enumerate_combinations
from tests.seeds import seeds

BASE = 3
SHIFT = 60
BLOCK = 8


@dataclass
class Stored:
    """One side: its arrays, as the kernel reads them."""

    hashes: np.ndarray
    times: np.ndarray
    link: np.ndarray
    head: np.ndarray
    scanned: bool
    ordered: bool
    first: int
    floor: int

    def describe(self) -> list[int]:
        columns = dict.fromkeys(range(t.SIDE_COLUMNS), 0) | {
            t.HASH: self.hashes.ctypes.data - 8 * BASE,
            t.TIME: self.times.ctypes.data - 8 * BASE,
            t.LINK: self.link.ctypes.data - 4 * BASE,
            t.HEAD: self.head.ctypes.data,
            t.SHIFT: SHIFT,
            t.FIRST: self.first,
            t.SCANNED: self.scanned,
            t.ORDERED: self.ordered,
            t.FLOOR: self.floor,
        }
        return list(columns.values())

    def row(self, p: int) -> tuple[int, int, bool]:
        return int(self.hashes[p - BASE]), int(self.times[p - BASE]), self.link[p - BASE] != index.UNLINKED


def side(rng: np.random.Generator, rows: int, *, scanned: bool, ordered: bool) -> Stored:
    times = rng.integers(0, 60, rows)
    hashes = rng.integers(0, 5, rows) << 61
    link = np.where(rng.random(rows) < 0.1, index.UNLINKED, -1).astype(np.int32)
    head = np.full(16, -1, np.int32)
    if not scanned:
        index.insert(hashes, link, head, SHIFT, BASE, BASE, BASE + rows)
    times = np.sort(times) if ordered else times
    return Stored(
        hashes, times, link, head, scanned, ordered, BASE + int(rng.integers(0, 4)), int(rng.integers(0, 10))
    )


def matches(sides: list[Stored], bounds: np.ndarray, driver: int, partners: dict[int, int]) -> bool:
    """Whether rows (a position by stream) are a result, by the definition."""
    rows = {s: sides[s].row(p) for s, p in partners.items()}
    timely = all(rows[j][1] - rows[i][1] <= bounds[i, j] for i, j in itertools.permutations(rows, 2))
    fresh = all(rows[s][1] >= sides[s].floor for s in rows if s != driver)
    return timely and fresh and all(r[2] for r in rows.values()) and len({r[0] for r in rows.values()}) == 1


def found_by_kernel(
    sides: list[Stored], orders: Any, bounds: Any, segments: Any, room: int
) -> tuple[list[Any], Any]:
    n = len(sides)
    table = np.array([s.describe() for s in sides], np.int64)
    rations = np.full((n, n), t.EVERYONE, np.int64)
    levels, walking = np.empty((n, t.level_rows(n), BLOCK), np.int64), np.zeros(n, np.int64)
    tally, cursor = np.zeros((n, n, t.TALLY_COLUMNS), np.int64), np.zeros(3, np.int64)
    out, found = np.empty((n, room), np.int32), list[tuple[int, ...]]()
    while cursor[0] < len(segments):
        many = enumerate_combinations(
            table, orders, bounds, segments, cursor, levels, walking, rations, tally, out
        )
        found += map(tuple, out[:, :many].T.tolist())
    return found, tally


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("room", [1, 5, 1000])
@pytest.mark.parametrize("scanned", [(), (1,), (0, 1, 2)])
def test_oracle_combinations_of_three_sides(scanned: tuple[int, ...], room: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [12, 80, 9]  # a scan looks at 64 rows at a glance
    sides = [side(rng, n, scanned=i in scanned, ordered=seed % 2 == 0) for i, n in enumerate(rows)]
    ends = [BASE + n for n in rows]
    bounds = rng.integers(5, 40, (3, 3))
    orders = np.array([[0, 2, 1], [1, 0, 2], [2, 1, 0]])
    seen = [ends, [ends[0], BASE, ends[2] - 2]]
    segments = np.array([[0, sides[0].first, ends[0], *seen[0]], [1, sides[1].first, ends[1], *seen[1]]])
    wanted = []
    for driver, start, stop, *visible in segments.tolist():
        ranges = [range(s.first, v) for s, v in zip(sides, visible, strict=True)]
        ranges[driver] = range(start, stop)
        wanted += [
            c for c in itertools.product(*ranges) if matches(sides, bounds, driver, dict(enumerate(c)))
        ]
    found, tally = found_by_kernel(sides, orders, bounds, segments, room)
    assert sorted(found) == sorted(wanted)
    assert wanted
    assert tally[:, -1, t.MATCHES].sum() == len(wanted)


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("scanned", [False, True])
def test_oracle_matches_are_counted(scanned: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sides = [side(rng, n, scanned=scanned, ordered=True) for n in (20, 90)]
    bounds = rng.integers(5, 40, (2, 2))
    table = np.array([s.describe() for s in sides], np.int64)
    table[:, t.VISIBLE] = BASE + 20, BASE + 70
    rows, out = np.arange(BASE, BASE + 20), np.zeros(20, np.int64)
    count_matches(table, 0, 1, bounds, rows, out)
    partners = range(sides[1].first, BASE + 70)
    assert out.tolist() == [
        sum(matches(sides, bounds, 0, {0: p, 1: q}) for q in partners) for p in rows.tolist()
    ]
