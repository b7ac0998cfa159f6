"""Flushing by what will really come: how far from it is a policy that has to guess?

What a flush loses are the results of rows that leave memory with rows to come, as far as the rows of all
others stay. By key it is known how many rows an input has in memory, and how many come until the end. A group
is worth these results for its rows, and for the intermediate rows of it that operators above hold. It is
greedy, and others will be flushed, too: so this is a yardstick and not an optimum.

Only for plans that join one source after the other by one key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from braided.engine.kernels import hashing
from braided.engine.sides.groups import group_of, in_groups
from braided.policies.arrays import Int64s
from braided.policies.flush.adaptive_global import lowest_first, score
from braided.policies.flush.question import ChooseFlush, Flush, Groups
from braided.query.plan_tree import Plan
from braided_lab.early_arrivals import KEY, Floats, Source
from braided_lab.early_measure import PacedSpilling


def hindsight(sources: Mapping[str, Source]) -> Callable[[PacedSpilling], ChooseFlush]:
    """Choose by the rows of these sources that have not come yet."""
    return lambda spilling: _Hindsight(sources, spilling).choose


class _Hindsight:
    """What is to come of each key."""

    def __init__(self, sources: Mapping[str, Source], spilling: PacedSpilling) -> None:
        self._keys = {name: s.rows.column(KEY).to_numpy() for name, s in sources.items()}
        self._size = 1 + max(int(keys.max(initial=0)) for keys in self._keys.values())
        hashes = hashing.hash_words(np.arange(self._size, dtype=np.int64))
        self._order = np.argsort(hashes)
        self._sorted = hashes[self._order]
        self._groups = group_of(hashes, spilling.disk.bits)
        self._spilling = spilling

    def choose(self, plan: Sequence[Groups], wanted_bytes: float) -> list[Flush]:
        """The groups that lose the fewest results for their rows."""
        found = zip(plan, self._lost(), strict=True)
        return lowest_first(plan, wanted_bytes, [score(lost, g.rows, g.downstream) for g, lost in found])

    def _lost(self) -> list[Floats]:
        """By operator, the results that each group loses if it is flushed."""
        operators, lost = self._spilling.tree.operators, list[Floats]()
        stored = [[self._in_memory(child) for child in o.node] for o in operators]
        coming = {name: self._to_come(name) for name in self._keys}
        left_new = coming[str(operators[0].node[0])]
        for number, (operator, (left, right)) in enumerate(zip(operators, stored, strict=True)):
            right_new = coming[str(operator.node[1])]
            results = left * right_new + left_new * right
            for above, (_, partner) in zip(operators[number + 1 :], stored[number + 1 :], strict=True):
                results = results * (partner + coming[str(above.node[1])])
            groups = np.bincount(self._groups, weights=results, minlength=1 << self._spilling.disk.bits)
            lost.append(groups.astype(np.float64))
            left_new = (left + left_new) * (right + right_new) - left * right
        return lost

    def _in_memory(self, child: Plan) -> Floats:
        """Rows of an input in memory by key."""
        side = self._spilling.tree.sides.get(child)
        if side is None:
            return np.zeros(self._size)
        hashes: Int64s = in_groups(side, np.ones(1 << self._spilling.disk.bits, np.bool_)).hashes
        return self._by_key(self._order[np.searchsorted(self._sorted, hashes)])

    def _to_come(self, name: str) -> Floats:
        """Rows of a source by key that have not come yet."""
        return self._by_key(self._keys[name][self._spilling.came[name] :])

    def _by_key(self, keys: Int64s) -> Floats:
        return np.bincount(keys, minlength=self._size).astype(np.float64)
