"""The unit-time cost model against the paper's own numbers (golden K1-K13 that concern costs)."""

from __future__ import annotations

import pytest

from braided_lab.window_cost import (
    Side,
    Weights,
    crossover,
    direction_cost,
    exact_crossover,
    hash_cost,
    join_cost,
    output_rate,
    prefers_scan,
    scan_cost,
)

A = Side(rate=10, window=60, keys=10)


def b(rate: float, keys: float = 10) -> Side:
    return Side(rate=rate, window=60, keys=keys)


def test_crossover_ratios() -> None:
    assert crossover(10) == pytest.approx(6.692307692307692)
    assert crossover(20) == pytest.approx(14.384615384615383)


def test_determinant_chooses_the_scan_for_the_faster_stream() -> None:
    assert prefers_scan(10, b(100))
    assert not prefers_scan(5, b(45, keys=20))
    assert prefers_scan(5, b(45, keys=10))


@pytest.mark.parametrize(("keys", "rate"), [(10, 67.0128205128205), (20, 144.025641025641)])
def test_where_the_full_joins_cross(keys: int, rate: float) -> None:
    crossing = exact_crossover(10, b(1, keys)) * 10
    assert crossing == pytest.approx(rate)
    assert scan_cost(10, b(crossing, keys)) == pytest.approx(hash_cost(10, b(crossing, keys)))


@pytest.mark.parametrize(
    ("a_index", "b_index", "costs"),
    [
        ("hash", "hash", [1573.0, 25012.0, 56238.0, 156130.0]),
        ("hash", "scan", [3796.5, 24196.5, 37796.5, 64996.5]),
        ("scan", "hash", [3796.5, 42895.5, 84561.5, 205333.5]),
        ("scan", "scan", [6020.0, 42080.0, 66120.0, 114200.0]),
    ],
)
def test_cost_points_of_the_four_full_joins(a_index: str, b_index: str, costs: list[float]) -> None:
    found = [join_cost(a_index, b_index, A, b(rate)) for rate in (10, 70, 110, 190)]  # type: ignore[arg-type]
    assert found == pytest.approx(costs)


def test_capacity_and_thrashing_points() -> None:
    capacity = hash_cost(10, b(120))
    assert capacity == pytest.approx(60918.0)

    def thrashes(b_index: str) -> float:
        low, high = 10.0, 1000.0
        for _ in range(60):
            middle = (low + high) / 2
            dear = join_cost("hash", b_index, A, b(middle)) > capacity  # type: ignore[arg-type]
            low, high = (low, middle) if dear else (middle, high)
        return low

    assert thrashes("hash") == pytest.approx(114.8966928486308)
    assert thrashes("scan") == pytest.approx(178.00441176470588)


def test_output_rate_at_the_peaks() -> None:
    assert [output_rate(A, b(rate)) for rate in (110, 190)] == pytest.approx([13200.0, 22800.0])


def test_lazy_invalidation() -> None:
    assert scan_cost(10, b(70), invalidation="lazy") == pytest.approx(21050.0)
    assert direction_cost("hash", 10, b(70), invalidation="lazy") < hash_cost(10, b(70))


def test_weights_only_matter_by_their_ratio() -> None:
    assert crossover(10, Weights(1, 1.3)) == pytest.approx(crossover(10))
