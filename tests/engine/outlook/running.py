"""Queries that are foreseen, and the same ones run on random rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import braided as bd
from braided.engine.outlook.foreseen import Foreseen
from braided.query.explain.chapters import Outlook
from braided.query.explain.expected_state import expected_state

KEYS = 200


def query(
    windows: Mapping[str, int] | str = "abc", *, options: Mapping[str, Any] | None = None, **more: Any
) -> bd.JoinQuery:
    """A join of streams with windows in seconds."""
    seconds = dict.fromkeys(windows, 4) if isinstance(windows, str) else windows
    streams = [
        bd.Stream(name, key="k", time="t", window=f"{n} seconds", **(options or {}))
        for name, n in seconds.items()
    ]
    return bd.JoinQuery(streams, **more)


def foresee(
    asked: bd.JoinQuery, rates: Mapping[str, float], *, keys: int = KEYS, batch_us: int = 250_000
) -> Foreseen:
    """What is foreseen of a join on one key."""
    state = expected_state(asked, rates, None, None)
    assert state is not None
    return Foreseen(Outlook(state, {asked.graph.attributes[0]: float(keys)}, batch_us))


@dataclass(frozen=True)
class Seen:
    """What was measured of a batch, on average once windows were full, and the join itself."""

    results: float
    probes: float
    live: bd.LocalJoin


def run(
    asked: bd.JoinQuery,
    rates: Mapping[str, float],
    *,
    keys: int = KEYS,
    batch_us: int = 250_000,
    warm: int = 40,
    batches: int = 120,
) -> Seen:
    """Run a join on rows that come at these rates, with keys that are all as frequent."""
    rng, live, made, before = np.random.default_rng(7), bd.LocalJoin(asked), 0, 0
    for number in range(batches):
        found = live.push(
            {n: _rows(rng, r * batch_us / 1e6, keys, number, batch_us) for n, r in rates.items()}
        )
        if number == warm - 1:
            before = _probes(live)
        made += found.num_rows if number >= warm else 0
    counted = batches - warm
    return Seen(made / counted, (_probes(live) - before) / counted, live)


def _probes(live: bd.LocalJoin) -> int:
    return sum(h.probes for h in live.stats().half_joins.values())


def _rows(rng: np.random.Generator, mean: float, keys: int, number: int, batch_us: int) -> pa.Table:
    rows = round(mean)
    times = np.sort(rng.integers(number * batch_us, (number + 1) * batch_us, rows))
    return pa.table({"k": rng.integers(0, keys, rows), "t": pa.array(times).cast(pa.timestamp("us"))})
