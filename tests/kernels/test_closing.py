"""What purging asks, key by key, against Python's sets and lists."""

from __future__ import annotations

import numpy as np
import pytest

from braided.engine.kernels import closing, index
from tests.seeds import seeds

SHIFT = 61  # eight slots


def some_keys(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Hashes that share slots, and second hashes that tell equal ones apart."""
    return rng.integers(0, 4, rows) << 61 | rng.integers(0, 2, rows), rng.integers(0, 3, rows)


def pairs(hashes: np.ndarray, checks: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(hashes.tolist(), checks.tolist(), strict=True))


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_members_of_intervals_and_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.choice(100, 12, replace=False))
    intervals = ends.reshape(-1, 2).tolist()
    values = rng.integers(-5, 105, 80)
    inside = np.zeros(80, np.bool_)
    closing.in_intervals(ends[::2].copy(), ends[1::2].copy(), values, inside)
    assert inside.tolist() == [any(a <= v <= b for a, b in intervals) for v in values]

    members = sorted(set(pairs(*some_keys(rng, 9))))
    hashes, checks = (np.array(column) for column in zip(*members, strict=True))
    asked = some_keys(rng, 50)
    there = np.zeros(50, np.bool_)
    closing.in_pairs(hashes, checks, *asked, there)
    assert there.tolist() == [key in members for key in pairs(*asked)]


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_a_table_of_states_and_first_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(64, np.int8)
    known: dict[tuple[int, int], int] = {}
    for state in (closing.CLOSED, closing.FORGOTTEN, closing.CLOSED):
        hashes, checks = some_keys(rng, 8)
        new = len(set(pairs(hashes, checks)) - set(known))
        changed = sum(known.get(key) != state for key in set(pairs(hashes, checks)))
        assert closing.set_states(*table, 58, hashes, checks, np.int8(state)) == (new, changed)
        known |= dict.fromkeys(pairs(hashes, checks), state)
    asked = some_keys(rng, 40)
    states = np.zeros(40, np.int8)
    closing.states_of(*table, 58, *asked, states)
    assert states.tolist() == [known.get(key, 0) for key in pairs(*asked)]
    first = np.zeros(40, np.bool_)
    closing.first_ones(*asked, np.full(64, -1, np.int64), 58, first)
    keys = pairs(*asked)
    assert first.tolist() == [key not in keys[:i] for i, key in enumerate(keys)]


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_rows_of_keys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    base, rows, first = 5, 40, 12
    hashes, checks = some_keys(rng, rows)
    link, head = np.full(rows, -1, np.int32), np.full(8, -1, np.int32)
    index.insert(hashes, link, head, SHIFT, base, base, base + rows)
    gone = rng.random(rows) < 0.3
    asked = sorted(set(pairs(*some_keys(rng, 8))))
    some = tuple(np.array(column) for column in zip(*asked, strict=True))
    place = hashes, checks, gone, link, head, SHIFT, base, first
    stored = {
        key: {p for p in range(first, base + rows) if not gone[p - base] and keyed[p - base] == key}
        for keyed in [pairs(hashes, checks)]
        for key in asked
    }
    held = np.zeros(len(asked), np.bool_)
    closing.held(*place, *some, held)
    assert held.tolist() == [bool(stored[key]) for key in asked]
    out = np.empty(rows, np.int64)
    found = closing.rows_of(*place, *some, out)
    assert found == sum(map(len, stored.values()))
    assert set(out[:found].tolist()) == set().union(*stored.values())
