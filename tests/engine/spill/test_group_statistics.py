"""What is known of groups: different keys within bounds, saved and loaded, whatever the number of keys."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.sides.groups import group_of
from braided.engine.sides.keys import key_format
from braided.engine.spill.group_statistics import GroupCounts


@pytest.mark.parametrize("keys", [1, 10, 100, 3_000, 100_000])
@pytest.mark.parametrize("groups", [4, 64])
def test_different_keys_are_counted_over_many_batches_and_restarts(keys: int, groups: int) -> None:
    rng = np.random.default_rng(keys)
    memory = bd.Memory("1 MB", groups=groups)
    counts = GroupCounts(memory, 2)
    format_ = key_format([[("a.k", pa.int64())]])
    came: set[int] = set()
    for _ in range(20):
        values = rng.integers(0, keys, max(1, keys // 5))
        came |= set(values.tolist())
        counts.arrived(0, format_.hashes([pa.array(values)], len(values)))
        again = GroupCounts(memory, 2)
        again.load(json.loads(json.dumps(counts.save())))
        counts = again
    hashes = format_.hashes([pa.array(sorted(came))], len(came))
    true = np.bincount(group_of(hashes, memory.group_bits), minlength=groups)
    believed = np.where(true > 0, counts.unique(), 0)
    assert abs(believed.sum() / len(came) - 1) < 0.2
    assert (abs(believed[true > 0] / true[true > 0] - 1) < 0.6).all()
