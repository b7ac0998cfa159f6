"""How a side's index is chosen: fixed by the query, or the cheaper one by measured costs (window-join, 4.1).

*Auto* estimates before every batch what each index will cost for it. What the present one costs more adds up
to a *regret*, what it costs less takes from it, down to nothing. Once the regret exceeds the price of a
change (linking every stored row), the side changes. So a load that wavers around the crossover changes
nothing, and one large batch is enough to change at once.

>>> few_keys = Load(1e6, 1e4, rows=100, hops=50, hits=50)
>>> hashed = Choice(scanned=False)
>>> [IndexPolicy(hashed, costs).choose(few_keys, hashed).scanned for costs in (None, Costs())]
[False, True]
"""

from __future__ import annotations

from dataclasses import dataclass

from braided.policies.index_cost import Costs, Load, hash_ns, scan_ns

_CHANGE_NS = 5_000.0  # a change costs something even if nothing is stored


@dataclass(frozen=True)
class Choice:
    """A side's index, and what it has cost more than the other one since it was chosen."""

    scanned: bool
    regret_ns: float = 0.0


@dataclass(frozen=True)
class IndexPolicy:
    """Chooses a side's index, once a batch: always `start`, or from there on by regret if costs are given."""

    start: Choice
    costs: Costs | None = None

    def choose(self, load: Load, now: Choice, stored_rows: int = 0) -> Choice:
        """Return the index for a batch that brings this load."""
        if self.costs is None:
            return self.start
        dearer = hash_ns(load, self.costs) - scan_ns(load, self.costs)
        regret = max(0.0, now.regret_ns + (-dearer if now.scanned else dearer))
        if regret > _CHANGE_NS + stored_rows * self.costs.insert:
            return Choice(not now.scanned)
        return Choice(now.scanned, regret)
