"""Our own indexes, asked what the window-join paper asks: what does a direction cost, and is auto right?

*Direction A to B*: rows of B enter and leave a side, rows of A probe it. The prediction comes from the
parameters (keys, rates, window, rows a batch) and the calibrated costs of single operations alone; the
measurement runs the shipped side state and kernel. *Auto* is measured on the whole shipped join, against all
four fixed combinations of the two sides' indexes, CPU seconds side by side. Every row is of one seed;
`window_index_claims` judges them together.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

import braided as bd
from braided.engine.calibration import Trial, calibrate, random_rows
from braided.engine.kernels.probe import BLOCK_ROWS
from braided.policies.index_cost import Costs, Load, hash_ns, scan_ns

INDEXES = {"HHJ": ("hash", "hash"), "NNJ": ("scan", "scan"), "HNJ": ("hash", "scan"), "NHJ": ("scan", "hash")}


@dataclass(frozen=True)
class Cell:
    """One point of the sweep."""

    keys: int
    ratio: int
    window: int
    batch_rows: int

    @property
    def probing(self) -> int:
        """Rows of A in a batch."""
        return max(1, self.batch_rows // self.ratio)

    def load(self, batches: int) -> Load:
        """What batches ask of B's side, by the parameters: a batch is stored before its rows probe."""
        stored = self.window + self.batch_rows
        return Load(
            probes=self.probing * batches,
            inserts=self.batch_rows * batches,
            rows=self.window,
            hops=stored / self.keys,
            hits=self.window / self.keys,
            blocks=batches * max(1.0, self.probing / BLOCK_ROWS),
        )


def measured(
    given: Mapping[str, Any], *, quick: bool, seed: int, say: Callable[[str], object]
) -> list[dict[str, Any]]:
    """All that is asked of our indexes, with every seed."""
    rows: list[dict[str, Any]] = []
    for number in range(seed, seed + given["quick_seeds" if quick else "full_seeds"]):
        say(f"cost of a direction, predicted and measured, seed {number}")
        found = directions(given, quick=quick, seed=number)
        found += auto(given, quick=quick, seed=number, say=say)
        found += expiry(given, quick=quick, seed=number)
        rows += [{"seed": number, **row} for row in found]
    return rows


def directions(given: Mapping[str, Any], *, quick: bool, seed: int) -> list[dict[str, Any]]:
    """Predicted and measured cost of every direction of the sweep."""
    rows, size = [], "quick" if quick else "full"
    repeats, batches = (given["direction"][f"{size}_{n}"] for n in ("repeats", "batches"))
    for keys, ratio in itertools.product(given["keys"], given["ratios"]):
        costs = calibrate()  # anew now and then: a shared machine's speed drifts
        for window in given["windows"]:
            cell = Cell(keys, ratio, window, given["batch_rows"])
            jobs = [partial(_direction_ns, cell, batches, seed, scanned=s) for s in (False, True)]
            for scanned, ns in zip((False, True), _interleaved(jobs, repeats), strict=True):
                rows.append(_direction_row(cell, batches, costs, ns, scanned=scanned))
    return rows


def _direction_row(cell: Cell, batches: int, costs: Costs, ns: float, *, scanned: bool) -> dict[str, Any]:
    load = cell.load(batches)
    stored = batches * costs.batch + load.inserts * costs.store  # with either index (Eq. 1)
    predicted = stored + (scan_ns if scanned else hash_ns)(load, costs)
    return {
        "experiment": "direction", "index": "scan" if scanned else "hash",
        "keys": cell.keys, "ratio": cell.ratio, "window": cell.window,
        "predicted_us_per_batch": round(predicted / batches / 1e3, 2),
        "measured_us_per_batch": round(ns / batches / 1e3, 2),
        "predicted / measured": round(predicted / ns, 3),
    }  # fmt: skip


def _direction_ns(cell: Cell, batches: int, seed: int, *, scanned: bool) -> float:
    """Let B's rows enter and leave, and A's probe, batch by batch; the time of both."""
    rng = np.random.default_rng(seed)
    trial = Trial(scanned=scanned, bounds_us=cell.window)
    trial.probed.append(random_rows(rng, cell.window, cell.keys))
    seconds = 0.0
    for batch in range(batches):
        start = cell.window + batch * cell.batch_rows
        entering = random_rows(rng, cell.batch_rows, cell.keys, start=start)
        probing = random_rows(rng, cell.probing, cell.keys)
        times = start + (np.arange(cell.probing) * cell.batch_rows) // cell.probing
        first = trial.probing.count
        trial.probing.append(replace(probing, times=times))
        began = time.process_time()
        trial.probed.expire(start - cell.window)
        trial.probed.append(entering)
        seconds += time.process_time() - began
        seconds += trial.probe_seconds(first)
    return 1e9 * seconds


@dataclass(frozen=True)
class Course:
    """A run of the whole join: its cells one after the other."""

    cells: tuple[Cell, ...]
    batches: int

    @property
    def label(self) -> str:
        """In words."""
        first, last = self.cells[0], self.cells[-1]
        if len(self.cells) == 1:
            return f"{first.keys} keys, ratio {first.ratio}, window {first.window:,}"
        return (
            f"{first.keys} to {last.keys} keys, ratio {first.ratio} to {last.ratio}, window {first.window:,}"
        )

    def tables(self, seed: int) -> list[dict[str, pa.Table]]:
        """The batches."""
        rng, made = np.random.default_rng(seed), []
        for batch in range(self.batches):
            cell = self.cells[batch * len(self.cells) // self.batches]
            rows = {"a": cell.probing, "b": cell.batch_rows}
            made.append({n: _rows(rng, cell, batch, count) for n, count in rows.items()})
        return made

    def join(self, tuning: bd.Tuning) -> bd.LocalJoin:
        """The shipped join."""
        window = f"{self.cells[0].window} us"
        streams = [bd.Stream(n, key="k", time="t", window=window) for n in "ab"]
        return bd.LocalJoin(bd.JoinQuery(streams, tuning=tuning))

    def seconds(self, tuning: bd.Tuning, batches: Sequence[Mapping[str, pa.Table]]) -> float:
        """CPU seconds of the shipped join over the batches."""
        live = self.join(tuning)
        began = time.process_time()
        for batch in batches:
            live.push(batch)
        return time.process_time() - began

    def most_rows(self, tuning: bd.Tuning, batches: Sequence[Mapping[str, pa.Table]]) -> int:
        """The most rows the shipped join holds after a batch."""
        live, most = self.join(tuning), 0
        for batch in batches:
            live.push(batch)
            most = max(most, sum(s.live_rows for s in live.stats().streams.values()))
        return most


def _rows(rng: np.random.Generator, cell: Cell, batch: int, rows: int) -> pa.Table:
    times = batch * cell.batch_rows + (np.arange(rows) * cell.batch_rows) // rows
    return pa.table({"k": rng.integers(0, cell.keys, rows), "t": pa.array(times).cast(pa.timestamp("us"))})


def courses(given: Mapping[str, Any], *, quick: bool) -> Iterator[Course]:
    """The sweep, and runs in which rates or keys move."""
    auto, size = given["auto"], "quick" if quick else "full"
    for keys, ratio, window in itertools.product(auto["keys"], auto["ratios"], given["windows"]):
        cell = Cell(keys, ratio, window, given["batch_rows"])
        results = 2 * cell.probing * window / keys  # of a batch
        yield Course((cell,), max(6, min(auto[f"{size}_batches"], round(auto["most_results"] / results))))
    for move, window in itertools.product(auto["moves"], given["windows"][:2]):
        pairs = zip(move["keys"], move["ratios"], strict=True)
        cells = tuple(Cell(keys, ratio, window, given["batch_rows"]) for keys, ratio in pairs)
        yield Course(cells, 2 * auto[f"{size}_batches"])


def auto(
    given: Mapping[str, Any], *, quick: bool, seed: int, say: Callable[[str], object]
) -> list[dict[str, Any]]:
    """CPU time of auto against every fixed combination."""
    repeats, rows = given["auto"]["quick_repeats" if quick else "full_repeats"], []
    for course in courses(given, quick=quick):
        say(f"auto against fixed indexes: {course.label}")
        batches = course.tables(seed)
        choices: list[Any] = ["auto", *(dict(zip("ab", pair, strict=True)) for pair in INDEXES.values())]
        jobs = [partial(course.seconds, bd.Tuning(index=c), batches) for c in choices]
        own, *fixed = _interleaved(jobs, repeats)
        best = min(fixed)
        rows.append(
            {
                "experiment": "auto", "course": course.label, "moving": len(course.cells) > 1,
                "auto_ms": round(1e3 * own, 2),
                **{name: round(1e3 * s, 2) for name, s in zip(INDEXES, fixed, strict=True)},
                "best": list(INDEXES)[fixed.index(best)], "auto / best": round(own / best, 3),
            }
        )  # fmt: skip
    return rows


def expiry(given: Mapping[str, Any], *, quick: bool, seed: int) -> list[dict[str, Any]]:
    """Time and rows held of our active and lazy expiry."""
    auto, size, rows = given["auto"], "quick" if quick else "full", []
    for window in given["windows"]:
        course = Course(
            (Cell(given["keys"][-1], 1, window, given["batch_rows"]),), 2 * auto[f"{size}_batches"]
        )
        batches = course.tables(seed)
        tunings = [bd.Tuning(expiry="active"), bd.Tuning(expiry="lazy")]
        jobs = [partial(course.seconds, t, batches) for t in tunings]
        active, lazy = _interleaved(jobs, auto[f"{size}_repeats"])
        held = [course.most_rows(t, batches) for t in tunings]
        rows.append(
            {
                "experiment": "expiry", "window": window, "active_ms": round(1e3 * active, 2),
                "lazy_ms": round(1e3 * lazy, 2), "active_rows": held[0], "lazy_rows": held[1],
            }
        )  # fmt: skip
    return rows


def _interleaved(jobs: Sequence[Callable[[], float]], repeats: int) -> list[float]:
    """The smallest figure of each job, taken in turns; a first round warms up."""
    found: list[list[float]] = [[] for _ in jobs]
    for round_ in range(repeats + 1):
        for figures, job in zip(found, jobs, strict=True):
            figure = job()
            if round_ or repeats == 0:
                figures.append(figure)
    return [min(f) for f in found]


def draw(out: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Cost of a direction by the number of keys, predicted (lines), measured (points): the first seed."""
    found = [r for r in rows if r["experiment"] == "direction" and r["seed"] == rows[0]["seed"]]
    ratios, windows = (sorted({r[n] for r in found}) for n in ("ratio", "window"))
    figure = Figure(figsize=(3.6 * len(ratios), 3 * len(windows)), layout="constrained")
    axes = figure.subplots(len(windows), len(ratios), sharex=True, squeeze=False)
    for (down, window), (across, ratio) in itertools.product(enumerate(windows), enumerate(ratios)):
        axis = axes[down, across]
        for index, colour in (("hash", "#2166ac"), ("scan", "#e08214")):
            points = [r for r in found if (r["ratio"], r["window"], r["index"]) == (ratio, window, index)]
            keys = [p["keys"] for p in points]
            axis.plot(
                keys, [p["predicted_us_per_batch"] for p in points], color=colour, label=f"{index}, model"
            )
            axis.plot(
                keys,
                [p["measured_us_per_batch"] for p in points],
                "o",
                color=colour,
                label=f"{index}, measured",
            )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(keys, [str(k) for k in keys])
        axis.minorticks_off()
        axis.set_title(f"window {window:,} rows, rate ratio {ratio}", fontsize=9)
        axis.grid(alpha=0.3)
    axes[0, 0].legend(fontsize=7)
    figure.suptitle("Our own indexes: cost of the direction A to B, microseconds per batch")
    figure.supxlabel("different keys in B")
    figure.savefig(out / "our-indexes.png", dpi=110)
