"""What a batch will ask of a side, before it is stored: shares of equal keys, rows inside the bounds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from braided.engine.operators.indexing import _part_inside, _sampled
from braided.engine.sides.side import Rows, SideState
from braided.query.bounds import INFINITE_US

SCHEMA = pa.schema([("v", pa.int64())])


def rows(hashes: np.ndarray, times: np.ndarray) -> Rows:
    return Rows(pa.record_batch({"v": hashes}), hashes, times)


@pytest.mark.parametrize("keys", [1, 4, 32])
def test_the_share_of_equal_keys_is_about_that_of_all_pairs(keys: int) -> None:
    rng = np.random.default_rng(keys)
    one, other = (rng.integers(0, keys, 700) for _ in range(2))
    arriving = [rows(h, np.arange(700)) for h in (one, other)]
    pairs = float((one[:, None] == other[None, :]).mean())
    assert _sampled(arriving, 0) == pytest.approx(pairs, rel=0.2)
    assert _sampled([arriving[0], None], 0) is None
    few = rows(one[:100], np.arange(100))
    assert _sampled([few, arriving[1]], 0) is None
    assert _sampled([arriving[0], few], 0) is None


def test_a_scan_looks_at_the_part_inside_the_bounds_if_rows_are_in_order() -> None:
    side = SideState("a", SCHEMA)
    side.append(rows(np.zeros(100, np.int64), np.arange(0, 1_000, 10)))
    assert _part_inside(side, None, 99) == pytest.approx(0.1)
    assert _part_inside(side, None, 5_000) == 1.0
    assert _part_inside(side, None, INFINITE_US) == 1.0
    later = rows(np.zeros(2, np.int64), np.array([1_500, 1_980]))
    assert _part_inside(side, later, 99) == pytest.approx(0.05)
    earlier = rows(np.zeros(2, np.int64), np.array([500, 1_980]))
    assert _part_inside(side, earlier, 99) == 1.0
    side.append(earlier)
    assert not side.ordered
    assert _part_inside(side, None, 99) == 1.0
