"""What the cost model says about the measured figures of the window-join paper, and all numbers as rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from braided_lab.window_cost import Weights, crossover, output_rate

if TYPE_CHECKING:
    from braided_lab.window_paper import Found
    from braided_lab.window_paper_measure import Lab

Curves = dict[str, list[tuple[int, float]]]


def scaled(lab: Lab, curves: Curves, weights: Weights) -> Curves:
    """The model's curves in seconds: one factor for all of them, such that the mean deviation is none."""
    keys = lab.given["keys"]["other"]
    model = {n: [(r, lab.cost(n, r, keys, weights)) for r, _ in points] for n, points in curves.items()}
    logs = [math.log(p[1] / m[1]) for n in curves for p, m in zip(curves[n], model[n], strict=True)]
    factor = math.exp(statistics.fmean(logs))
    return {n: [(r, cost * factor) for r, cost in points] for n, points in model.items()}


def expected_output(lab: Lab, name: str, rate: float) -> float:
    """Eq. 9; half of it one way, as both windows are alike."""
    keys = lab.given["keys"]["other"]
    both = output_rate(lab.side(lab.given["rate_a"], keys), lab.side(rate, keys))
    return both / 2 if len(name) == 1 else both


def operations(lab: Lab, name: str, rate: float) -> float:
    """Probes, and rows kept, per second: a row does one of both one way, and both in a full join."""
    rows = float(lab.given["rate_a"] + rate)
    return rows if len(name) == 1 else 2 * rows


def thrash(lab: Lab, name: str, weights: Weights, per_operation: float = 0.0) -> float:
    """Where the model's cost reaches the capacity at which the one-way hash saturates.

    The paper's model has no cost of an operation beyond its touches; `per_operation` adds one.
    """
    keys = lab.given["keys"]["other"]

    def cost(join: str, rate: float) -> float:
        return lab.cost(join, rate, keys, weights) + per_operation * operations(lab, join, rate)

    capacity, low, high = cost("H", lab.given["saturates_at"]), 1.0, 1e5
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if cost(name, middle) > capacity else (middle, high)
    return low


def fitted(lab: Lab, found: Found) -> tuple[Weights, float]:
    """Nanoseconds per touch and per operation that describe the one-way joins (least relative squares).

    Not the paper's model: it says what an operation costs before it touches anything.
    """
    keys = lab.given["keys"]["other"]
    points = [(n, rate, s / lab.given["measured_seconds"]) for n, c in found.one_way.items() for rate, s in c]
    counts = [
        (
            lab.cost(n, r, keys, Weights(1.0, 0.0)),
            lab.cost(n, r, keys, Weights(0.0, 1.0)),
            operations(lab, n, r),
        )
        for n, r, _ in points
    ]
    relative = np.array(counts) / np.array([[s] for _, _, s in points])
    scan, by_hash, operation = np.linalg.lstsq(relative, np.ones(len(points)), rcond=None)[0] * 1e9
    return Weights(float(scan), float(by_hash)), float(operation)


def rows(lab: Lab, found: Found) -> list[dict[str, Any]]:
    """All numbers, by figure."""
    parts = (cost_rows, _time_rows, _crossover_rows, _output_rows)
    return [row for part in parts for row in part(lab, found)]


def cost_rows(lab: Lab, found: Found) -> Iterator[dict[str, Any]]:
    """Figures 2 and 3: touches counted, and the model's."""
    weights = Weights(**lab.given["weights"])
    for figure, curves in found.touches.items():
        for name, points in curves.items():
            for rate, cost in points:
                model = lab.cost(name, rate, lab.given["keys"][figure], weights)
                yield {
                    "figure": int(figure.rsplit("-", 1)[1]), "join": name, "rate_b": rate,
                    "touch_cost": round(cost, 1), "model_cost": round(model, 1),
                }  # fmt: skip


def _crossover_rows(lab: Lab, found: Found) -> Iterator[dict[str, Any]]:
    for layout, ratios in found.crossovers.items():
        weights = found.weights[layout]
        for keys, ratio in ratios.items():
            yield {
                "figure": 5, "layout": layout, "keys": keys, "measured": _finite(ratio),
                "eq7": round(crossover(keys, weights), 4), "weight_ratio": round(weights.ratio, 4),
                "calibrated": keys == lab.given["calibrate_on"],
            }  # fmt: skip


def _time_rows(lab: Lab, found: Found) -> Iterator[dict[str, Any]]:
    weights = found.weights[str(lab.base)]
    for figure, curves in ((4, found.one_way), (6, found.joins)):
        model = scaled(lab, curves, weights)
        for name, points in curves.items():
            for (rate, seconds), (_, expected) in zip(points, model[name], strict=True):
                yield {
                    "figure": figure, "join": name, "rate_b": rate, "ms": round(seconds * 1000, 4),
                    "model_ms": round(expected * 1000, 4),
                }  # fmt: skip
    touch, operation = fitted(lab, found)
    yield {
        "figure": 4, "scan_ns": round(touch.scan, 3), "hash_ns": round(touch.hash, 3),
        "operation_ns": round(operation, 1),
    }  # fmt: skip


def _output_rows(lab: Lab, found: Found) -> Iterator[dict[str, Any]]:
    for at, points in ((lab, found.thrash), (lab.longer, found.long_thrash)):
        for name, rate in points.items():
            yield {"figure": 7, "join": name, "window": at.given["window"], "falls_behind_at": _finite(rate)}
    for name, outputs in found.outputs.items():
        for rate, output in outputs:
            yield {
                "figure": 7, "join": name, "rate_b": rate, "output": round(output, 1),
                "eq9": round(expected_output(lab, name, rate), 1),
            }  # fmt: skip
    for row in found.lazy:
        yield {"figure": "lazy", **{k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}}


def _finite(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None
