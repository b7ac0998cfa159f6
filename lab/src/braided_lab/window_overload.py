"""Figures 8 to 11 of the window-join paper on the shipped join: which rows, and how much window, to keep.

A batch is one unit of time; rows come evenly spaced at the captions' rates; results are counted once the
windows are full, and compared with the paper's formulas (Eq. 10, 13, 14). Nothing is modelled: the join
sheds, splits and counts as it would for a user.
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
from braided.policies.sharing import let_in, split
from braided_lab.report import Claim

UNIT_US = 1_000_000


@dataclass(frozen=True)
class Pair:
    """Two streams: rows per unit, numbers of keys, windows in units."""

    rates: tuple[float, float]
    keys: tuple[int, int]
    windows: tuple[float, float]

    @property
    def selectivity(self) -> float:
        """Eq. 9 takes the smaller one; the keys of one side are among those of the other."""
        return 1 / max(self.keys)

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

    def output(self, overload: bd.Overload, units: int, warm_up: int, seed: int) -> float:
        """Results per unit of the shipped join, once it has warmed up."""
        streams = [
            bd.Stream(n, key="k", time="t", window=f"{round(w * UNIT_US)} us")
            for n, w in zip("ab", self.windows, strict=True)
        ]
        live, rng, found = (
            bd.LocalJoin(bd.JoinQuery(streams, overload=overload)),
            np.random.default_rng(seed),
            0,
        )
        for unit in range(warm_up + units):
            results = live.push(self.batch(rng, unit)).num_rows
            found += results if unit >= warm_up else 0
        return found / units


def figure_8(given: Mapping[str, Any], units: int, seed: int) -> Iterator[dict[str, Any]]:
    """Rows let in by five rules, windows fixed."""
    pair = Pair(tuple(given["rates"]), tuple(given["keys"]), tuple(given["windows"]))
    for rule in given["rules"]:
        overload = bd.Overload(given["budget"], shed="input", allocation=rule)
        us = tuple(w * UNIT_US for w in pair.windows)
        rate_a, rate_b = let_in(rule, given["budget"], [*map(int, pair.rates)], us)
        formula = pair.selectivity * rate_a * rate_b * sum(pair.windows)
        measured = pair.output(overload, units, round(2 * max(pair.windows)), seed)
        yield _row(8, rule, formula, measured)


def figure_9(given: Mapping[str, Any], units: int, seed: int) -> Iterator[dict[str, Any]]:
    """Memory split by five rules, rates fixed; the query's windows are longer than memory can hold."""
    most = given["state_rows"] / min(given["rates"])
    pair = Pair(tuple(given["rates"]), tuple(given["keys"]), (2 * most, 2 * most))
    for rule in given["rules"]:
        overload = bd.Overload(state_rows=given["state_rows"], window_split=rule)
        a, b = split(rule, given["state_rows"], rates=pair.rates, caps=(math.inf, math.inf))
        formula = pair.selectivity * (a * pair.rates[1] + b * pair.rates[0])
        yield _row(9, rule, formula, pair.output(overload, units, round(2 * most), seed))


def figure_10(given: Mapping[str, Any], units: int, seed: int) -> Iterator[dict[str, Any]]:
    """Rows and memory together: the paper's five combinations (Eq. 14)."""
    pair = Pair(tuple(given["rates"]), tuple(given["keys"]), (given["window"],) * 2)
    for name, (rule, allocation) in given["strategies"].items():
        overload = bd.Overload(
            given["budget"], shed="input", allocation=allocation,
            state_rows=given["state_rows"], window_split=rule,
        )  # fmt: skip
        a, b = split(rule, given["state_rows"], rates=pair.rates, caps=(math.inf, math.inf))
        rate_a, rate_b = let_in(allocation, given["budget"], [*map(int, pair.rates)], (a, b))
        formula = pair.selectivity * (a * rate_b + b * rate_a)
        yield _row(10, name, formula, pair.output(overload, units, round(units / 4), seed))


def _row(figure: int, rule: str, formula: float, measured: float) -> dict[str, Any]:
    return {"figure": figure, "rule": rule, "formula": round(formula, 4), "measured": round(measured, 4)}


def figures(
    out: Path, given: Mapping[str, Any], *, quick: bool, seed: int, say: Callable[[str], object]
) -> tuple[list[dict[str, Any]], list[Claim]]:
    """Measure, draw figure-8.png to figure-11.png; rows and claims for the report."""
    units = given["quick_units" if quick else "full_units"]
    long = given["quick_figure_10_units" if quick else "figure_10_units"]
    rows: list[dict[str, Any]] = []
    for number, measure, length in ((8, figure_8, units), (9, figure_9, units), (10, figure_10, long)):
        say(f"figure {number}: overload on the shipped join")
        rows += measure(given[f"figure_{number}"], length, seed)
    _draw(out, rows, given)
    return rows, list(claims(given, rows))


def claims(given: Mapping[str, Any], rows: list[dict[str, Any]]) -> Iterator[Claim]:
    """Rankings, and the optimum against its formula."""
    said = {8: "equal rates give most results (Figure 8)", 9: "all memory to the slower stream (Figure 9)",
            10: "window of one stream, rate of the other (Figure 10)"}  # fmt: skip
    for figure, words in said.items():
        points = [r for r in rows if r["figure"] == figure]
        ranked = _ranking(points, "measured") == _ranking(points, "formula")
        best = max(points, key=lambda r: r["formula"])
        ratio = best["measured"] / best["formula"]
        near = 1 / given["optimum_within"] <= ratio <= given["optimum_within"]
        order = ", ".join(f"{r['rule']} {r['measured']:g} ({r['formula']:g})" for r in points)
        yield Claim(
            words,
            "ranking of the formula",
            f"{order}; optimum at {ratio:.3f} of the formula",
            "reproduced" if ranked and near else "same direction" if ranked else "not reproduced",
            "measured results per unit (formula)",
        )


def _ranking(points: list[dict[str, Any]], column: str) -> list[set[str]]:
    """Rules from best to worst; those that the formula puts level are one group."""
    groups: dict[float, set[str]] = {}
    for point in sorted(points, key=lambda p: -p["formula"]):
        groups.setdefault(point["formula"], set()).add(point["rule"])
    means = {
        level: float(np.mean([p[column] for p in points if p["rule"] in rules]))
        for level, rules in groups.items()
    }
    return [groups[level] for level in sorted(groups, key=lambda level: -means[level])]


def _draw(out: Path, rows: list[dict[str, Any]], given: Mapping[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    titles = {8: "Figure 8: rows let in by five rules", 9: "Figure 9: memory split by five rules",
              10: "Figure 10: rows and memory together"}  # fmt: skip
    for figure, title in titles.items():
        _bars(out / f"figure-{figure}.png", [r for r in rows if r["figure"] == figure], title)
    _surface(out / "figure-11.png", given["figure_10"], [r for r in rows if r["figure"] == 10])


def _bars(path: Path, points: list[dict[str, Any]], title: str) -> None:
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axis = figure.subplots()
    places = np.arange(len(points))
    axis.bar(places - 0.2, [p["formula"] for p in points], 0.4, label="formula", color="#bdbdbd")
    axis.bar(places + 0.2, [p["measured"] for p in points], 0.4, label="measured", color="#1b7837")
    axis.set_xticks(places, [p["rule"].replace(" / ", "\n") for p in points], fontsize=8)
    axis.set_ylabel("results per unit of time")
    axis.set_title(title)
    axis.legend()
    axis.grid(alpha=0.3, axis="y")
    figure.savefig(path, dpi=110)


def _surface(path: Path, given: Mapping[str, Any], points: list[dict[str, Any]]) -> None:
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
    for point in points:
        x, y = corners[point["rule"]]
        axis.scatter([x], [y], [point["measured"]], color="#b2182b", s=40)
        axis.text(x, y, point["measured"] + 0.4, f"{point['measured']:.2f}", fontsize=8)
    axis.set_xlabel("part of the rows let in that are A's")
    axis.set_ylabel("rows of A's window")
    axis.set_zlabel("results per unit of time")
    axis.set_title("Figure 11: Eq. 14 (surface) and what was measured (points)")
    figure.savefig(path, dpi=110)
