"""What is foreseen for a target batch time: how many results rows find that are let in, and probes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.engine import Engine
from braided.engine.overload.forecast import of_rows_let_in
from braided.engine.site import Share, Site
from braided.policies.pacing import Pace

SECOND = 1_000_000
KEYS, WINDOW_S = 50, 4


def query(plan: Any = "mjoin", **overload: Any) -> bd.JoinQuery:
    streams = [bd.Stream(n, "k", time="t", window=f"{WINDOW_S} seconds") for n in "abc"]
    asked = bd.Overload(target_batch="1 hour", shed="input", **overload)
    return bd.JoinQuery(streams, plan=plan, overload=asked)


def batch(rng: np.random.Generator, at: int, rows: int) -> dict[str, pa.Table]:
    def table() -> pa.Table:
        times = np.sort(rng.integers(at * SECOND, (at + 1) * SECOND, rows))
        return pa.table({"k": rng.integers(0, KEYS, rows), "t": times})

    return {n: table() for n in "abc"}


@pytest.mark.parametrize("plan", ["mjoin", "linear"])
def test_results_of_a_burst_are_foreseen_before_they_are_found(plan: str) -> None:
    """In calm batches, of ten times the rows: the state that so many make in the long run counts."""
    rng, engine = np.random.default_rng(2), Engine(query(plan))
    for at in range(12):
        found = sum(t.num_rows for t in engine.step(engine.accept(batch(rng, at, 20))))
    arrivals = engine.accept(batch(rng, 12, 20))
    foreseen = of_rows_let_in(engine.core, arrivals, Share(0, 60, 60), {})
    assert foreseen is not None
    assert foreseen(60) == pytest.approx(found, rel=0.5)  # as it is
    for at in range(12, 24):
        burst = sum(t.num_rows for t in engine.step(engine.accept(batch(rng, at, 200))))
    assert foreseen(600) == pytest.approx(burst, rel=0.5)
    assert burst > 500 * found


def test_a_bucket_without_rows_foresees_nothing() -> None:
    rng, engine = np.random.default_rng(2), Engine(query())
    assert of_rows_let_in(engine.core, engine.accept(batch(rng, 0, 0)), Share(0, 0, 9), {}) is None


def test_where_rows_have_copies_all_of_them_take_their_part_of_the_time() -> None:
    """Buckets told how many rows they had time for, copies counted; as many different ones were let in."""
    for different, wanted in ((None, 1.0), (300, 0.5)):
        engine = Engine(query(), Site(part=Share(0, 1, 2)))
        overloading = engine.core.features.get("overload")
        overloading.pace = Pace(5, 0.0, 0.0, 1e-6, 600, 600)
        rng = np.random.default_rng(3)
        engine.accept(batch(rng, 0, 200), share=Share(0, 600, 600, different))
        assert overloading._budget_of_all() == pytest.approx(3600 / 1e-6 * wanted, rel=0.01)
