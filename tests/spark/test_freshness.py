"""Ages by the recorded clock over all buckets: a beat of the heartbeat tells every one of them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.spark.storage import folders
from braided.spark.wire.pack import beat
from braided.testing import bag
from tests.engine.overload.test_clocks import (
    AMPLE,
    BOUNDS,
    ONE_KEY,
    OVERLOADS,
    SEVERAL,
    batches,
    fresh,
    query,
)
from tests.seeds import seeds, some_pairs
from tests.spark.test_bucket import Cluster, _by_bucket

EMPTY = pa.table({column: pa.array([], pa.int64()) for column in "kmtn"})
TABLES = dict.fromkeys(BOUNDS, EMPTY)


class Timed(Cluster):
    """Batches with the clock that was recorded with them, if it has moved."""

    def at(self, batch: dict[str, pa.Table], clock_s: int | None) -> pa.Table:
        packed = self.packed({name: batch.get(name, EMPTY) for name in BOUNDS})
        if clock_s is not None:
            beats = pa.record_batch({"beat": [clock_s], "run": [1], "changed": [False]})
            told = _by_bucket(beat(self.plan, iter([beats])))
            packed = [rows + more for rows, more in zip(packed, told, strict=True)]
        return self._run(packed)


@pytest.mark.parametrize(("given", "on"), some_pairs([*OVERLOADS, "ample"], [ONE_KEY, SEVERAL]))
def test_oracle_no_result_is_too_old_whatever_attempt_and_engine(
    given: str, on: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engines of one cluster go on, those of the other are rebuilt in every batch."""
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")
    plan = "linear" if given == "windows of intermediates" else "mjoin"
    asked = query(bd.Overload(**OVERLOADS.get(given, {"probes": AMPLE}), clock="wall"), on=on, plan=plan)
    found_rows = wanted_rows = 0
    for seed in seeds(1):
        rng = np.random.default_rng([5, seed])
        exact = bd.LocalJoin(query(None, on=on))
        keeping, rebuilding, clock_s = Timed(asked, TABLES, arena=True), Timed(asked, TABLES), 0
        for now, batch in batches(rng, 8):
            beats = max(clock_s, int(now)) if rng.random() < 0.8 or not clock_s else None
            clock_s = beats or clock_s
            wanted = bag(fresh(exact.push(batch), clock_s))
            states = copy.deepcopy(keeping.states)
            lost = bag(keeping.at(batch, beats))
            keeping.states = states
            found = keeping.at(batch, beats)
            assert bag(found) == lost == bag(rebuilding.at(batch, beats))
            assert not bag(found) - wanted
            assert given != "ample" or bag(found) == wanted
            found_rows, wanted_rows = found_rows + found.num_rows, wanted_rows + wanted.total()
    assert 0 < found_rows <= wanted_rows


def test_all_buckets_report_ages_by_both_clocks() -> None:
    cluster = Timed(query(bd.Overload(AMPLE, clock="wall")), TABLES)
    keys = list(range(20))
    for second, clock_s in ((10, 12), (11, None)):
        cluster.reports.clear()
        table = pa.table({"k": keys, "m": keys, "t": [second * 1_000_000] * 20, "n": keys})
        cluster.at(dict.fromkeys(BOUNDS, table), clock_s)
        assert cluster.seen().results
        for of_stream in cluster.seen().streams.values():
            assert of_stream.staleness_us == (second - 10) * 1_000_000
            assert of_stream.staleness_wall_us == 2_000_000
