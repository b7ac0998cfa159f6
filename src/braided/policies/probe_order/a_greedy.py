"""A-greedy: the partner that drops most of what the earlier ones left is probed next (Babu et al. 2004).

Partners are not independent: one that drops many rows may drop the same rows as another. So some rows of
each buffer are *profiled*: how many rows of every partner they match, whether or not the order would have
come so far. With them the fan-out of a partner given the partners before it is

    fan-out(l | chosen) = sum of w * c_l / sum of w,    w = product of c_k over chosen k

and the invariant is: at every position, no later partner has a smaller one. It is restored when it is
violated by the factor `alpha`; a smaller difference is noise.

>>> rows = np.array([[0, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])
>>> AGreedy().order(0, Turn((4, 0, 0), (9, 9, 9), order=(1, 2), profile=rows))  # equal: nothing to gain
(1, 2)
>>> rows = np.array([[0, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1]])
>>> AGreedy().order(0, Turn((4, 0, 0), (9, 9, 9), order=(1, 2), profile=rows))
(2, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from braided.policies.arrays import Int64s
from braided.policies.decisions import Turn


@dataclass(frozen=True)
class AGreedy:
    """Smallest fan-out given what was chosen before."""

    alpha: float = 1.05
    profile_rows: int = 256

    def order(self, driver: int, turn: Turn) -> tuple[int, ...]:
        """Return the last order where it still holds; choose again from the first violation on."""
        partners = tuple(s for s in range(len(turn.stored_rows)) if s != driver)
        left = list(turn.order or partners)
        profile = turn.profile
        if profile is None or not len(profile):
            return tuple(left)
        weights = np.ones(len(profile))
        chosen: list[int] = []
        while left:
            if not weights.any():  # nothing comes so far: the rest does not matter
                return (*chosen, *left)
            fan_out = {p: _mean(profile[:, p], weights) for p in left}
            best = min(left, key=lambda p: fan_out[p])
            current = left[0]
            taken = best if fan_out[current] > self.alpha * fan_out[best] else current
            chosen.append(taken)
            left.remove(taken)
            weights = weights * profile[:, taken]
        return tuple(chosen)

    def fan_outs(self, driver: int, turn: Turn, order: Sequence[int]) -> list[float | None]:
        """In the profile, given the partners before."""
        if turn.profile is None:
            return [None for _ in order]
        weights = np.ones(len(turn.profile))
        found: list[float | None] = []
        for partner in order:
            matches = turn.profile[:, partner]
            found.append(_mean(matches, weights) if weights.any() else None)
            weights = weights * matches
        return found


def _mean(matches: Int64s, weights: npt.NDArray[np.float64]) -> float:
    """The matches of the rows that come so far, as often as they do."""
    return float(weights @ matches) / float(weights.sum())
