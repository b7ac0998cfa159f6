"""Figures 5 to 8 of the driver-selection paper, from what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from braided_lab.driver_datasets import NAMES, dataset

if TYPE_CHECKING:
    from braided_lab.driver_selection import Cells

_PERIODS = ("0.1M", "1M")
_COLOURS = {
    "timestamp": "#4d4d4d",
    "round-robin": "#e08214",
    "consumption-rate": "#8073ac",
    "initial-output-size": "#1b7837",
    "output-rate": "#2166ac",
}


def draw(out: Path, cells: Cells, given: Mapping[str, Any], rows: int, seed: int) -> None:
    """All figures as PNG files."""
    _arrivals(out / "figure-5.png", given, rows, seed)
    grid = np.linspace(*given["grid"])
    _curves(
        out / "figure-6.png", cells, grid, NAMES[:3], "all", 0, "Figure 6: results over time, data sets I-III"
    )
    for number, half in ((7, "first half"), (8, "second half")):
        title = f"Figure {number}: results over time, {half} of the batches, data sets IV-VI"
        _curves(out / f"figure-{number}.png", cells, grid, NAMES[3:], half, 0, title)
    _curves(out / "consumed.png", cells, grid, NAMES, "all", 1, "Input consumed over time")


def _arrivals(path: Path, given: Mapping[str, Any], rows: int, seed: int) -> None:
    figure = Figure(figsize=(12, 6), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True)
    for axis, name in zip(axes.flat, NAMES, strict=True):
        span = rows * given["units_per_row"]
        for stream, table in dataset(name, rows, given, seed=seed).items():
            counts, edges = np.histogram(table["t"].cast(pa.int64()).to_numpy(), bins=64, range=(0, span))
            axis.step(edges[:-1] / span, counts / (span / 64), where="post", label=stream)
        axis.set_title(f"Data set {name}")
        axis.set_yscale("log")
        axis.grid(alpha=0.3)
    axes[0, 0].legend()
    figure.suptitle("Figure 5: arrival rates (rows per time unit)")
    figure.supxlabel("part of the run")
    figure.savefig(path, dpi=110)


def _curves(
    path: Path, cells: Cells, grid: np.ndarray, names: tuple[str, ...], half: str, column: int, title: str
) -> None:
    figure = Figure(figsize=(4.2 * len(names), 7), layout="constrained")
    axes = figure.subplots(2, len(names), sharex=True, sharey=True)
    for down, period in enumerate(_PERIODS):
        for across, name in enumerate(names):
            axis = axes[down, across]
            for policy, colour in _COLOURS.items():
                curve = np.mean(cells[name, period, policy].curves[half], axis=0)[:, column]
                end = np.mean(cells[name, period, policy].halves[half]["cpu"])
                axis.plot(grid, curve, color=colour, label=policy)
                axis.axvline(end, color=colour, linestyle=":", linewidth=1)
            axis.set_title(f"Data set {name}, period {period}")
            axis.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=8)
    figure.suptitle(f"{title} (dotted: end of the batch)")
    figure.supxlabel("CPU time, as a part of timestamp's time for the same batch")
    figure.supylabel("share of the batch")
    figure.savefig(path, dpi=110)
