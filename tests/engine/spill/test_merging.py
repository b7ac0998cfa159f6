"""Combinations across generations against nested loops: each once, and none that met in memory."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.sides.columns import BORN
from braided.engine.sides.side import Rows, SideState
from braided.engine.spill.merging import across, apart
from tests.seeds import seeds

INPUTS = 3


def sides_of(rng: np.random.Generator, rows: int) -> list[SideState]:
    """Sides with a few keys; each row says when it was born."""
    sides = []
    for name in "abc":
        side = SideState(name, pa.schema([("v", pa.int64())]), [BORN])
        batch = pa.record_batch({"v": np.arange(rows)})
        born = np.sort(rng.integers(0, 10, rows))
        side.append(Rows(batch, rng.integers(0, 3, rows) << 61, rng.integers(0, 50, rows), born=born))
        sides.append(side)
    return sides


def query() -> bd.JoinQuery:
    return bd.JoinQuery([bd.Stream(n, key="k", time="t", window="30 us") for n in "abc"])


def wanted(sides: list[SideState]) -> list[tuple[int, ...]]:
    """All combinations with one key and times inside each other's windows."""
    found = []
    for at in itertools.product(*(range(side.count) for side in sides)):
        keys = {int(s.columns["hash"][p]) for s, p in zip(sides, at, strict=True)}
        times = [int(s.columns["time"][p]) for s, p in zip(sides, at, strict=True)]
        if len(keys) == 1 and max(times) - min(times) <= 30:
            found.append(at)
    return found


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("most_rows", [4, 1000])
def test_oracle_across_generations(most_rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sides = sides_of(rng, 14)
    cuts = [np.sort(rng.integers(0, 15, 3)).tolist() for _ in range(INPUTS)]
    starts = [[0] * INPUTS, *map(list, zip(*cuts, strict=True)), [14] * INPUTS]
    generation = [np.searchsorted(cut, np.arange(14), side="right") for cut in cuts]
    found = [
        tuple(at) for piece in across(query().bounds, sides, starts, most_rows) for at in piece.T.tolist()
    ]
    owed = [at for at in wanted(sides) if len({generation[i][p] for i, p in enumerate(at)}) > 1]
    assert sorted(found) == owed
    assert owed


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_rows_that_were_never_in_memory_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sides = sides_of(rng, 14)
    born = [side.columns["born"][:14] for side in sides]
    departed = [b + rng.integers(1, 6, 14) for b in born]
    merged = rng.integers(-1, 4, 8)
    found = [
        tuple(at) for piece in apart(query().bounds, sides, departed, merged, 1000) for at in piece.T.tolist()
    ]
    owed = []
    for at in wanted(sides):
        came = max(int(born[i][p]) for i, p in enumerate(at))
        left = min(int(departed[i][p]) for i, p in enumerate(at))
        group = int(np.uint64(sides[0].columns["hash"][at[0]]) >> np.uint64(61))
        if came >= left and came > merged[group]:
            owed.append(at)
    assert sorted(found) == owed
    assert owed
