"""The Intel lab's readings through the join: five streams, states of 1,000 rows (Figures 8, 9.c, 9.d).

The plan is the paper's, the join attribute was fixed beforehand (`intel_lab`). A batch is a minute of
readings, about 13 rows of each group, so that 300 to 900 probes are 19 to 57 % of what all rows would need;
the paper does not say at which speed it replayed them. States are filled with all rows probing, then every
policy goes on with the same rows. Parts of the data, a day apart, are the repetitions.

*Figure 8* has no bounds on age; *9.c* counts what is stale in runs that last several windows, for in a short
one nothing can grow old; *9.d* sets bounds of 1.5, 3 and 5 windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import braided as bd
from braided.query.plan_tree import Plan, intermediates, leaves
from braided_lab import intel_lab
from braided_lab.jaqpot_engine import FITTED, Run, as_the_paper_has_it, new_join, run, under
from braided_lab.jaqpot_model import HEURISTICS
from braided_lab.jaqpot_settings import Lab
from braided_lab.jaqpot_workload import SECOND_US, Batch

NAMES = leaves(intel_lab.PLAN)
STREAMS: dict[Plan, int] = dict.fromkeys(NAMES, intel_lab.WINDOW_ROWS)
MADE = dict.fromkeys(intermediates(intel_lab.PLAN), intel_lab.WINDOW_ROWS)
POLICIES = ("jaqpot", "greedy-path", *HEURISTICS, *FITTED.values())
BOUNDED = ("jaqpot", "greedy-path", *FITTED.values())


@dataclass(frozen=True)
class Reading:
    """Results of all batches of a part of the data under a policy, and what jaqpot did for bounds on age.

    `factor` is the bound, in windows, if there is one; `stale` are results that are older than a number of
    windows, by that number; `lasted` is how many of the longest window the run took.
    """

    attribute: str
    part: int
    probes: int
    policy: str
    factor: float | None
    results: float
    stale: dict[float, int]
    share: float
    problem: str
    lasted: float = 1.0


@dataclass(frozen=True)
class _Slice:
    """Readings in batches, those that fill states first, and how long 1,000 rows of each stream last."""

    attribute: str
    part: int
    filling: list[Batch]
    batches: list[Batch]
    windows: dict[str, float]

    def bounds(self, factor: float) -> dict[str, float]:
        """So many windows, in whole seconds."""
        return {name: float(round(factor * seconds)) for name, seconds in self.windows.items()}


def readings(lab: Lab, say: Callable[[str], object]) -> Iterator[Reading]:
    """The attribute that counts in all parts of the data, with bounds and without; the others once."""
    given = lab.given["rows"]["intel"]
    for part in range(lab.size["rows_intel_parts"]):
        say(f"join, Intel lab: {intel_lab.ATTRIBUTE}, part {part + 1}")
        data = _slice(lab, intel_lab.ATTRIBUTE, part, lab.size["rows_intel_long"])
        yield from _compared(lab, data, BOUNDED, None, given["probes"][:1])
        data = _slice(lab, intel_lab.ATTRIBUTE, part)
        yield from _compared(lab, data, POLICIES, None, given["probes"])
        yield from _compared(lab, data, BOUNDED, given["factor"], given["probes"])
        for factor in lab.given["freshness"]["factors"]:
            if factor != given["factor"]:
                yield from _compared(lab, data, ("jaqpot",), factor, given["probes"][:1])
    for attribute in intel_lab.OTHERS:
        say(f"join, Intel lab: {attribute}")
        yield from _compared(lab, _slice(lab, attribute, 0), POLICIES, None, given["probes"])


def saturation(lab: Lab, attribute: str = intel_lab.ATTRIBUTE) -> float:
    """Probes a batch with all rows probing."""
    data = _slice(lab, attribute, 0)
    live = _join(data, None, None)
    run(live, data.filling)
    return float(run(live, data.batches).probes.mean())


def _slice(lab: Lab, attribute: str, part: int, counted: int | None = None) -> _Slice:
    given = lab.given["rows"]["intel"]
    streams = intel_lab.streams(attribute)
    step = given["batch_minutes"] * 60 * SECOND_US
    times = {name: table["t"].to_numpy().astype(np.int64) for name, table in streams.items()}
    start = min(int(t[0]) for t in times.values()) + part * given["part_minutes"] * 60 * SECOND_US
    many = given["filling"] + (counted or lab.size["rows_intel"])
    batches = []
    for number in range(many):
        low, high = start + number * step, start + (number + 1) * step
        cuts = {name: np.searchsorted(t, [low, high]) for name, t in times.items()}
        batches.append({name: streams[name].slice(a, b - a) for name, (a, b) in cuts.items()})
    rows = {name: sum(b[name].num_rows for b in batches) for name in NAMES}
    seconds = many * step / SECOND_US
    windows = {name: intel_lab.WINDOW_ROWS * seconds / rows[name] for name in NAMES}
    return _Slice(attribute, part, batches[: given["filling"]], batches[given["filling"] :], windows)


def _compared(
    lab: Lab, data: _Slice, policies: tuple[str, ...], factor: float | None, budgets: list[int]
) -> Iterator[Reading]:
    start = _join(data, None, factor)
    run(start, data.filling)
    filled = start.snapshot()
    minutes = len(data.batches) * lab.given["rows"]["intel"]["batch_minutes"]
    lasted = 60 * minutes / max(data.windows.values())
    for probes in budgets:
        for policy in policies:
            live = _join(data, under(policy, probes), factor)
            as_the_paper_has_it(live, policy)
            done = run(live.restore(filled), data.batches, ages=True)
            yield Reading(
                data.attribute, data.part, probes, policy, factor, float(done.results.sum()),
                _stale(lab, done, data), done.fresh_share, done.problem,
                lasted,
            )  # fmt: skip


def _join(data: _Slice, overload: bd.Overload | None, factor: float | None) -> bd.LocalJoin:
    overload = replace(overload, intermediate_rows=MADE) if overload else bd.Overload(intermediate_rows=MADE)
    bounds = {n: f"{round(b)} seconds" for n, b in data.bounds(factor).items()} if factor is not None else {}
    streams = [bd.Stream(n, "key", time="t", freshness=bounds.get(n)) for n in NAMES]
    query = bd.JoinQuery(
        streams, plan=intel_lab.PLAN, overload=overload, tuning=bd.Tuning(index="hash"),
        select={n: f"{n}.t" for n in NAMES},
    )  # fmt: skip
    return new_join(query, STREAMS)


def _stale(lab: Lab, done: Run, data: _Slice) -> dict[float, int]:
    return {factor: done.stale(data.bounds(factor)) for factor in lab.given["freshness"]["factors"]}


def reading_rows(found: list[Reading]) -> list[dict[str, Any]]:
    """For the report."""
    return [
        {
            "experiment": "rows-intel", "attribute": r.attribute, "part": r.part, "probes": r.probes,
            "policy": r.policy, "factor": r.factor, "results": r.results, "stale": r.stale,
            "freshness_share": round(r.share, 4), "problem": r.problem, "lasted": round(r.lasted, 2),
        }
        for r in found
    ]  # fmt: skip
