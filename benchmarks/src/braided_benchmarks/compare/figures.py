"""The comparison as a picture: time against the number of streams, and latencies."""

from __future__ import annotations

import math
import re
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from braided_benchmarks.compare.runs import CONTENDERS, Outcome

COLOURS = dict(
    zip(
        CONTENDERS,
        ("#d1495b", "#8d96a3", "#4a5058", "#9ecae1", "#4292c6", "#084594", "#a1d99b", "#31a354"),
        strict=True,
    )
)


def draw(path: Path, outcomes: list[Outcome]) -> None:
    """Both parts side by side, with one legend below."""
    figure = Figure(figsize=(13, 5.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    _against_streams(left, [o for o in outcomes if not o.latencies and o.complete])
    _latencies(right, [o for o in outcomes if o.latencies])
    shown = [c for c in CONTENDERS if any(o.contender == c for o in outcomes)]
    handles = [left.plot([], [], marker="s", linestyle="", color=COLOURS[c])[0] for c in shown]
    figure.legend(handles, shown, loc="outside lower center", ncols=4)
    figure.savefig(path, metadata={"Date": None})


def _against_streams(axis: Axes, outcomes: list[Outcome]) -> None:
    for contender in CONTENDERS:
        points = sorted(
            (int(found[1]), o.seconds)
            for o in outcomes
            if o.contender == contender and (found := re.fullmatch(r"(\d) streams", o.scenario))
        )
        widths = 3 if contender == "braided" else 1.5
        if points:
            streams, seconds = zip(*points, strict=True)
            axis.plot(streams, seconds, marker="o", color=COLOURS[contender], linewidth=widths)
    _logarithmic(axis)
    axis.set_title("All files lie there: seconds to the last result")
    axis.set_xlabel("streams of 320,000 rows")
    axis.set_xticks(range(2, 7))
    axis.grid(alpha=0.3, which="both")


def _latencies(axis: Axes, outcomes: list[Outcome]) -> None:
    """A bar up to the 99th percentile with a line at the median; a pale one where some results never came."""
    scenarios = list(dict.fromkeys(o.scenario for o in outcomes))
    width = 0.8 / len(CONTENDERS)
    tallest = max((v for o in outcomes for v in o.latencies.values() if math.isfinite(v)), default=1.0)
    for o in outcomes:
        place = scenarios.index(o.scenario) - 0.4 + width * (CONTENDERS.index(o.contender) + 0.5)
        middle, high = (min(o.latencies[p], 2 * tallest) for p in (50, 99))
        axis.bar(place, high, width, color=COLOURS[o.contender], alpha=0.9 if o.complete else 0.35)
        axis.plot([place - width / 2, place + width / 2], [middle, middle], color="black", linewidth=1.2)
    _logarithmic(axis)
    axis.set_xticks(
        range(len(scenarios)), [s.replace(" rows a second", "\nrows a second") for s in scenarios]
    )
    axis.set_title("A file a second: 99th percentile of latency (line: median)")
    axis.grid(alpha=0.3, axis="y")


def _logarithmic(axis: Axes) -> None:
    axis.set_yscale("log", subs=[2, 5])
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("{x:g}")
