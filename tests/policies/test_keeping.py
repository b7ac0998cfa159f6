"""Statistics over intervals (golden A11; Figure 5's 60 and 77)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from braided.policies.keeping import Smoothed


def after(smoothed: Smoothed, *observed: float) -> float:
    for value in observed:
        smoothed.observe(np.array([value]))
    assert smoothed.now is not None
    return float(smoothed.now[0])


def test_what_is_recent_forgets_all_else() -> None:
    assert after(Smoothed("recent"), 100, 80, 90, 60) == 60


def test_an_average_is_of_the_latest_or_of_as_many_as_there_are() -> None:
    assert after(Smoothed("average", average_of=3), 100, 80, 90, 60) == pytest.approx(
        230 / 3
    )  # 77 in Figure 5
    assert after(Smoothed("average", average_of=3), 100, 80) == 90


def test_alpha_is_the_weight_of_what_was_known() -> None:
    assert after(Smoothed("ewma", alpha=0.2), 100, 80, 90, 60) == pytest.approx(65.76)
    assert after(Smoothed("ewma", alpha=0.2), 100) == 100


@pytest.mark.parametrize("keeping", ["recent", "average", "ewma"])
def test_any_shape_goes_through_a_checkpoint(keeping: str) -> None:
    rng = np.random.default_rng(5)
    for shape in ((), (4,), (2, 3), (2, 0)):
        first, second = (Smoothed(keeping, alpha=0.3, average_of=2) for _ in range(2))  # type: ignore[arg-type]
        assert first.now is None
        for _ in range(4):
            observed = rng.random(shape)
            first.observe(observed)
            second.load(json.loads(json.dumps(second.save())))
            second.observe(observed)
            assert first.now is not None
            assert first.now.shape == shape
            np.testing.assert_array_equal(first.now, second.now)


def test_counters_may_be_cleared_in_place() -> None:
    for smoothed in (Smoothed("recent"), Smoothed("average"), Smoothed("ewma")):
        counters = np.array([3, 4])
        smoothed.observe(counters)
        counters[:] = 0
        assert smoothed.now is not None
        assert smoothed.now.tolist() == [3, 4]
