"""What the kernel cannot see is checked of every combination: keys by value, times of all pairs, `where`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.calibration import machine_costs
from braided.engine.operators.inputs import described, leaf
from braided.engine.operators.layout import layout_of, output_of
from braided.engine.operators.operator import Combining, Operator
from braided.engine.operators.results import Results
from braided.engine.sides.columns import ENDS
from braided.engine.sides.side import BOTTOMLESS_US, Rows, SideState
from braided.policies.choice import policies_for
from braided.query.plan_tree import operators
from tests.seeds import seeds

SCHEMA = pa.schema([("k", pa.string()), ("m", pa.int64()), ("t", pa.int64())])
NO_FLOORS = [BOTTOMLESS_US] * 3


def table(rng: np.random.Generator, rows: int = 9) -> list[dict[str, Any]]:
    return [
        {"k": f"k{rng.integers(0, 2)}", "m": int(rng.integers(0, 2)), "t": int(rng.integers(0, 40))}
        for _ in range(rows)
    ]


def side_of(name: str, rows: list[dict[str, Any]]) -> SideState:
    """Stored rows whose hashes all collide."""
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    side = SideState(name, SCHEMA)
    side.append(Rows(batch, np.zeros(len(rows), np.int64), batch.column("t").to_numpy()))
    return side


def combining(query: bd.JoinQuery, operator: Any, inputs: Any = None) -> Combining:
    layouts = [layout_of(query, s, SCHEMA) for s in query.streams]
    output = described(operator, tuple(layouts))
    assert output is not None
    return Combining(query, inputs or [leaf(layout) for layout in layouts], output, layouts)


def everything(sides: list[SideState]) -> np.ndarray:
    """All combinations of positions."""
    return np.array(list(itertools.product(*(range(s.count) for s in sides))), np.int32).T.copy()


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_collisions_and_columns_of_some_inputs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = {n: table(rng) for n in "abc"}
    streams = [bd.Stream(n, time="t", window="1 hour") for n in "abc"]
    query = bd.JoinQuery(streams, on=[("a.k", "b.k"), ("b.k", "c.k"), ("a.m", "b.m")])
    sides = [side_of(n, rows[n]) for n in "abc"]
    held = combining(query, ("a", "b", "c")).holding(sides, everything(sides), NO_FLOORS)
    wanted = [
        (x, y, z)
        for (x, a), (y, b), (z, c) in itertools.product(*(enumerate(rows[n]) for n in "abc"))
        if a["k"] == b["k"] == c["k"] and a["m"] == b["m"]
    ]
    assert list(map(tuple, held.T.tolist())) == wanted


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_times_of_all_pairs_above_an_intermediate(seed: int) -> None:
    """The kernel compares an intermediate's newest time only."""
    rng = np.random.default_rng(seed)
    rows = {n: table(rng, 7) for n in "abc"}
    windows = {"a": 12, "b": 20, "c": 15}
    streams = [bd.Stream(n, key="k", time="t", window=f"{w} us") for n, w in windows.items()]
    query = bd.JoinQuery(streams, plan=(("a", "b"), "c"))
    inputs = [leaf(layout_of(query, s, SCHEMA)) for s in query.streams]
    below = combining(query, ("a", "b"), inputs[:2])
    pair = [side_of(n, rows[n]) for n in "ab"]
    lower = (
        Results(query, [], None, below)
        .table(pair, everything(pair), NO_FLOORS)
        .combine_chunks()
        .to_batches()[0]
    )
    assert lower.schema == below.output.schema

    operator = Operator(
        query, operators(query.tree)[-1], 1, policies_for(query, machine_costs, operators(query.tree)[-1])
    )
    layouts = [layout_of(query, s, SCHEMA) for s in query.streams]
    output = described(query.tree, tuple(layouts))
    assert output is not None
    operator.learn({("a", "b"): below.output, "c": inputs[2], query.tree: output}, layouts)
    above = operator.combining
    assert above is not None
    side = SideState("ab", below.output.schema, [ENDS])
    side.append(operator.entering(below.output, lower))
    sides = [side, side_of("c", rows["c"])]
    floor = int(rng.integers(0, 10))
    held = above.holding(sides, everything(sides), [floor, BOTTOMLESS_US, BOTTOMLESS_US])
    wanted = []
    for (x, ab), (z, c) in itertools.product(enumerate(lower.to_pylist()), enumerate(rows["c"])):
        times = {"a": ab["a"], "b": ab["b"], "c": c["t"]}
        timely = all(times["c"] - times[n] <= windows[n] and times[n] - times["c"] <= 15 for n in "ab")
        if ab["a.k"] == c["k"] and timely and times["a"] >= floor:
            wanted.append((x, z))
    assert list(map(tuple, held.T.tolist())) == wanted
    lasting = {n: query.bounds.retention_us(i) for i, n in enumerate("abc")}
    assert side.columns["time"][: side.count].tolist() == [max(r["a"], r["b"]) for r in lower.to_pylist()]
    assert side.columns["ends"][: side.count].tolist() == [
        min(r["a"] + lasting["a"], r["b"] + lasting["b"]) for r in lower.to_pylist()
    ]


@pytest.mark.parametrize("seed", seeds(3))
def test_oracle_results_are_filtered_and_put_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = {n: table(rng) for n in "ab"}
    streams = [bd.Stream(n, key="k", time="t", window="1 hour") for n in "ab"]
    query = bd.JoinQuery(streams, where="a.m < b.m", select={"key": "b.k", "left": "a.t", "m": "a.m"})
    layouts = [layout_of(query, s, SCHEMA) for s in query.streams]
    results = Results(query, layouts, output_of(query, tuple(layouts)), combining(query, query.tree))
    sides = [side_of(n, rows[n]) for n in "ab"]
    made = results.table(sides, everything(sides), NO_FLOORS)
    wanted = [
        {"key": b["k"], "left": a["t"], "m": a["m"], "result_time": max(a["t"], b["t"])}
        for a, b in itertools.product(rows["a"], rows["b"])
        if a["k"] == b["k"] and a["m"] < b["m"]
    ]
    assert made.to_pylist() == wanted
    assert results.latest.shape == (2, len(wanted))
    nothing = results.table(sides, np.empty((2, 0), np.int32), NO_FLOORS)
    assert (nothing.num_rows, nothing.schema) == (0, results.schema)
