"""A plan in numbers: rates, state sizes and selectivities, and what follows for half-joins and input paths.

A model is a frozen value. Its unit of time is the caller's (a second, a batch); rates and budgets are per
that unit, windows and freshness bounds are in it.

| paper (jaqpot, Table 1, section 4.1) | here |
| --- | --- |
| lambda_i, lambda of an intermediate | `rates[stream]`, `Flow.arrivals[node]` (see `flow`) |
| abs(S_I) | `sizes[node]` |
| sigma_J of i probing S_J | `selectivities[HalfJoin(i, J)]` |
| rho_h(i, S_J) (Eq. 3) | `productivity(half_join)` |
| Path^I (Definition 3) | `path(stream)`, a `Path` |
| phi_j^I (Eq. 5) | `Path.phi[j]`, with phi[0] = 1 |
| X^I (Eq. 6), X_j^I (Eq. 7) for one row | `Path.cost`, `Path.phi[j]` |
| rho_p (Eq. 8) | `Path.productivity` |
| path productivity table (Table 2) | `PlanModel.paths`, `Path.full_cost`, `Path.output` |

*Wide operators.* A row of one input probes the others one by one, in that input's probe order (`orders`),
so an operator of n inputs adds n - 1 half-joins to a path. Only complete combinations are stored: what lies
between two half-joins of one operator is not state. An operator's selectivity holds for each of its
half-joins.

*Sizes.* A leaf's state is rate x window (Appendix A), or given. An intermediate's is given (as in the paper),
or derived as rows that expire with their first expiring component: an input whose rows stay
for T_c on average loses rows at a rate 1/T_c, a combination is lost as soon as one of its parts is, so it
stays for T = 1 / sum(1/T_c), and the state holds (rows produced per unit of time) x T (Little's law). With
two streams that is sigma lambda_a lambda_b (T_a + T_b) x T_a T_b / (T_a + T_b) = sigma abs(S_a) abs(S_b):
just the matching pairs of live rows, as it must be.

*Windows of intermediates* (`caps`): the state holds its newest rows, at most so many, and none with a row
that may not be found any more: `limits` says after what age that is (a window, a bound on age). A row that
probes is as far from its limit as it was when it came in; one that is probed has been in its state for a
while, anything up to how long rows stay there. The lifetime is the mean, over all rows made, of the smaller.

>>> model = plan_model((("a", "b"), "c"), {"a": 500, "b": 700, "c": 300},
...     sizes={"a": 5000, "b": 500, "c": 1000, ("a", "b"): 200},
...     selectivity={("a", "b"): 0.001, (("a", "b"), "c"): 0.005})
>>> [model.productivity(h) for h in model.half_joins]
[0.5, 5.0, 5.0, 1.0]
>>> path = model.path("b")
>>> [str(h) for h in path.half_joins], path.phi, round(path.productivity, 4)
(['b>a', '(a b)>c'], (1.0, 5.0, 25.0), 4.1667)
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

from braided.query import plan_tree
from braided.query.plan_tree import HalfJoin, Orders, Plan

K = TypeVar("K")
V = TypeVar("V")


def frozen(values: Mapping[K, V]) -> Mapping[K, V]:
    """A read-only copy."""
    return MappingProxyType(dict(values))


@dataclass(frozen=True)
class Path:
    """What a row of one stream goes through from its leaf to the root, with its intermediates.

    `phi[j]` rows come out of the j-th half-join for each row of the stream; `entry[state]` says at which of
    them the rows enter each of the stream's own states.
    """

    stream: str
    rate: float
    half_joins: tuple[HalfJoin, ...]
    phi: tuple[float, ...]
    entry: Mapping[Plan, float]

    @cached_property
    def cost(self) -> float:
        """Return the probes per row of the stream if everything it produces probes on."""
        return math.fsum(self.phi[:-1])

    @property
    def output(self) -> float:
        """Results for each row of the stream."""
        return self.phi[-1]

    @cached_property
    def productivity(self) -> float:
        """Results per probe (Eq. 8)."""
        return self.output / self.cost

    @property
    def full_cost(self) -> float:
        """Probes per unit of time if all the stream's rows may probe."""
        return self.rate * self.cost


@dataclass(frozen=True)
class PlanModel:
    """A plan with its numbers; build it with `plan_model`.

    `lifetimes` says how long a row stays in each state on average. `settles` are the intermediates whose size
    follows from what is produced, up to their `caps`; the others keep the size that was given, however slowly
    they are refilled. `limits` are the ages up to which rows of streams may be found, if given. `assumed` are
    the half-joins of whose selectivity nothing is known.
    """

    plan: Plan
    rates: Mapping[str, float]
    sizes: Mapping[Plan, float]
    selectivities: Mapping[HalfJoin, float]
    orders: Orders
    lifetimes: Mapping[Plan, float]
    settles: frozenset[Plan]
    caps: Mapping[Plan, float] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    assumed: frozenset[HalfJoin] = frozenset()

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """The leaves, from left to right."""
        return plan_tree.leaves(self.plan)

    @cached_property
    def operators(self) -> tuple[tuple[Plan, ...], ...]:
        """Producers before consumers; the root is the last."""
        return plan_tree.operators(self.plan)

    @cached_property
    def intermediates(self) -> tuple[Plan, ...]:
        """The states that are fed by operators."""
        return plan_tree.intermediates(self.plan)

    @cached_property
    def half_joins(self) -> tuple[HalfJoin, ...]:
        """Producers before consumers, each input's in its probe order."""
        return plan_tree.half_joins(self.plan, self.orders)

    @cached_property
    def given(self) -> frozenset[Plan]:
        """The intermediates whose sizes were given, and do not follow from the rest."""
        return frozenset(self.intermediates) - self.settles - self.caps.keys()

    def directions(self, operator: Plan) -> tuple[tuple[HalfJoin, ...], ...]:
        """An operator's half-joins, one sequence for each of its inputs."""
        children = () if isinstance(operator, str) else operator
        return tuple(tuple(HalfJoin(c, probed) for probed in self.orders[c]) for c in children)

    def productivity(self, half_join: HalfJoin) -> float:
        """Matches per probing row (Eq. 3)."""
        return self.selectivities[half_join] * self.sizes[half_join.probed]

    def selectivity(self, operator: Plan) -> float:
        """One number for an operator: the mean over its half-joins."""
        all_ = [self.selectivities[h] for direction in self.directions(operator) for h in direction]
        return math.fsum(all_) / len(all_)

    def phi(self, half_joins: Iterable[HalfJoin]) -> tuple[float, ...]:
        """Rows after none, one, two ... of these half-joins for each row before them (Eq. 5)."""
        return tuple(itertools.accumulate(map(self.productivity, half_joins), operator.mul, initial=1.0))

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The path table: one path for each stream."""
        return tuple(self._path(stream) for stream in self.streams)

    def path(self, stream: str) -> Path:
        """One stream's path."""
        return self.paths[self.streams.index(stream)]

    def _path(self, stream: str) -> Path:
        own = plan_tree.ascent(self.plan, stream)
        sequence = tuple(HalfJoin(node, probed) for node in own for probed in self.orders[node])
        phi = self.phi(sequence)
        starts = itertools.accumulate((len(self.orders[node]) for node in own), initial=0)
        entry = {node: phi[start] for node, start in zip(own, starts, strict=False)}
        return Path(stream, self.rates[stream], sequence, phi, frozen(entry))


def plan_model(
    plan: Plan,
    rates: Mapping[str, float],
    *,
    windows: Mapping[str, float] | None = None,
    sizes: Mapping[Plan, float] | None = None,
    selectivity: Mapping[Plan | HalfJoin, float],
    orders: Orders | None = None,
    caps: Mapping[Plan, float] | None = None,
    limits: Mapping[str, float] | None = None,
) -> PlanModel:
    """Build a model from what is known.

    `sizes` are rows in states, of leaves or intermediates; a leaf without one needs its window. `caps` are
    the most rows that intermediates hold, `limits` the ages up to which rows may be found (none: any age).
    `selectivity` is given for operators, for half-joins, or both (the half-join's own comes first).
    `orders` may name only some inputs; the others probe in the plan's order.
    """
    usual = plan_tree.plain_orders(plan)
    all_orders = {**usual, **(orders or {})}
    assert all(set(all_orders[c]) == set(others) for c, others in usual.items()), "an input probes all others"
    own_rates = {name: float(rates[name]) for name in plan_tree.leaves(plan)}
    given: dict[Plan, float] = dict(sizes or {})
    for name in own_rates.keys() - given.keys():
        given[name] = own_rates[name] * (windows or {})[name] if own_rates[name] else 0.0
    of_operator = {child: node for node in plan_tree.operators(plan) for child in node}
    known = {
        h: float(selectivity[h if h in selectivity else of_operator[h.driver]])
        for h in plan_tree.half_joins(plan, all_orders)
    }
    numbers = (*own_rates.values(), *given.values(), *known.values())
    assert all(0 <= n < math.inf for n in numbers), "rates, sizes, selectivities are finite and not negative"
    caps, limits = caps or {}, limits or {}
    held, lifetimes = _states(plan, own_rates, given, known, all_orders, _Caps(caps, limits))
    settles = frozenset(
        n
        for n in plan_tree.intermediates(plan)
        if n not in given and (n not in caps or math.isfinite(lifetimes[n]))
    )
    return PlanModel(
        plan, frozen(own_rates), frozen(held), frozen(known), frozen(all_orders), frozen(lifetimes), settles,
        frozen(caps), frozen(limits),
    )  # fmt: skip


class _Caps:
    """How long rows live in states that hold at most so many, producers before consumers."""

    def __init__(self, caps: Mapping[Plan, float], limits: Mapping[str, float]) -> None:
        self.caps, self._limits = caps, limits
        self._left: dict[Plan, float] = {}  # how far from their limits rows come into a state
        self._stay: dict[Plan, float] = {}  # how long they stay there

    def entered(self, node: Plan, rows: float, rate: float) -> None:
        """So many rows are in a state, at this rate; of a stream, or of a node whose lifetime is known."""
        if isinstance(node, str):
            self._left[node] = self._limits.get(node, math.inf)
        self._stay[node] = min(self._left[node], _ratio(rows, rate))

    def lifetime(self, driver: Plan, order: Sequence[Plan]) -> float:
        """How long rows live that one input's rows make, if all probe."""
        left = self._left[driver]
        for partner in order:
            most = self._left[partner]
            least = most - self._stay[partner] if math.isfinite(most) else math.inf
            if left > most:
                left = (least + most) / 2
            elif left > least:
                left -= (left - least) ** 2 / (2 * (most - least))
        return left

    def learn(self, node: Plan, lifetime: float) -> None:
        """Rows of a node live for so long on average."""
        self._left[node] = lifetime


def _states(
    plan: Plan,
    rates: Mapping[str, float],
    given: Mapping[Plan, float],
    selectivities: Mapping[HalfJoin, float],
    orders: Orders,
    capped: _Caps,
) -> tuple[dict[Plan, float], dict[Plan, float]]:
    """Return the rows in each state and how long they stay, producers before consumers (see above)."""
    arrivals: dict[Plan, float] = dict(rates.items())
    sizes: dict[Plan, float] = {name: float(given[name]) for name in rates}
    lifetimes: dict[Plan, float] = {name: _ratio(sizes[name], rates[name]) for name in rates}
    for name in rates:
        capped.entered(name, sizes[name], rates[name])
    for node in plan_tree.intermediates(plan):
        per_row = [math.prod(selectivities[HalfJoin(c, p)] * sizes[p] for p in orders[c]) for c in node]
        made = [arrivals[c] * rows for c, rows in zip(node, per_row, strict=True)]
        arrivals[node] = math.fsum(made)
        if node in given:
            sizes[node] = float(given[node])
            lifetimes[node] = _ratio(sizes[node], arrivals[node])
        elif node in capped.caps:
            lives = [capped.lifetime(c, orders[c]) for c in node]
            total = math.fsum(rows * life for rows, life in zip(made, lives, strict=True) if rows)
            lifetimes[node] = total / arrivals[node] if arrivals[node] else min(lives)
            most = float(capped.caps[node])
            sizes[node] = min(most, total) if math.isfinite(lifetimes[node]) else most
        else:
            lifetimes[node] = _shared([lifetimes[child] for child in node])
            if math.isinf(lifetimes[node]) and arrivals[node]:  # of children it is known how long rows stay
                lifetimes[node] = _shared([_ratio(sizes[child], arrivals[child]) for child in node])
            sizes[node] = arrivals[node] * lifetimes[node] if arrivals[node] else 0.0
        capped.learn(node, lifetimes[node])
        capped.entered(node, sizes[node], arrivals[node])
    return sizes, lifetimes


def _shared(lifetimes: Sequence[float]) -> float:
    """How long rows live that go with the first of their components."""
    return _ratio(1.0, math.fsum(_ratio(1.0, lifetime) for lifetime in lifetimes))


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0 else math.inf
