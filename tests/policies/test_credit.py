"""Fractions of rows (golden J15: 3 and 2 results in turn are 2.5 a cycle)."""

from __future__ import annotations

import numpy as np
import pytest

from braided.policies.credit import whole_rows


def test_two_and_a_half_rows_are_two_and_three_by_turns() -> None:
    credit: dict[str, float] = {}
    seen = []
    for _ in range(4):
        rows, credit = whole_rows({"a": 2.5}, credit)
        seen.append(rows["a"])
    assert seen == [2, 3, 2, 3]
    assert np.mean(seen) == 2.5


@pytest.mark.parametrize("allowance", [0.0, 0.1, 1 / 3, 20.625, 9.375, 1e6 + 0.7])
def test_nothing_is_lost_or_gained(allowance: float) -> None:
    credit: dict[str, float] = {}
    total = 0
    for turn in range(1, 301):
        rows, credit = whole_rows({"a": allowance}, credit)
        total += rows["a"]
        assert 0 <= credit["a"] < 1
        assert total == pytest.approx(turn * allowance, abs=1)
        assert total <= turn * allowance + 1e-4
