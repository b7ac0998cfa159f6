"""How a statistic follows intervals (early-throughput, IV-B): the latest, or one of two averages.

| paper | here |
| --- | --- |
| Recent | "recent" |
| Average, N | "average", `average_of`; of fewer, while there are fewer |
| EWMA: stat = alpha * stat + (1 - alpha) * ObsVal | "ewma", `alpha`; begins with the first observation |

>>> smoothed = Smoothed("ewma", alpha=0.2)
>>> for rows in (100, 80, 90, 60):
...     smoothed.observe(np.array([rows]))
>>> smoothed.now
array([65.76])
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from braided.query.memory import Keeping


class Smoothed:
    """One statistic, an array of any shape; the shape never changes."""

    def __init__(self, keeping: Keeping = "ewma", *, alpha: float = 0.5, average_of: int = 3) -> None:
        self._forgets = keeping == "ewma"
        self._alpha = alpha
        self._most = average_of if keeping == "average" else 1
        self._values: list[npt.NDArray[np.float64]] = []

    def observe(self, observed: npt.ArrayLike) -> None:
        """Take in what an interval brought, as a copy."""
        value = np.array(observed, dtype=np.float64)
        if self._forgets and self._values:
            value = self._alpha * self._values[0] + (1 - self._alpha) * value
        assert not self._values or value.shape == self._values[0].shape
        self._values = [*self._values, value][-self._most :]

    @property
    def now(self) -> npt.NDArray[np.float64] | None:
        """The statistic; None before the first observation."""
        return np.mean(self._values, axis=0) if self._values else None

    def save(self) -> list[Any]:
        """Return plain lists for a checkpoint."""
        return [value.tolist() for value in self._values]

    def load(self, saved: list[Any]) -> None:
        """Go on from a checkpoint."""
        self._values = [np.array(value, dtype=np.float64) for value in saved][-self._most :]
