"""Figures 2 to 7 of the window-join paper, and the trade of lazy invalidation, as PNG files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from braided_lab.window_cost import Weights, crossover
from braided_lab.window_paper_model import Curves, expected_output, scaled, thrash

if TYPE_CHECKING:
    from braided_lab.window_paper import Found
    from braided_lab.window_paper_measure import Lab

_COLOURS = {
    "HHJ": "#2166ac",
    "HNJ": "#1b7837",
    "NHJ": "#8073ac",
    "NNJ": "#e08214",
    "H": "#67a9cf",
    "N": "#b35806",
}
_NAMES = {"H": "hash, one way", "N": "scan, one way"}


def draw(out: Path, lab: Lab, found: Found) -> None:
    """All figures."""
    _costs(out / "figure-2.png", lab, found, "figure-2")
    _costs(out / "figure-3.png", lab, found, "figure-3")
    _times(out / "figure-4.png", lab, found, found.one_way, "Figure 4: CPU time of one-way joins A to B")
    _crossovers(out / "figure-5.png", lab, found)
    _times(out / "figure-6.png", lab, found, found.joins, "Figure 6: CPU time of four full joins")
    _outputs(out / "figure-7.png", lab, found)
    _lazy(out / "lazy.png", found)


def _axis(title: str, x: str, y: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axis = figure.subplots()
    axis.set_title(title, fontsize=11)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.grid(alpha=0.3)
    return figure, axis


def _costs(path: Path, lab: Lab, found: Found, which: str) -> None:
    keys, weights = lab.given["keys"][which], Weights(**lab.given["weights"])
    title = f"Figure {which.rsplit('-', 1)[1]}: cost of window joins, selectivity {1 / keys:g}"
    figure, axis = _axis(title, "rows of B per second", "cost per second (weighed touches)")
    rates = np.arange(lab.given["model_rates"][0], lab.given["model_rates"][1] + 1)
    for name, points in found.touches[which].items():
        axis.plot(rates, [lab.cost(name, r, keys, weights) for r in rates], color=_COLOURS[name], label=name)
        axis.plot(*zip(*points, strict=True), "o", color=_COLOURS[name], markersize=5)
    cross = found.touch_crossovers[which]
    axis.axvline(cross, color="#4d4d4d", linestyle=":")
    axis.annotate(f" {cross:.0f}", (cross, 0.93), xycoords=("data", "axes fraction"))
    axis.plot([], [], "o", color="#4d4d4d", label="touches counted")
    axis.legend()
    figure.savefig(path, dpi=110)


def _times(path: Path, lab: Lab, found: Found, curves: Curves, title: str) -> None:
    figure, axis = _axis(
        title, "rows of B per second", f"CPU ms for {lab.given['measured_seconds']} s of rows"
    )
    model = scaled(lab, curves, found.weights[str(lab.base)])
    for name, points in curves.items():
        rates, seconds = zip(*points, strict=True)
        label = _NAMES.get(name, name)
        axis.plot(rates, [s * 1000 for s in seconds], "o-", color=_COLOURS[name], label=label, markersize=4)
        axis.plot(rates, [s * 1000 for _, s in model[name]], "--", color=_COLOURS[name], linewidth=1)
    axis.plot([], [], "--", color="#4d4d4d", linewidth=1, label="model, one factor for all")
    axis.legend()
    figure.savefig(path, dpi=110)


def _crossovers(path: Path, lab: Lab, found: Found) -> None:
    figure, axis = _axis(
        "Figure 5: how much faster B must be for a scan to win", "keys |B|", "rate of B / rate of A"
    )
    for number, (layout, ratios) in enumerate(found.crossovers.items()):
        colour, weights = f"C{number}", found.weights[layout]
        shown = {k: r for k, r in ratios.items() if math.isfinite(r) and r > 0}
        keys = np.linspace(min(ratios), max(ratios), 50)
        label = f"{layout}, weight ratio {weights.ratio:.2f}"
        axis.plot(shown.keys(), shown.values(), "o", color=colour, label=label)
        axis.plot(keys, [max(0, crossover(k, weights)) for k in keys], "-", color=colour, linewidth=1)
    axis.plot(keys, [crossover(k) for k in keys], ":", color="#4d4d4d", label="Eq. 7, the paper's ratio 1.3")
    axis.plot(
        [],
        [],
        "-",
        color="#4d4d4d",
        linewidth=1,
        label=f"Eq. 7, ratio from |B| = {lab.given['calibrate_on']}",
    )
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def _outputs(path: Path, lab: Lab, found: Found) -> None:
    figure, axis = _axis("Figure 7: output under a CPU budget", "rows of B per second", "results per second")
    for name, points in found.outputs.items():
        rates, outputs = zip(*points, strict=True)
        label = _NAMES.get(name, name)
        axis.plot(rates, outputs, "o-", color=_COLOURS[name], label=label, markersize=4)
    for name, rate in found.thrash.items():
        model = thrash(lab, name, found.weights[str(lab.base)])
        axis.axvline(rate, color=_COLOURS[name], linestyle=":", label=f"{name} falls behind at {rate:.0f}")
        axis.axvline(model, color=_COLOURS[name], linestyle="--", linewidth=0.8, label=f"model: {model:.0f}")
        theirs = lab.given["paper_says"]["thrash"][name], lab.given["paper_says"]["peak_output"][name]
        axis.plot(*theirs, "*", color=_COLOURS[name], markersize=11, label=f"the paper's peak of {name}")
    grid = sorted({r for points in found.outputs.values() for r, _ in points})
    axis.plot(grid, [expected_output(lab, "HHJ", r) for r in grid], color="#bbbbbb", zorder=0, label="Eq. 9")
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def _lazy(path: Path, found: Found) -> None:
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    times, peaks = figure.subplots(1, 2)
    for index, colour in (("hash", _COLOURS["H"]), ("scan", _COLOURS["N"])):
        for invalidation, line in (("active", "o-"), ("lazy", "s--")):
            rows = [r for r in found.lazy if (r["index"], r["invalidation"]) == (index, invalidation)]
            rates, label = [r["rate_b"] for r in rows], f"{index}, {invalidation}"
            times.plot(rates, [r["ms"] for r in rows], line, color=colour, label=label)
            peaks.plot(
                rates, [r["peak_rows"] - r["window_rows"] for r in rows], line, color=colour, label=label
            )
    for axis, title in ((times, "CPU ms for 60 s of rows"), (peaks, "most rows held beyond the window")):
        axis.set_title(title, fontsize=11)
        axis.set_xlabel("rows of B per second")
        axis.grid(alpha=0.3)
    peaks.set_yscale("log")
    times.legend(fontsize=8)
    figure.suptitle("Active and lazy invalidation, one way A to B")
    figure.savefig(path, dpi=110)
