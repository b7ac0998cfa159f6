"""Figures 2 to 7 of the window-join paper, with the paper's own join (see `paper_window`), measured.

Touches of rows are counted and held against the cost model exactly; CPU time is measured with the
alternatives taking turns, the least of some repetitions counting. The weight of a touch in a hash against
one in a scan is calibrated once, as in section 3.4: from the measured crossover at one number of keys. All
other crossovers, curves and thrashing points are predictions.

All of it is measured once for each seed; what is said of it (`window_paper_claims`) is judged by the spread.

Figure 7 runs in virtual time: rows arrive at their times and are served one after the other, each taking
the join's measured CPU time, shared out over its rows by what they touched, and slowed down by one factor
for all joins: that which makes the one-way hash saturate where the paper's did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from braided_lab import window_paper_claims, window_paper_figures, window_paper_model
from braided_lab.paper_join import SECOND, Layout
from braided_lab.report import Claim
from braided_lab.window_cost import Weights, direction_cost
from braided_lab.window_paper_measure import INDEX, UNIT, Lab, Timing, crossing

JOINS = ("HHJ", "NNJ", "HNJ", "NHJ")


@dataclass
class Found:
    """All that was measured; curves are lists of (rate of B, value)."""

    touches: dict[str, dict[str, list[tuple[int, float]]]] = field(default_factory=dict)
    touch_crossovers: dict[str, float] = field(default_factory=dict)
    one_way: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    crossovers: dict[str, dict[int, float]] = field(default_factory=dict)
    weights: dict[str, Weights] = field(default_factory=dict)
    joins: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    join_crossover: float = math.nan
    thrash: dict[str, float] = field(default_factory=dict)
    long_thrash: dict[str, float] = field(default_factory=dict)
    outputs: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    lazy: list[dict[str, Any]] = field(default_factory=list)
    examples: list[dict[str, float]] = field(default_factory=list)


def figures(
    out: Path, given: Mapping[str, Any], *, quick: bool, seed: int, say: Callable[[str], object]
) -> tuple[list[dict[str, Any]], list[Claim]]:
    """Measure, draw figure-2.png to figure-7.png and lazy.png; returns rows and claims for the report."""
    out.mkdir(parents=True, exist_ok=True)
    size = given["quick" if quick else "full"]
    labs = [Lab(given, size, seed + number) for number in range(size["seeds"])]
    labs[0].timed(JOINS, 10, 10)  # warm
    founds = [measured(lab, say) for lab in labs]
    window_paper_figures.draw(out, labs[0], founds[0])
    rows = [
        {"seed": lab.seed, **row}
        for lab, found in zip(labs, founds, strict=True)
        for row in window_paper_model.rows(lab, found)
    ]
    return rows, window_paper_claims.claims(labs[0], founds)


def measured(lab: Lab, say: Callable[[str], object]) -> Found:
    """All figures with one seed."""
    found = Found()
    for what, measure in (
        ("figures 2 and 3: touches", _touches),
        ("figures 4 and 5: crossovers", _crossovers),
        ("figure 4: one-way joins", _one_way),
        ("figure 6: full joins", _joins),
        ("figure 7: output rates", _outputs),
        ("lazy invalidation", _lazy),
        ("examples of the text", _examples),
    ):
        say(f"{what}, seed {lab.seed}")
        measure(lab, found)
    return found


def _touches(lab: Lab, found: Found) -> None:
    """Rows touched, with the paper's weights."""
    for figure in ("figure-2", "figure-3"):
        keys = lab.given["keys"][figure]
        found.touches[figure] = {name: [] for name in JOINS}
        for rate in lab.size["touch_rates"]:
            for name, cost in _touch_costs(lab, JOINS, keys, rate).items():
                found.touches[figure][name].append((rate, cost))
        advantage = _advantage(partial(_touch_costs, lab, ("HHJ", "HNJ"), keys))
        found.touch_crossovers[figure] = crossing(lab, advantage, *_range(lab, keys))


def _touch_costs(lab: Lab, names: Sequence[str], keys: int, rate: int) -> dict[str, float]:
    """Touches per second by join, weighed as in the paper."""
    weights, seconds = Weights(**lab.given["weights"]), lab.given["measured_seconds"]
    return {
        name: (t.touched["scan"] * weights.scan + t.touched["hash"] * weights.hash) / seconds
        for (name, _), t in lab.timed(names, rate, keys).items()
    }


def _seconds(
    lab: Lab, names: Sequence[str], rate: int, keys: int, layout: Layout | None = None
) -> dict[str, float]:
    """CPU seconds by join."""
    return {name: t.seconds for (name, _), t in lab.timed(names, rate, keys, layout).items()}


def _advantage(costs: Callable[[int], dict[str, float]]) -> Callable[[int], float]:
    """How much more the first of two joins costs, by rate; above zero the second wins."""

    def advantage(rate: int) -> float:
        first, second = costs(rate).values()
        return math.log(first / second)

    return advantage


def _range(lab: Lab, keys: int) -> tuple[float, float]:
    """Rates of B between which a crossover is looked for."""
    rate_a, ends = lab.given["rate_a"], lab.given["crossing"]
    return ends["lowest_ratio"] * rate_a, ends["highest_ratio_per_key"] * keys * rate_a


def _crossovers(lab: Lab, found: Found) -> None:
    """Where a scan starts to win, by layout and keys; and each layout's weights, from one of them."""
    others = [Layout(**o) for o in lab.given["layouts"]["others"][: lab.size["other_layouts"]]]
    calibrated = lab.given["calibrate_on"]
    for layout in (lab.base, *others):
        ratios = {keys: crossover(lab, keys, layout) for keys in lab.size["crossover_keys"]}
        found.crossovers[str(layout)] = ratios
        ratio = calibrated / (1 + ratios[calibrated])  # Eq. 7 solved for the ratio of weights
        found.weights[str(layout)] = Weights(scan=1.0, hash=max(ratio, 0.01))


def crossover(lab: Lab, keys: int, layout: Layout) -> float:
    """The ratio of rates from which on a scan takes less CPU time than a hash, one way."""
    costs = _advantage(lambda rate: _seconds(lab, "HN", rate, keys, layout))
    return crossing(lab, costs, *_range(lab, keys)) / float(lab.given["rate_a"])


def _one_way(lab: Lab, found: Found) -> None:
    found.one_way = _curves(lab, "HN", lab.size["time_rates"])


def _joins(lab: Lab, found: Found) -> None:
    keys = lab.given["keys"]["other"]
    found.joins = _curves(lab, JOINS, lab.size["join_rates"])
    costs = _advantage(lambda rate: _seconds(lab, ("HHJ", "HNJ"), rate, keys))
    found.join_crossover = crossing(lab, costs, *_range(lab, keys))


def _curves(lab: Lab, names: Sequence[str], rates: Sequence[int]) -> dict[str, list[tuple[int, float]]]:
    """CPU seconds over the rate of B."""
    found = [(rate, _seconds(lab, names, rate, lab.given["keys"]["other"])) for rate in rates]
    return {name: [(rate, by_name[name]) for rate, by_name in found] for name in names}


def falling_behind(lab: Lab, weights: Weights) -> dict[str, float]:
    """The rates of B at which the full joins fall behind, looked for around where the model has them."""
    keys, budget = lab.given["keys"]["other"], lab.given["measured_seconds"]

    def load(name: str, rate: int) -> float:
        return math.log(_slowdown(lab) * _seconds(lab, (name,), rate, keys)[name] / budget)

    found = {}
    for name in ("HHJ", "HNJ"):
        model = window_paper_model.thrash(lab, name, weights)
        low, high = (max(2.0, model * by) for by in lab.given["crossing"]["around_model"])
        found[name] = min(max(crossing(lab, partial(load, name), low, high), low), high)
    return found


def _slowdown(lab: Lab) -> float:
    """How much slower the machine must be for the one-way hash to saturate where the paper's did.

    Measured anew beside each measurement: the machine is not equally fast all the time.
    """
    one_way = _seconds(lab, "H", lab.given["saturates_at"], lab.given["keys"]["other"])
    return float(lab.given["measured_seconds"]) / one_way["H"]


def _outputs(lab: Lab, found: Found) -> None:
    """Where joins fall behind, and what they then put out."""
    keys, weights = lab.given["keys"]["other"], found.weights[str(lab.base)]
    found.long_thrash = falling_behind(lab.longer, weights)
    found.thrash = falling_behind(lab, weights)
    last = lab.given["after_peak"] * max(found.thrash.values())
    rates = {round(r) for r in np.linspace(20, last, lab.size["output_points"])}
    rates |= {round(t * by) for t in found.thrash.values() for by in (0.95, lab.given["after_peak"])}
    rates |= set(lab.given["paper_says"]["thrash"].values())
    found.outputs = {name: [] for name in ("H", "N", "HHJ", "HNJ")}
    for rate in sorted(rates):
        before, timings, after = _slowdown(lab), lab.timed(tuple(found.outputs), rate, keys), _slowdown(lab)
        for (name, _), t in timings.items():
            found.outputs[name].append((rate, output_rate(lab, t, weights, (before + after) / 2)))


def output_rate(lab: Lab, timing: Timing, weights: Weights, slowdown: float) -> float:
    """Results per second that leave within the measured seconds, if rows are served one after the other."""
    join, window, span = timing.join, lab.given["window"], lab.given["measured_seconds"]
    begin, end = np.searchsorted(join.rows.times, [window * SECOND, (window + span) * SECOND])
    scan, by_hash, results = join.per_row[begin:end].T
    work = scan * weights.scan + by_hash * weights.hash
    service = work / work.sum() * timing.seconds * slowdown
    arrival = join.rows.times[begin:end] / SECOND - window
    done = np.cumsum(service)
    finished = done + np.maximum.accumulate(arrival - (done - service))
    return float(results[finished <= span].sum() / span)


def _lazy(lab: Lab, found: Found) -> None:
    keys = lab.given["keys"]["other"]
    for rate in lab.size["lazy_rates"]:
        for (name, invalidation), t in lab.timed("HN", rate, keys, None, ("active", "lazy")).items():
            model = direction_cost(INDEX[name], lab.given["rate_a"], lab.side(rate, keys), UNIT, invalidation)
            found.lazy.append({
                "rate_b": rate, "index": INDEX[name], "invalidation": invalidation,
                "ms": t.seconds * 1000, "peak_rows": t.peak, "window_rows": rate * lab.given["window"],
                "touches": sum(t.touched.values()) / lab.given["measured_seconds"], "model_touches": model,
            })  # fmt: skip


def _examples(lab: Lab, found: Found) -> None:
    """How much more a hash takes than a scan, one way, where the text says who wins."""
    for example in lab.given["examples"]:
        there = replace(lab, given={**lab.given, "rate_a": example["rate_a"]})
        by_hash, scan = _seconds(there, "HN", example["rate_b"], example["keys"]).values()
        found.examples.append({"hash_s": by_hash, "scan_s": scan})
