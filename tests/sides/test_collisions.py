"""Hash collisions cost time and never become a result."""

from __future__ import annotations

import numpy as np
import pytest

import braided as bd
from braided.engine.sides import keys
from braided.testing import assert_same_bag, expected
from tests.seeds import seeds
from tests.workloads import names_of, random_tables, stream


@pytest.mark.parametrize("mask", [0, 3 << 62, 1])
@pytest.mark.parametrize("key_type", ["string", "decimal128", "dictionary", "fixed_size_binary"])
def test_forced_collisions_never_become_a_result(
    monkeypatch: pytest.MonkeyPatch, key_type: str, mask: int
) -> None:
    monkeypatch.setattr(keys, "_COLLISION_MASK", np.uint64(mask).astype(np.int64))
    names = names_of(3)
    for windows in (["30 us"] * 3, [bd.CountWindow(2), "30 us", bd.CountWindow(1)]):
        query = bd.JoinQuery([stream(n, w) for n, w in zip(names, windows, strict=True)])
        for seed in seeds(2):
            tables = random_tables(seed, names, rows=40, key_type=key_type)
            result = bd.run_local(query, tables, batch_rows=7)
            assert result.num_rows > 0
            assert_same_bag(result, expected(query, tables))


def test_forced_collisions_of_composite_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_COLLISION_MASK", 0)
    query = bd.JoinQuery([bd.Stream(n, key=["k", "n"]) for n in "ab"])
    tables = random_tables(1, ["a", "b"], rows=40)
    assert_same_bag(bd.run_local(query, tables, batch_rows=7), expected(query, tables))
