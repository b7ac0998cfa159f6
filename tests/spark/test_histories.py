"""Random histories of joins on Spark, simulated: layouts, epochs, hot keys, budgets, promises, faults."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from braided.query.layout import Layout
from braided.spark.storage import folders
from braided.testing import expected
from tests.seeds import seeds
from tests.spark.definition import Definition
from tests.spark.simulator import Simulator
from tests.spark.stories import ONE_KEY, Story

LATER_US = 100_000


class History:
    """A random history, told and checked."""

    def __init__(
        self,
        seed: int,
        arena: str = "",
        windows: str | None = None,
        budget: str | None = None,
        *,
        optional: bool = False,
    ) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.story = Story(rng, windows, budget, optional=optional)
        late: Literal["drop", "flag"] = "drop" if self.story.early else "flag"
        self.simulator = Simulator(rng, self.story.schemas, arena=arena, late=late)
        self.query = self.story.query()
        self.layout: Layout = self.story.layout(self.query, self.story.schemas)
        self.now, self.clock_s = 20, 1000
        self.silent: set[str] = set()

    def tell(self) -> None:
        rng, story = self.rng, self.story
        self.start()
        batches = int(rng.choice([3, 3, 4, 4, 5, 5, 6, 11]))
        changes = rng.random(batches) < rng.choice([0.1, 0.4, 0.4, 0.7])
        for change in changes:
            if change:
                self.change()
            self.move_to_the_next_epoch()
            if story.idles and rng.random() < 0.4:
                self.silent = {name for name in story.names if rng.random() < 0.3}
            self.batch({} if story.beats and rng.random() < 0.1 else story.tables(self.now, self.silent))
            self.now += int(rng.choice([0, 5, 15, 60]))
        self.end()

    def move_to_the_next_epoch(self) -> None:
        """Times often go where one epoch begins and the one before ends: there they share rows."""
        assert self.simulator.plan is not None
        since = self.simulator.plan.epoch.since_us
        if since is not None and -40 <= since - self.now <= 80 and self.rng.random() < 0.6:
            self.now = max(self.now, since + int(self.rng.integers(-8, 30)))

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

    def batch(self, tables: dict[str, pa.Table]) -> None:
        """A batch; it has no beat if the clock has not moved, unless it is the first of a run."""
        moved = int(self.rng.choice([0, 1, 1, 3, 7]))
        self.clock_s += moved
        beats = self.story.beats and (moved > 0 or not tables or self.simulator.changed)
        self.simulator.batch(tables, self.clock_s if beats else None)

    def end(self) -> None:
        """Once time has moved on, or all keys are closed, nothing is left of what was."""
        story, simulator = self.story, self.simulator
        lossy = story.budget.startswith("overload") and not story.ample
        if story.budget == "defer":
            self.change()
            self.batch(story.tables(self.now, set()))
            simulator.check()
        if story.bounded or story.windows == "count":
            self.move_on(exact=story.bounded and not lossy)
        elif story.windows == "unbounded" and story.budget != "overload-input":
            self.close()
        simulator.check(exact=not lossy, input_shed=lossy and story.budget == "overload-input")

    def move_on(self, *, exact: bool) -> None:
        """Rows from much later; then what is stored is what a query holds that never knew others."""
        story, simulator = self.story, self.simulator
        compared = exact and (story.promising or self.rng.random() < 0.3)
        control = Simulator(self.rng, simulator.schemas, calm=True, late=simulator.late_rows)
        rounds = {"": 2, "defer": 5}.get(story.budget, 3)
        for _ in range(rounds):
            self.start()
            last = story.last(LATER_US)
            self.batch(last)
            if compared:
                control.start(self.query, self.layout.cells, self.layout)
                control.batch(last, self.clock_s if story.beats else None)
        while simulator.changed:  # the driver was lost in the last batch
            self.batch({})
        if not exact:
            return
        assert simulator.plan is not None
        assert simulator.committed.keys() == set(simulator.plan.labels)
        assert len(simulator.plan.live) == 1
        held = simulator.held()
        at_once = self.query.tuning.purge == "immediate" and self.query.tuning.expiry == "active"
        if compared and not story.budget and at_once:  # else rows that may go wait, from what came before
            alone, several = control.held(), story.promising and story.graph != ONE_KEY
            assert held == alone or (several and all(held[of] <= alone[of] for of in held))
        rows = {n: sum(r for (_, of), r in held.items() if of == n) for n in story.names}
        most = {name: rounds * self.layout.copies(name) for name in story.names}
        lazy = story.promising and self.query.tuning.expiry == "lazy"  # dead rows stay in a rewritten chunk
        if story.budget == "defer":  # as much again may be on disk, and dead
            assert sum(rows.values()) <= 2 * sum(most.values()), (rows, most)
        elif not lazy:
            right = {n for n in rows if rows[n] == most[n] or (story.promising and rows[n] < most[n])}
            assert right == rows.keys(), (rows, most)

    def close(self) -> None:
        """Without windows all is held, until punctuations close all keys."""
        story, simulator = self.story, self.simulator
        if not story.promising and not self.layout.hot_keys:
            for name in story.names:
                rows = sum(rows for (_, of), rows in simulator.held().items() if of == name)
                everything = self.layout.copies(name) * len(simulator.definition.accepted[name]["id"])
                assert rows == everything or (story.budget and rows < everything)  # state_rows
        if all(map(story.punctuates, story.names)) and story.graph == ONE_KEY:
            self.batch(story.ends())
            for _ in range(3 if story.budget == "defer" else 1):
                simulator.batch({}, self.clock_s)
            assert not simulator.held()


@pytest.mark.parametrize("seed", seeds(300))
def test_oracle_histories(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    History(seed, "app" if seed % 4 == 0 else "").tell()


@pytest.mark.parametrize("seed", seeds(60))
def test_oracle_histories_of_count_windows(seed: int) -> None:
    History(seed, windows="count").tell()


@pytest.mark.parametrize("seed", seeds(60))
def test_oracle_histories_of_optional_streams(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    History(seed, "app" if seed % 4 == 0 else "", optional=True).tell()


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("budget", ["overload", "overload-input"])
def test_oracle_histories_of_decisions(budget: str, seed: int) -> None:
    """Budgets are short, and batches are often lost: what was decided stays so for all attempts."""
    history = History(seed, windows="time", budget=budget)
    history.simulator.loses = 0.5
    history.tell()


@pytest.mark.parametrize("seed", seeds(40))
def test_oracle_the_definition_of_histories_is_the_plain_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    story = Story(rng)
    query, tables = story.query(), {name: story.table(name, 20) for name in story.names}
    definition = Definition(story.schemas)
    definition.started(query, 0, None)
    definition.judge(query, tables, None)
    definition.watermark = LATER_US
    plain = expected(query, tables)
    numbers = [plain[f"{name}_id"].to_pylist() for name in query.kinds.shown]
    assert definition.results(ended=True) == Counter(zip(*numbers, strict=True))
