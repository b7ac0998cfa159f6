"""Figures 7 to 13 of early-throughput, from what was measured: seconds against the first results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from braided_lab.early_throughput import Cells

_FIGURES = {
    "figure-7": ("alpha", "Figure 7: weight of what was known"),
    "figure-8": ("keeping", "Figure 8: how intervals are put together"),
    "figure-9": ("inputs", "Figure 9: input behaviour"),
    "figure-9-uniform": ("uniform", "Figure 9, keys without buckets"),
    "figure-10": ("memory", "Figure 10: memory, as a share of the input"),
    "figure-11": ("flush", "Figure 11: share of memory that is flushed at a time"),
    "figure-12": ("ratio", "Figure 12: join ratio"),
    "figure-13": ("joins", "Figure 13: number of joins"),
    "figure-9-disk": ("disk", "Figure 9, with the disk of 2008"),
}


def draw(out: Path, cells: Cells, given: Mapping[str, Any], size: Mapping[str, Any]) -> None:
    """All figures of experiments that were run, as PNG files, by variation."""
    for name, (experiment, title) in _FIGURES.items():
        if any(e == experiment for e, _, _ in cells):
            _figure(out / f"{name}.png", cells, experiment, title, given["results"], size["scale"])


def _figure(path: Path, cells: Cells, experiment: str, title: str, wanted: list[int], scale: float) -> None:
    variations = list(dict.fromkeys(v for e, v, _ in cells if e == experiment))
    figure = Figure(figsize=(4.5 * len(variations), 4.5), layout="constrained")
    axes = figure.subplots(1, len(variations), sharey=True, squeeze=False)
    for axis, variation in zip(axes[0], variations, strict=True):
        for (of, where, name), runs in cells.items():
            if (of, where) == (experiment, variation):
                seconds = [np.mean([r.seconds_to(k * scale) for r in runs]) for k in wanted]
                axis.plot(np.array(wanted) / 1000, seconds, marker=".", label=name)
        axis.set_title(variation)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize=8)
    figure.suptitle(title)
    figure.supxlabel("thousand results")
    figure.supylabel("seconds")
    figure.savefig(path, dpi=110)
