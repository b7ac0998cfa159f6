"""From the names in `Tuning` to the policies that run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from braided.policies.decisions import DriverPolicy
from braided.policies.driver import DRIVER_POLICIES, InitialOutputSize
from braided.policies.index import Choice, IndexPolicy
from braided.policies.index_cost import Costs
from braided.policies.probe_order import PROBE_ORDER_POLICIES, ProbeOrderPolicy, Selectivity
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import Plan, label
from braided.query.tuning import Tuning


@dataclass(frozen=True)
class Policies:
    """The decisions an operator asks for; the seam where other policies plug in.

    `given` are the selectivities the user gave, by numbers of streams.
    """

    driver: DriverPolicy = field(default_factory=InitialOutputSize)
    probe_order: ProbeOrderPolicy = field(default_factory=Selectivity)
    given: dict[tuple[int, int], float] = field(default_factory=dict)
    indexes: tuple[IndexPolicy, ...] = ()  # one per stream; none means a hash for all
    seed: int = 0

    def index(self, stream: int) -> IndexPolicy:
        """How a stream's index is chosen."""
        return self.indexes[stream] if self.indexes else IndexPolicy(Choice(scanned=False))


def policies_for(
    query: JoinQuery, costs: Callable[[], Costs] = Costs, operator: tuple[Plan, ...] | None = None
) -> Policies:
    """The policies a query's tuning names, for one operator of its plan (of the flat plan: the only one).

    `costs` is asked for if an index is chosen by cost.
    """
    tuning, inputs = query.tuning, operator or query.names
    of_streams, of_pairs = _given(tuning, inputs)
    options: dict[str, Any] = {"given": of_streams} if tuning.driver_stream == "consumption-rate" else {}
    driver = DRIVER_POLICIES[tuning.driver_stream](**options)
    indexes = tuple(_index(query, child, costs) for child in inputs)
    return Policies(driver, PROBE_ORDER_POLICIES[tuning.probe_order](), of_pairs, indexes, tuning.seed)


def _index(query: JoinQuery, node: Plan, costs: Callable[[], Costs]) -> IndexPolicy:
    """A count window by key follows the chains of a hash; without a key there is nothing to hash.

    Intermediates have what all streams have, if it is one choice for all.
    """
    chosen = query.tuning.index_of(label(node))
    window = query.streams[query.names.index(node)].count_window if isinstance(node, str) else None
    counts_keys = window is not None and window.per == "key"
    if chosen == "auto" and not counts_keys and not query.keyless:
        return IndexPolicy(Choice(scanned=False), costs())  # begin with the index that is never far off
    return IndexPolicy(Choice(scanned=chosen == "scan" or query.keyless))


def _given(tuning: Tuning, inputs: Sequence[Plan]) -> tuple[tuple[float, ...], dict[tuple[int, int], float]]:
    """The user's selectivities: of all inputs or none, and of pairs, in both directions."""
    numbers = {name: i for i, name in enumerate(inputs)}  # others meet elsewhere, or in an intermediate
    own = [(names, value) for names, value in tuning.selectivities if numbers.keys() >= set(names)]
    of_streams = {numbers[names[0]]: value for names, value in own if len(names) == 1}
    of_pairs = {
        (numbers[a], numbers[b]): value for names, value in own for a, b in itertools.permutations(names, 2)
    }
    complete = len(of_streams) == len(inputs)
    return tuple(of_streams[i] for i in range(len(inputs))) if complete else (), of_pairs
