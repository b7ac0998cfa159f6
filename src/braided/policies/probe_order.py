"""In which order a driver stream's rows probe the others: the policies of `Tuning(probe_order=...)`.

*Fixed*: as the query lists its streams. The baseline.

*Selectivity*: the partner with the smallest expected fan-out first, fan-out_l = sigma_jl * |ht_l|. A probe
that finds nothing ends the search, so partners that rarely match save the work of all others. The selectivity
is the user's, or what this half-join showed recently; while nothing is known, one match is assumed and the
smaller state goes first.

*A-greedy*: the partner that drops most of what the earlier ones left is probed next (Babu et al. 2004).
Partners are not independent: one that drops many rows may drop the same rows as another. So some rows of
each buffer are *profiled*: how many rows of every partner they match, whether or not the order would have
come so far. With them the fan-out of a partner given the partners before it is

    fan-out(l | chosen) = sum of w * c_l / sum of w,    w = product of c_k over chosen k

and the invariant is: at every position, no later partner has a smaller one. It is restored when it is
violated by the factor `alpha`; a smaller difference is noise.

>>> known = ((None, 0.5, 0.01),) * 3
>>> Selectivity().order(0, Turn((1, 1, 1), (9, 9, 9), selectivity=known))
(2, 1)
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

from braided.policies.arrays import Floats, Int64s
from braided.policies.decisions import Turn


@dataclass(frozen=True)
class ProbeOrderPolicy:
    """Chooses the order in which a driver stream's rows probe the other streams: here as the query has it.

    `profile_rows` is how many of a buffer's rows to profile for it.
    """

    profile_rows: int = 0

    def order(self, driver: int, turn: Turn) -> tuple[int, ...]:
        """Return every stream but the driver, once."""
        return tuple(s for s in range(len(turn.stored_rows)) if s != driver)

    def fan_outs(self, driver: int, turn: Turn, order: Sequence[int]) -> list[float | None]:
        """Return the matches a row expected of each partner of the order; None where they did not matter."""
        return [None for _ in order]


@dataclass(frozen=True)
class Selectivity(ProbeOrderPolicy):
    """Smallest expected fan-out first."""

    def order(self, driver: int, turn: Turn) -> tuple[int, ...]:
        """Return every stream but the driver, by expected fan-out, then by stored rows."""

        def expected(partner: int) -> tuple[float, int, int]:
            fan_out = turn.fan_out(driver, partner)
            return 1.0 if fan_out is None else fan_out, turn.stored_rows[partner], partner

        return tuple(sorted(super().order(driver, turn), key=expected))

    def fan_outs(self, driver: int, turn: Turn, order: Sequence[int]) -> list[float | None]:
        """Return what the order was chosen by."""
        return [turn.fan_out(driver, partner) for partner in order]


@dataclass(frozen=True)
class AGreedy(ProbeOrderPolicy):
    """Smallest fan-out given what was chosen before."""

    profile_rows: int = 256
    alpha: float = 1.05

    def order(self, driver: int, turn: Turn) -> tuple[int, ...]:
        """Return the last order where it still holds; choose again from the first violation on."""
        left, profile = list(turn.order or super().order(driver, turn)), turn.profile
        if profile is None:
            return tuple(left)
        weights = np.ones(len(profile))
        chosen: list[int] = []
        while left and weights.any():  # where nothing comes so far, the rest does not matter
            fan_out = {p: _mean(profile[:, p], weights) for p in left}
            best = min(left, key=lambda p: fan_out[p])
            taken = best if fan_out[left[0]] > self.alpha * fan_out[best] else left[0]
            chosen.append(taken)
            left.remove(taken)
            weights = weights * profile[:, taken]
        return (*chosen, *left)

    def fan_outs(self, driver: int, turn: Turn, order: Sequence[int]) -> list[float | None]:
        """Return those in the profile, given the partners before."""
        if turn.profile is None:
            return super().fan_outs(driver, turn, order)
        matches = turn.profile[:, list(order)].T
        so_far = [matches[:n].prod(axis=0, dtype=np.float64) for n in range(len(order))]
        return [_mean(m, w) if w.any() else None for m, w in zip(matches, so_far, strict=True)]


def _mean(matches: Int64s, weights: Floats) -> float:
    """Return the matches of the rows that come so far, as often as they do."""
    return float(weights @ matches) / float(weights.sum())


PROBE_ORDER_POLICIES: dict[str, type[ProbeOrderPolicy]] = {
    "fixed": ProbeOrderPolicy,
    "selectivity": Selectivity,
    "a-greedy": AGreedy,
}
