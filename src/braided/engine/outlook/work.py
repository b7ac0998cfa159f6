"""What a batch costs: the work of each direction, the index that is cheaper, and when one core has enough.

A *direction* is one input of an operator: its rows probe the other inputs, one after the other, and are found
by theirs. Looking rows up is what the cost model of indexes says (`policies.index_cost`; window-join, section
4.1), storing them and making results what was measured around it (`around`).

The cheaper index of a side is the one that `Tuning(index="auto")` ends up with: it hears the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from braided.engine.kernels.probe import BLOCK_ROWS
from braided.engine.outlook.around import Around
from braided.engine.outlook.foreseen import Foreseen
from braided.policies.choice import policies_for
from braided.policies.flow import Flow, predict
from braided.policies.index_cost import Costs, Load, hash_ns, load_of, scan_ns
from braided.policies.pacing import Pace
from braided.policies.plan_model import PlanModel
from braided.query.bounds import INFINITE_US
from braided.query.plan_tree import HalfJoin, Plan, leaves

_MOST = 1e9  # times the rates that are tried
_NEAR = 1e-3


@dataclass(frozen=True)
class Direction:
    """One input's rows in a batch: what they probe, find and cost, and how they themselves are looked up."""

    node: Plan
    probed: tuple[Plan, ...]
    rows: float
    probes: float
    found: float
    ns: float
    scanned: bool


@dataclass(frozen=True)
class Work:
    """The work of a batch in which every row probes."""

    foreseen: Foreseen
    costs: Costs
    around: Around

    @cached_property
    def model(self) -> PlanModel:
        """The plan in numbers."""
        return self.foreseen.exact

    @cached_property
    def flow(self) -> Flow:
        """What flows if every row probes."""
        return predict(self.model)

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """Producers before consumers."""
        return tuple(self._direction(child) for op in self.model.operators for child in op)

    @property
    def batch_ns(self) -> float:
        """What a batch costs whatever comes: a part for each operator."""
        return self.around.batch * len(self.model.operators)

    @property
    def rows_ns(self) -> float:
        """What it costs to take rows in and to store them."""
        inserts = sum(0.0 if d.scanned else d.rows * self.costs.insert for d in self.directions)
        return inserts + self.around.row * math.fsum(self.model.rates.values())

    @property
    def made_ns(self) -> float:
        """What it costs to make results, and intermediate rows."""
        made = math.fsum(self.flow.arrivals[op] for op in self.model.operators)
        return self.around.result * made

    @property
    def probing_ns(self) -> float:
        """What it costs to look rows up."""
        return math.fsum(d.ns for d in self.directions)

    @property
    def ns(self) -> float:
        """All of it."""
        return self.batch_ns + self.rows_ns + self.made_ns + self.probing_ns

    def at(self, factor: float) -> Work:
        """Return the work at this many times the rates."""
        factors = dict.fromkeys(self.foreseen.query.names, factor)
        return replace(self, foreseen=Foreseen(self.foreseen.with_known_keys(), factors))

    @property
    def pace(self) -> Pace:
        """The same as a join that has run knows it, to find its budget by (`policies.pacing`)."""
        rows = math.fsum(self.model.rates.values())
        a_probe = (self.probing_ns + self.made_ns) / self.flow.spent if self.flow.spent else 0.0
        a_row = self.rows_ns / rows if rows else 0.0
        return Pace(2, self.batch_ns / 1e9, a_row / 1e9, a_probe / 1e9, rows, self.flow.spent)

    def _direction(self, child: Plan) -> Direction:
        half_joins = [HalfJoin(child, probed) for probed in self.model.orders[child]]
        probes = [self.flow.probes[h] for h in half_joins]
        ns = math.fsum(self._sides[h.probed].a_probe_ns * n for h, n in zip(half_joins, probes, strict=True))
        found = probes[-1] * self.model.productivity(half_joins[-1])
        own = self._sides[child]
        rows = self.flow.arrivals[child]
        return Direction(child, self.model.orders[child], rows, math.fsum(probes), found, ns, own.scanned)

    @cached_property
    def _sides(self) -> dict[Plan, _Side]:
        return {child: self._side(op, child) for op in self.model.operators for child in op}

    def _side(self, operator: tuple[Plan, ...], node: Plan) -> _Side:
        """One side under the load that all who probe it bring."""
        probing = {h: n for h, n in self.flow.probes.items() if h.probed == node}
        probes = math.fsum(probing.values())
        shares = math.fsum(n * self.foreseen.share(h) for h, n in probing.items())
        stored = self.foreseen.stored[node] if isinstance(node, str) else self.model.sizes[node]
        load = load_of(
            probes,
            self.flow.arrivals[node],
            stored=stored,
            inside=stored * self._part_inside(operator, node),
            share=shares / probes if probes else 0.0,
            blocks=max(1.0, probes / BLOCK_ROWS),
        )
        policy = policies_for(self.foreseen.query, lambda: self.costs, operator).index(operator.index(node))
        cheaper = scan_ns(load, self.costs) < hash_ns(load, self.costs)
        scanned = policy.start.scanned if policy.costs is None else cheaper
        return _Side(load, scanned, self.costs)

    def _part_inside(self, operator: tuple[Plan, ...], node: Plan) -> float:
        """The part of a side that lies inside the time bounds of a probe, older or newer."""
        names = self.foreseen.query.names
        groups = [[names.index(name) for name in leaves(child)] for child in operator]
        bounds_us = self.foreseen.query.bounds.between(groups).matrix
        at = operator.index(node)
        reach_us = max(bounds_us[at][i] + bounds_us[i][at] for i in range(len(operator)) if i != at)
        span_us = self._stays(node) * self.foreseen.outlook.batch_us
        return 1.0 if reach_us >= INFINITE_US or math.isinf(span_us) else min(1.0, max(0, reach_us) / span_us)

    def _stays(self, node: Plan) -> float:
        """How many batches rows of a stream are stored; of intermediates all may be inside."""
        if not isinstance(node, str) or not self.model.rates[node] or not self.foreseen.stored[node]:
            return math.inf
        return self.foreseen.stored[node] / self.model.rates[node]


@dataclass(frozen=True)
class _Side:
    """A side under a load: which index it has."""

    load: Load
    scanned: bool
    costs: Costs

    @property
    def a_probe_ns(self) -> float:
        """What a probe of it costs; linking rows is not part of that."""
        if not self.load.probes:
            return 0.0
        ns = scan_ns(self.load, self.costs) if self.scanned else hash_ns(self.load, self.costs)
        linked = 0.0 if self.scanned else self.load.inserts * self.costs.insert
        return (ns - linked) / self.load.probes


def most_times(work: Work, seconds: float) -> float:
    """Return at how many times the rates a batch costs this long; infinite if no rates do."""
    low, high = 0.0, 1.0
    while work.at(high).ns < 1e9 * seconds:
        low, high = high, 2 * high
        if high > _MOST:
            return math.inf
    while high - low > _NEAR * high:
        middle = (low + high) / 2
        low, high = (middle, high) if work.at(middle).ns < 1e9 * seconds else (low, middle)
    return low
