"""When rows arrive: seeded patterns over a span of time units, as sorted whole numbers.

Each pattern says how many rows come in each of many equal slices; inside a slice they come at random.
"""

from __future__ import annotations

import numpy as np

from braided.policies.arrays import Int64s

_SLICES = 2_000


def constant(rng: np.random.Generator, rows: int, span: int) -> Int64s:
    """An even average rate."""
    return np.sort(rng.integers(0, span, rows))


def alternating(rng: np.random.Generator, rows: int, span: int, *, fast_first: bool) -> Int64s:
    """Quarters of the rows, in turn three times as fast as the others: one per 5 units, then one per 15."""
    lengths = np.array([1, 3, 1, 3] if fast_first else [3, 1, 3, 1]) * span // 8
    starts = np.cumsum(lengths) - lengths
    quarter = np.diff(np.linspace(0, rows, 5).astype(int))
    parts = [rng.integers(s, s + n, q) for s, n, q in zip(starts, lengths, quarter, strict=True)]
    return np.sort(np.concatenate(parts))


def sinusoidal(rng: np.random.Generator, rows: int, span: int, *, cycles: float, amplitude: float) -> Int64s:
    """A rate that swings."""
    middle = (np.arange(_SLICES) + 0.5) / _SLICES
    return _by_weight(rng, 1 + amplitude * np.sin(2 * np.pi * cycles * middle), rows, span)


def b_model(rng: np.random.Generator, rows: int, span: int, *, first: float, depth: int) -> Int64s:
    """Bursts within bursts: of every stretch its first half gets the part `first` of the rows.

    >>> b_model_weights(0.2, 2).tolist()
    [0.04000000000000001, 0.16000000000000003, 0.16000000000000003, 0.6400000000000001]
    """
    return _by_weight(rng, b_model_weights(first, depth), rows, span)


def b_model_weights(first: float, depth: int) -> np.ndarray:
    """The shares of 2 ** depth equal slices."""
    weights = np.ones(1)
    for _ in range(depth):
        weights = np.concatenate([weights * first, weights * (1 - first)])
    return weights


def _by_weight(rng: np.random.Generator, weights: np.ndarray, rows: int, span: int) -> Int64s:
    edges = np.linspace(0, span, len(weights) + 1)
    shares = np.concatenate([[0.0], np.cumsum(weights / weights.sum())])
    return np.sort(np.interp(rng.random(rows), shares, edges).astype(np.int64))
