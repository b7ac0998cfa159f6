"""Random histories of joins on Spark, simulated: layouts, epochs, hot keys, budgets, promises, faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import braided as bd
from braided.query.layout import Layout
from braided.spark.storage import folders
from tests.seeds import seeds
from tests.spark.simulator import Simulator
from tests.spark.stories import Story

LATER_US = 100_000


class History:
    """A random history, told and checked."""

    def __init__(self, seed: int, arena: str = "") -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.story = Story(rng)
        self.simulator = Simulator(rng, self.story.schemas, arena=arena)
        self.query = self.story.query()
        self.layout: Layout = self.story.layout(self.query, self.story.schemas)
        self.clock_s = 1000
        self.silent: set[str] = set()

    def tell(self) -> None:
        rng, story = self.rng, self.story
        self.start()
        now, batches = 20, int(rng.choice([2, 3, 4, 5, 6, 7, 16]))
        changes = rng.random(batches) < rng.choice([0.0, 0.3, 0.3, 0.6])
        for change in changes:
            if change:
                self.change()
            if story.idles and rng.random() < 0.4:
                self.silent = {name for name in story.names if rng.random() < 0.3}
            self.batch({} if story.beats and rng.random() < 0.1 else story.tables(now, self.silent))
            now += int(rng.choice([0, 5, 15, 60]))
        self.end()

    def start(self, *, auto: bool = False) -> None:
        self.clock_s += int(self.rng.integers(0, 20))
        self.simulator.start(self.query, self.layout.cells, None if auto else self.layout, auto=auto)
        assert self.simulator.plan is not None
        self.layout = self.simulator.plan.grid

    def change(self) -> None:
        """Start again, as it was or changed."""
        rng, story = self.rng, self.story
        self.query = story.changed(self.query)
        if story.bounded and rng.random() < 0.3:
            self.layout = story.layout(self.query, self.simulator.schemas)  # type: ignore[arg-type]
        self.start(auto=bool(rng.random() < 0.3) and story.bounded)

    def batch(self, tables: dict[str, object]) -> None:
        self.clock_s += int(self.rng.choice([0, 1, 1, 3, 7]))
        self.simulator.batch(tables, self.clock_s if self.story.beats else None)  # type: ignore[arg-type]

    def end(self) -> None:
        """Once time has moved on, or all keys are closed, nothing is left of what was."""
        story, simulator = self.story, self.simulator
        lossy = story.budget.startswith("overload") and not story.ample
        if story.bounded or story.windows == "count":
            control = Simulator(self.rng, simulator.schemas, calm=True)
            for _ in range(5 if story.budget == "defer" else 3):
                self.start()
                control.start(self.query, self.layout.cells, self.layout)
                last = story.last(LATER_US)
                self.batch(last)
                control.batch(last, self.clock_s if story.beats else None)
            if story.bounded and not lossy:
                assert simulator.plan is not None
                assert simulator.committed.keys() == set(simulator.plan.labels)
                assert len(simulator.plan.live) == 1
                if story.budget == "defer":  # up to as much again may wait on disk to be tidied up
                    assert sum(simulator.held().values()) <= 2 * sum(control.held().values())
                else:
                    assert simulator.held() == control.held()
        simulator.check(exact=not lossy, input_shed=lossy and story.budget == "overload-input")


@pytest.mark.parametrize("seed", seeds(300))
def test_oracle_histories(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    History(seed, "app" if seed % 4 == 0 else "").tell()
