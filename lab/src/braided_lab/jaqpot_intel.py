"""The Intel lab's readings through the engine: five streams, every state a window of 1,000 rows (Figure 8).

The plan is the paper's, the join attribute was fixed beforehand (`intel_lab`). A batch is a minute of
readings, about 13 rows of each group, so that 300 to 900 probes are 19 to 57 % of what all rows would need;
the paper does not say at which speed it replayed them. States are filled with all rows probing, then every
policy goes on with the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import braided as bd
from braided.engine import snapshot
from braided.engine.engine import Engine
from braided.engine.site import Site
from braided.query.plan_tree import Plan, intermediates, leaves
from braided_lab import intel_lab
from braided_lab.jaqpot_engine import FITTED, Run, Unfitted, run
from braided_lab.jaqpot_model import HEURISTICS
from braided_lab.jaqpot_settings import Lab
from braided_lab.jaqpot_workload import NO_LIMIT, SECOND_US, Batch

NAMES = leaves(intel_lab.PLAN)
STATES: dict[Plan, int] = dict.fromkeys((*NAMES, *intermediates(intel_lab.PLAN)), intel_lab.WINDOW_ROWS)
POLICIES = ("jaqpot", *HEURISTICS, *FITTED.values())
BOUNDED = ("jaqpot", "greedy-path", *FITTED.values())


@dataclass(frozen=True)
class Reading:
    """Results of all batches under a policy; `factor` is the bound on age, in windows, if there is one."""

    attribute: str
    probes: int
    policy: str
    factor: float | None
    results: float
    stale: int


@dataclass(frozen=True)
class _Slice:
    """Readings in batches, those that fill states first, and how long 1,000 rows of each stream last."""

    attribute: str
    filling: list[Batch]
    batches: list[Batch]
    windows: dict[str, float]


def readings(lab: Lab, say: Callable[[str], object]) -> Iterator[Reading]:
    """All attributes and budgets, without bounds on age and with them."""
    for attribute in (intel_lab.ATTRIBUTE, *intel_lab.OTHERS):
        say(f"engine, Intel lab: {attribute}")
        data = _slice(lab, attribute)
        yield from _compared(lab, data, POLICIES, None)
        yield from _compared(lab, data, BOUNDED, lab.given["rows"]["intel"]["factor"])


def saturation(lab: Lab, attribute: str = intel_lab.ATTRIBUTE) -> float:
    """Probes a batch with all rows probing."""
    data = _slice(lab, attribute)
    engine = _engine(data, None, None)
    run(engine, data.filling)
    return float(run(engine, data.batches).probes.mean())


def _slice(lab: Lab, attribute: str) -> _Slice:
    given = lab.given["rows"]["intel"]
    streams = intel_lab.streams(attribute)
    step = given["batch_minutes"] * 60 * SECOND_US
    times = {name: table["t"].to_numpy().astype(np.int64) for name, table in streams.items()}
    start = min(int(t[0]) for t in times.values())
    many = given["filling"] + lab.size["rows_intel"]
    batches = []
    for number in range(many):
        low, high = start + number * step, start + (number + 1) * step
        cuts = {name: np.searchsorted(t, [low, high]) for name, t in times.items()}
        batches.append({name: streams[name].slice(a, b - a) for name, (a, b) in cuts.items()})
    rows = {name: sum(b[name].num_rows for b in batches) for name in NAMES}
    seconds = many * step / SECOND_US
    windows = {name: intel_lab.WINDOW_ROWS * seconds / rows[name] for name in NAMES}
    return _Slice(attribute, batches[: given["filling"]], batches[given["filling"] :], windows)


def _compared(lab: Lab, data: _Slice, policies: tuple[str, ...], factor: float | None) -> Iterator[Reading]:
    start = _engine(data, None, factor)
    run(start, data.filling)
    filled = snapshot.save(start)
    for probes in lab.given["rows"]["intel"]["probes"]:
        for policy in policies:
            plain = policy.removesuffix(", fitted")
            engine = _engine(data, bd.Overload(probes, allocation=plain), factor)  # type: ignore[arg-type]
            if policy in HEURISTICS:
                engine.core.features.get("overload").adaptation = Unfitted(plain)
            snapshot.load(engine, filled)
            done = run(engine, data.batches, ages=factor is not None)
            yield Reading(
                data.attribute, probes, policy, factor, float(done.results.sum()), _stale(done, data, factor)
            )


def _engine(data: _Slice, overload: bd.Overload | None, factor: float | None) -> Engine:
    limit = overload or (None if factor is None else NO_LIMIT)
    streams = [
        bd.Stream(n, "key", time="t", freshness=None if factor is None else _bound(data, n, factor))
        for n in NAMES
    ]
    query = bd.JoinQuery(
        streams, plan=intel_lab.PLAN, overload=limit, tuning=bd.Tuning(index="hash"),
        select={n: f"{n}.t" for n in NAMES},
    )  # fmt: skip
    return Engine(query, Site(repeatable=True, state_windows=STATES))


def _bound(data: _Slice, name: str, factor: float) -> str:
    return f"{round(factor * data.windows[name])} seconds"


def _stale(done: Run, data: _Slice, factor: float | None) -> int:
    if factor is None:
        return 0
    return done.stale({n: float(round(factor * seconds)) for n, seconds in data.windows.items()})


def reading_rows(found: list[Reading]) -> list[dict[str, Any]]:
    """For the report."""
    return [
        {
            "experiment": "rows-intel", "attribute": r.attribute, "probes": r.probes, "policy": r.policy,
            "factor": r.factor, "results": r.results, "stale": r.stale,
        }
        for r in found
    ]  # fmt: skip
