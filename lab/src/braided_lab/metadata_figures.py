"""Figures 8 to 11 of metadata-join, from what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from braided_lab.metadata_measure import Curve

if TYPE_CHECKING:
    from braided_lab.metadata_join import Cells

_FIGURES = {
    "figure-8": ("queues", "operations", "Figure 8: operations against results"),
    "figure-9": ("bulk", "seconds", "Figure 9: CPU seconds against results"),
    "figure-10": ("bulk", "state_rows", "Figure 10: rows of state against results"),
    "figure-10-fine": ("fine", "state_rows", "Figure 10: rows of state, a batch for each punctuation"),
    "figure-11": ("fine", "seconds", "Figure 11: CPU seconds, a batch for each punctuation"),
}


def draw(out: Path, cells: Cells) -> None:
    """All figures as PNG files, by streams; means over seeds."""
    for name, (experiment, column, title) in _FIGURES.items():
        _figure(out / f"{name}.png", cells, experiment, column, title)


def _figure(path: Path, cells: Cells, experiment: str, column: str, title: str) -> None:
    arrivals = list(dict.fromkeys(arrival for of, arrival, _ in cells if of == experiment))
    figure = Figure(figsize=(5.5 * len(arrivals), 4.5), layout="constrained")
    axes = figure.subplots(1, len(arrivals), sharey=True, squeeze=False)
    for axis, arrival in zip(axes[0], arrivals, strict=True):
        for (of, when, name), curves in cells.items():
            if (of, when) == (experiment, arrival):
                axis.plot(np.arange(1, 11) / 10, _middle(curves, column), marker=".", label=name)
        axis.set_title(arrival)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize=8)
    figure.suptitle(title)
    figure.supxlabel("share of the results")
    figure.savefig(path, dpi=110)


def _middle(curves: list[Curve], column: str) -> np.ndarray:
    values = [c.operations() if column == "operations" else c.deciles(column) for c in curves]
    return np.asarray(np.mean(values, axis=0))
