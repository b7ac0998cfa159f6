"""Random histories of joins on Spark, simulated: layouts, epochs, hot keys, faults, restarts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine.operators.layout import key_format_of
from braided.query.layout import HotKey, Layout, choose, dimensions_of
from braided.spark.plan import JoinPlan
from braided.spark.storage import folders
from braided.testing.samples.plans import random_plan
from tests.seeds import seeds
from tests.spark.simulator import Simulator

GRAPHS: list[Any] = [
    "one key", "one key", "one key",
    [("s0.k", "s1.k"), ("s1.m", "s2.m")],
    [("s0.k", "s1.k"), ("s0.m", "s2.m")],
    [("s0.k", "s1.k"), ("s1.m", "s2.m"), ("s2.k", "s0.m")],
    [("s0.k", "s1.k"), ("s1.m", "s2.m"), ("s2.k", "s3.k")],
    [("s0.k", "s1.k"), ("s0.m", "s1.m"), ("s1.k", "s2.k")],
    "no key",
]  # fmt: skip


@dataclasses.dataclass
class Story:
    """The choices of one random history."""

    rng: np.random.Generator
    names: list[str]
    graph: Any

    def query(self, **windows: Any) -> bd.JoinQuery:
        rng = self.rng
        options: dict[str, Any] = {"key": "k"} if self.graph == "one key" else {}
        streams = [
            bd.Stream(
                name, time="t", window=f"{rng.choice([0, 3, 9, 20])} us",
                lateness=f"{rng.choice([0, 5, 15])} us", **options,
            )
            for name in self.names
        ]  # fmt: skip
        return bd.JoinQuery(
            streams,
            None if isinstance(self.graph, str) else self.graph,
            where=rng.choice(["s0.n < s1.n", "s0.n <> s1.n"]) if self.graph == "no key" else None,
            plan=self.plan(),
        )

    def plan(self) -> Any:
        if self.graph == "one key" and self.rng.random() < 0.4:
            return random_plan(self.rng, len(self.names))
        return str(self.rng.choice(["mjoin", "linear"]))

    def changed(self, query: bd.JoinQuery) -> bd.JoinQuery:
        """The query as it may be after a restart."""
        rng = self.rng
        if rng.random() < 0.5:
            other = self.query()
            return dataclasses.replace(other, plan=query.plan)
        if rng.random() < 0.5:
            return dataclasses.replace(query, plan=self.plan())
        return query

    def layout(self, query: bd.JoinQuery, schemas: dict[str, pa.Schema]) -> Layout:
        rng = self.rng
        buckets = int(rng.choice([1, 2, 4, 8]))
        layout = choose(query, buckets, {n: float(rng.integers(1, 9)) for n in query.names})
        if self.graph == "one key" and buckets > 1 and rng.random() < 0.5:
            plan = JoinPlan(query, tuple(schemas[n] for n in query.names), buckets, "flag")
            keys = key_format_of(dimensions_of(query)[0].key, plan.layouts)
            hashes = keys.hashes([pa.array([0, 1])], 2).tolist()
            hot = [HotKey(h, str(rng.choice(self.names)), int(rng.integers(2, buckets + 1))) for h in hashes]
            layout = dataclasses.replace(layout, hot_keys=tuple(hot[: int(rng.integers(1, 3))]))
        return layout

    def table(self, now: int) -> pa.Table:
        rng = self.rng
        rows = int(rng.integers(0, 9))
        times = now + rng.integers(-25, 12, rows)
        return pa.table(
            {
                "k": pa.array(rng.integers(0, 4, rows), mask=rng.random(rows) < 0.05),
                "m": pa.array(rng.integers(0, 3, rows), mask=rng.random(rows) < 0.05),
                "n": rng.integers(0, 9, rows),
                "id": rng.integers(0, 1 << 40, rows),
                "t": pa.array(np.maximum(times, 0), mask=rng.random(rows) < 0.03).cast(pa.timestamp("us")),
            }
        )


def history(seed: int, arena: str = "") -> Simulator:
    """A random history, checked."""
    rng = np.random.default_rng(seed)
    graph = GRAPHS[int(rng.integers(len(GRAPHS)))]
    most = 2 if graph == "no key" else 4
    streams = 3 if not isinstance(graph, str) else int(rng.integers(2, most + 1))
    if not isinstance(graph, str) and any("s3" in text for pair in graph for text in pair):
        streams = 4
    story = Story(rng, [f"s{i}" for i in range(streams)], graph)
    schemas = {name: story.table(0).schema for name in story.names}
    simulator = Simulator(rng, schemas, arena=arena)
    query = story.query()
    layout = story.layout(query, schemas)
    simulator.start(query, layout.cells, layout)
    now = 20
    for _ in range(int(rng.integers(2, 8))):
        if rng.random() < 0.3:
            query = story.changed(query)
            if rng.random() < 0.4:
                layout = story.layout(query, schemas)
            simulator.start(query, layout.cells, layout)
        simulator.batch({name: story.table(now) for name in story.names if rng.random() < 0.9})
        now += int(rng.choice([0, 5, 15, 60]))
    simulator.check()
    later = 100_000
    last = pa.table(
        {"k": [0], "m": [0], "n": [0], "id": [0], "t": pa.array([later]).cast(pa.timestamp("us"))}
    )
    simulator.check_forgotten(query, layout, {name: last.cast(schemas[name]) for name in story.names})
    simulator.check()
    return simulator


@pytest.mark.parametrize("seed", seeds(300))
def test_oracle_histories(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    history(seed, "app" if seed % 4 == 0 else "")
