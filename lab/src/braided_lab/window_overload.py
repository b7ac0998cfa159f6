"""Figures 8 to 11 of the window-join paper on the shipped join: which rows, and how much window, to keep.

A batch is one unit of time; rows come evenly spaced at the captions' rates; results are counted once the
windows are full, once for each seed, and held against what the paper's formulas give (Eq. 10, 13, 14; the
numbers are in the parameters, none comes from our code). Nothing is modelled: the join sheds, splits and
counts as it would for a user. `window_overload_claims` judges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

import braided as bd
from braided_lab.report import Claim
from braided_lab.verdicts import spread
from braided_lab.window_overload_claims import Outputs, claims

UNIT_US = 1_000_000


@dataclass(frozen=True)
class Pair:
    """Two streams: rows per unit, numbers of keys, windows in units."""

    rates: tuple[float, float]
    keys: tuple[int, int]
    windows: tuple[float, float]

    def batch(self, rng: np.random.Generator, unit: int) -> dict[str, pa.Table]:
        """The rows of one unit of time."""
        return {
            name: self._rows(rng, unit, rate, keys)
            for name, rate, keys in zip("ab", self.rates, self.keys, strict=True)
        }

    def _rows(self, rng: np.random.Generator, unit: int, rate: float, keys: int) -> pa.Table:
        rows = math.floor((unit + 1) * rate) - math.floor(unit * rate)
        times = unit * UNIT_US + (np.arange(rows) * UNIT_US) // max(rows, 1)
        return pa.table({"k": rng.integers(0, keys, rows), "t": pa.array(times).cast(pa.timestamp("us"))})

    def query(self, overload: bd.Overload) -> bd.JoinQuery:
        """The shipped join."""
        streams = [
            bd.Stream(n, key="k", time="t", window=f"{round(w * UNIT_US)} us", lateness="0 seconds")
            for n, w in zip("ab", self.windows, strict=True)
        ]
        return bd.JoinQuery(streams, overload=overload)

    def output(self, overload: bd.Overload, units: int, warm_up: int, seed: int) -> float:
        """Results per unit of the shipped join, once it has warmed up."""
        live, rng, found = bd.LocalJoin(self.query(overload)), np.random.default_rng(seed), 0
        for unit in range(warm_up + units):
            results = live.push(self.batch(rng, unit)).num_rows
            found += results if unit >= warm_up else 0
        return found / units


def figure_8(given: Mapping[str, Any], units: int, seed: int) -> Iterator[tuple[str, float]]:
    """Rows let in by five rules, windows fixed."""
    pair = Pair(tuple(given["rates"]), tuple(given["keys"]), tuple(given["windows"]))
    for rule in given["rules"]:
        overload = bd.Overload(given["budget"], shed="input", allocation=rule)
        yield rule, pair.output(overload, units, round(2 * max(pair.windows)), seed)


def figure_9(given: Mapping[str, Any], units: int, seed: int) -> Iterator[tuple[str, float]]:
    """Memory split by five rules, rates fixed; the query's windows are longer than memory can hold."""
    most = given["state_rows"] / min(given["rates"])
    pair = Pair(tuple(given["rates"]), tuple(given["keys"]), (2 * most, 2 * most))
    for rule in given["rules"]:
        overload = bd.Overload(state_rows=given["state_rows"], window_split=rule)
        yield rule, pair.output(overload, units, round(2 * most), seed)


def figure_10(given: Mapping[str, Any], units: int, seed: int) -> Iterator[tuple[str, float]]:
    """Rows and memory together: the paper's five combinations (Eq. 14)."""
    pair = Pair(tuple(given["rates"]), tuple(given["keys"]), (given["window"],) * 2)
    for name, (rule, allocation) in given["strategies"].items():
        overload = bd.Overload(
            given["budget"], shed="input", allocation=allocation,
            state_rows=given["state_rows"], window_split=rule,
        )  # fmt: skip
        yield name, pair.output(overload, units, round(units / 4), seed)


def regulated(given: Mapping[str, Any], units: int, seed: int) -> Iterator[tuple[str, float]]:
    """Section 4.2's example: rows let in of each stream, per unit."""
    pair = Pair(tuple(given["rates"]), (10, 10), (1.0, 1.0))
    live = bd.LocalJoin(pair.query(bd.Overload(given["budget"], shed="input", allocation="equal")))
    rng, units = np.random.default_rng(seed), min(units, 100)
    for unit in range(units):
        live.push(pair.batch(rng, unit))
    for (name, rate), seen in zip(
        zip("ab", pair.rates, strict=True), live.stats().streams.values(), strict=True
    ):
        yield name, rate - seen.shed_rows / units


_MEASURED: Mapping[str, Callable[[Mapping[str, Any], int, int], Iterator[tuple[str, float]]]] = {
    "figure_8": figure_8,
    "figure_9": figure_9,
    "equal_rates": figure_9,
    "figure_10": figure_10,
    "regulated": regulated,
}


def figures(
    out: Path, given: Mapping[str, Any], *, quick: bool, seed: int, say: Callable[[str], object]
) -> tuple[list[dict[str, Any]], list[Claim]]:
    """Measure, draw figure-8.png to figure-11.png; rows and claims for the report."""
    size, outputs = given["quick" if quick else "full"], dict[str, Outputs]()
    for which, measure in _MEASURED.items():
        units = size["figure_10_units" if which == "figure_10" else "units"]
        for number in range(size["seeds"]):
            say(f"overload on the shipped join: {which.replace('_', ' ')}, seed {seed + number}")
            for rule, found in measure(given[which], units, seed + number):
                outputs.setdefault(which, {}).setdefault(rule, []).append(found)
    _draw(out, outputs, given)
    return list(_rows(outputs, given)), list(claims(given, outputs))


def _rows(outputs: Mapping[str, Outputs], given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for which, by_rule in outputs.items():
        for rule, values in by_rule.items():
            yield {
                "figure": which.removeprefix("figure_"), "rule": rule,
                "paper": given[which]["paper"].get(rule),
                "measured": [round(v, 4) for v in values],
            }  # fmt: skip


def _draw(out: Path, outputs: Mapping[str, Outputs], given: Mapping[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    titles = {8: "Figure 8: rows let in by five rules", 9: "Figure 9: memory split by five rules",
              10: "Figure 10: rows and memory together"}  # fmt: skip
    for figure, title in titles.items():
        which = f"figure_{figure}"
        _bars(out / f"figure-{figure}.png", outputs[which], given[which]["paper"], title)
    _surface(out / "figure-11.png", given["figure_10"], outputs["figure_10"])


def _bars(path: Path, outputs: Outputs, paper: Mapping[str, float], title: str) -> None:
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axis = figure.subplots()
    places, found = np.arange(len(outputs)), [spread(values) for values in outputs.values()]
    said = [paper.get(rule, math.nan) for rule in outputs]
    axis.bar(places - 0.2, said, 0.4, label="the paper's formula", color="#bdbdbd")
    reach = [m.high - m.value if math.isfinite(m.high) else 0.0 for m in found]
    axis.bar(
        places + 0.2, [m.value for m in found], 0.4, yerr=reach, capsize=4,
        label="measured, 95 % interval", color="#1b7837",
    )  # fmt: skip
    axis.set_xticks(places, [rule.replace(" / ", "\n") for rule in outputs], fontsize=8)
    axis.set_ylabel("results per unit of time")
    axis.set_title(title)
    axis.legend()
    axis.grid(alpha=0.3, axis="y")
    figure.savefig(path, dpi=110)


def _surface(path: Path, given: Mapping[str, Any], outputs: Outputs) -> None:
    """Eq. 14 over the share of rows and the rows of A's window, with the measured corners."""
    budget, memory = given["budget"], given["state_rows"]
    share, rows = np.meshgrid(np.linspace(0, 1, 41), np.linspace(0, memory, 41))
    rate = (share * budget * (memory - rows) + (1 - share) * budget * rows) / max(given["keys"])
    figure = Figure(figsize=(7.5, 6), layout="constrained")
    axis = figure.add_subplot(projection="3d")
    axis.plot_surface(share, rows, rate, cmap="viridis", alpha=0.7)
    corners = {
        "Max A / Max rate A": (1, memory),
        "Max A / Max rate B": (0, memory),
        "Max B / Max rate A": (1, 0),
        "Max B / Max rate B": (0, 0),
        "equal": (0.5, memory / 2),
    }
    for rule, values in outputs.items():
        (x, y), mean = corners[rule], float(np.mean(values))
        axis.scatter([x], [y], [mean], color="#b2182b", s=40)
        axis.text(x, y, mean + 0.4, f"{mean:.2f}", fontsize=8)
    axis.set_xlabel("part of the rows let in that are A's")
    axis.set_ylabel("rows of A's window")
    axis.set_zlabel("results per unit of time")
    axis.set_title("Figure 11: Eq. 14 (surface) and what was measured (points)")
    figure.savefig(path, dpi=110)
