"""Partition groups against a plain grouping by the highest bits of the hash."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from braided.engine.sides.columns import GONE
from braided.engine.sides.groups import (
    by_group,
    drop_groups,
    group_of,
    groups_at,
    in_groups,
    ordered_by_group,
    rows_by_group,
)
from braided.engine.sides.side import Rows, SideState
from tests.seeds import seeds

BITS = 3


def stored(
    rng: np.random.Generator, rows: int, *, turned: int = 0
) -> tuple[SideState, np.ndarray, np.ndarray]:
    """A side, its rows' hashes, and which of them have a key."""
    hashes = rng.integers(-(2**63), 2**63 - 1, rows)
    linked = rng.random(rows) < 0.8
    side = SideState("a", pa.schema([("v", pa.int64())]), [GONE], turned=turned)
    batch = pa.RecordBatch.from_arrays([pa.array(np.arange(rows))], names=["v"])
    side.append(Rows(batch, hashes, np.arange(rows), linked))
    return side, hashes, linked


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_groups_are_taken_and_dropped_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    side, hashes, linked = stored(rng, 100)
    groups = np.array([(int(h) & (2**64 - 1)) >> (64 - BITS) for h in hashes])
    assert (group_of(hashes, BITS) == groups).all()
    assert (groups_at(side, np.arange(100, dtype=np.int32), BITS) == groups).all()
    assert rows_by_group(side, BITS).tolist() == [int((linked & (groups == g)).sum()) for g in range(8)]
    assert (groups[by_group(groups)] == np.sort(groups)).all()

    chosen = rng.random(8) < 0.5
    rows, there, bounds = ordered_by_group(in_groups(side, chosen), BITS)
    values = rows.batch.column(0).to_numpy()
    assert there == np.unique(groups[linked & chosen[groups]]).tolist()
    for n, g in enumerate(there):
        assert values[bounds[n] : bounds[n + 1]].tolist() == np.flatnonzero(linked & (groups == g)).tolist()
    assert (rows.hashes == hashes[values]).all()
    assert drop_groups(side, chosen) == len(values)
    assert rows_by_group(side, BITS)[chosen].sum() == 0
    assert side.live_rows == 100 - len(values)


def test_a_side_of_one_group_turns_its_hashes_and_knows_their_groups() -> None:
    side, hashes, _ = stored(np.random.default_rng(1), 50, turned=BITS)
    assert (groups_at(side, np.arange(50, dtype=np.int32), BITS) == group_of(hashes, BITS)).all()
