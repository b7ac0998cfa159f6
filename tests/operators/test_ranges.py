"""Whether a condition might fail is known before it does, from the ranges of its columns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.operators import predicate
from braided.engine.operators.ranges import Ranges
from braided.query.condition import parse
from tests.seeds import seeds

FAR = 1 << 60
SAFE = [
    ("a.x < b.x", [1, FAR], [FAR, -FAR]),
    ("a.x * b.x > 5", [FAR, -FAR], [FAR, 3]),
    ("a.x + b.x - 3 > a.x % b.x", [FAR], [FAR]),
    ("a.x / b.x > 2", [FAR], [0]),
    ("a.x * b.x * a.x * b.x * a.x > 5", [1 << 40], [-(1 << 40)]),
    ("a.x * b.x > 5", [1.5, 1e300], [1e300]),
    ("a.x like 'x%' and b.x is null", ["x"], ["y"]),
    ("a.x = b.x", [Decimal(10) ** 37], [Decimal(1)]),
]
UNSAFE = [
    ("a.x * b.x * a.x * b.x * a.x > 5", [1, FAR], [-FAR]),
    ("abs(-a.x * b.x) * a.x > 5", [Decimal(10) ** 30], [Decimal(10) ** 30]),
]


def ranges(where: str, *columns: Any) -> Ranges:
    batches = {n: pa.record_batch({"x": pa.array(c)}) for n, c in zip("ab", columns, strict=True)}
    return Ranges(parse(where)).including(batches)


@pytest.mark.parametrize(
    ("where", "a", "b", "fails"), [(*s, False) for s in SAFE] + [(*u, True) for u in UNSAFE]
)
def test_what_may_fail_is_known(where: str, a: Any, b: Any, fails: bool) -> None:
    seen = ranges(where, a, b)
    assert seen.may_fail == fails
    assert Ranges(parse(where)).load(seen.save()).may_fail == fails
    assert not ranges(where, a[:0], b[:0]).may_fail


def test_times_of_two_units_may_not_fit() -> None:
    year_3000 = np.datetime64("3000-01-01", "s")
    for unit, fails in (("s", False), ("us", False), ("ns", True)):
        columns = pa.array([year_3000]), pa.array([0], pa.timestamp(unit))
        assert ranges("a.x < b.x", *columns).may_fail == fails
        assert ranges("a.x - b.x < a.x - a.x", *columns).may_fail == fails


@pytest.mark.parametrize("seed", seeds(4))
def test_oracle_nothing_fails_unannounced(seed: int) -> None:
    """Random arithmetic on random numbers: whatever fails on a pair was said to be able to."""
    rng = np.random.default_rng(seed)
    failed = 0
    for _ in range(150):
        terms = rng.choice(["a.x", "b.x", "a.y", "b.y", "7", "abs(a.x)", "-b.y"], rng.integers(2, 9))
        signs = rng.choice(["+", "-", "*", "*", "%"], len(terms))
        text = "".join(f"({t}) {s} " for t, s in zip(terms, signs, strict=True))[:-3]
        text = text.replace("% ", "* ") + " > b.x * 3"
        size = int(rng.integers(1, 60))
        batches = {}
        for n in "ab":
            whole = rng.integers(-(1 << size), 1 << size, 4)
            exact = [Decimal(int(v)) * Decimal(10) ** int(rng.integers(0, 18)) / 1000 for v in whole]
            batches[n] = pa.record_batch({"x": whole, "y": pa.array(exact, pa.decimal256(60, 3))})
        seen = Ranges(parse(text)).including(batches)
        pairs = {
            (n, c): batches[n]
            .column(c)
            .take(pa.array(np.repeat(range(4), 4) if n == "a" else [0, 1, 2, 3] * 4))
            for n in "ab"
            for c in "xy"
        }
        try:
            predicate.passes(parse(text), pairs, 16, text)
        except bd.BraidedError:
            failed += 1
            assert seen.may_fail, text
    assert failed > 5
