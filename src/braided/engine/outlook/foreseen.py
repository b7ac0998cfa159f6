"""A query that has not run yet as a model: rates are given, sizes follow from windows, keys are assumed.

The model is the one that rationed probes decide by (`policies.plan_model`), in batches. What differs is where
its numbers come from: a running join has seen them.

- A stream's state holds the rows inside its window. Rows that only wait for the watermark are stored, too,
  and cost something to pass over, but join nothing.
- Of the stored rows a probe finds those with its key, one of `keys`, if all are as frequent. Of these it
  takes those inside the time bounds: all, unless `within` lets one stream look back less far than another.
- Where `keys` are not given, there are as many as the largest state has rows: a row finds one of it.
- Selectivities of pairs that the query gives (`Tuning.selectivities`) come before all that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from braided.engine.overload.forecast import retentions
from braided.engine.overload.freshening import Freshening
from braided.policies.choice import policies_for
from braided.policies.decisions import Turn
from braided.policies.plan_model import PlanModel, plan_model
from braided.query.explain.chapters import Outlook
from braided.query.explain.expected_state import ExpectedState
from braided.query.join_graph import Attribute
from braided.query.join_query import JoinQuery
from braided.query.plan_tree import HalfJoin, Plan, half_joins, intermediates, leaves, operators


@dataclass(frozen=True)
class Foreseen:
    """What is foreseen of a query at rates that are `factors` of the given ones (None: the same)."""

    outlook: Outlook
    factors: Mapping[str, float] | None = None

    @property
    def query(self) -> JoinQuery:
        """What is asked."""
        return self.outlook.state.query

    @property
    def batch_seconds(self) -> float:
        """How long a batch is."""
        return self.outlook.batch_us / 1e6

    @cached_property
    def state(self) -> ExpectedState:
        """The rows that streams hold."""
        state = self.outlook.state
        if self.factors is None:
            return state
        return state.at({name: rate * self.factors[name] for name, rate in state.rates.items()})

    @cached_property
    def stored(self) -> Mapping[str, float]:
        """The rows of each stream, inside windows or not."""
        return {e.stream: e.rows or 0.0 for e in self.state.streams}

    @cached_property
    def rates(self) -> Mapping[str, float]:
        """Rows a batch."""
        return {name: self.state.rates[name] * self.batch_seconds for name in self.query.names}

    @cached_property
    def keys(self) -> Mapping[Attribute, float]:
        """The different values of each attribute; assumed where they are not known."""
        if self.outlook.keys is not None:
            return self.outlook.keys
        rows = {e.stream: e.joinable for e in self.outlook.state.streams}
        several = self.query.on is not None
        return {
            a: max(1.0, *(rows[s] for s, _ in a)) if several or i == 0 else 1.0
            for i, a in enumerate(self.query.graph.attributes)
        }

    def with_known_keys(self) -> Outlook:
        """Return the same with keys that do not change with the rates."""
        return replace(self.outlook, keys=self.keys)

    @cached_property
    def exact(self) -> PlanModel:
        """The plan in numbers, if nothing is lost."""
        return self._model({}, {})

    @cached_property
    def model(self) -> PlanModel:
        """The plan in numbers, with the windows of intermediates."""
        overload = self.query.overload
        asked = {n: overload.rows_of(n) for n in intermediates(self.query.tree)} if overload else {}
        caps = {node: float(rows) for node, rows in asked.items() if rows is not None}
        return self._model(caps, self.freshening().limits()) if caps else self.exact

    def freshening(self) -> Freshening:
        """Bounds on age, in batches of this length; rows are new when they come."""
        bounds = {s.name: us for s in self.query.streams if (us := s.freshness_us) is not None}
        fresh = Freshening(self.query.names, bounds, retentions(self.query))
        fresh.step_us = float(self.outlook.batch_us)
        return fresh

    def share(self, half_join: HalfJoin) -> float:
        """Return the part of stored rows that have a probing row's key."""
        graph = self.query.graph
        both = (a for a in self.keys if graph.has(a, half_join.driver) and graph.has(a, half_join.probed))
        return math.prod(1 / self.keys[a] for a in both)

    def _model(self, caps: Mapping[Plan, float], limits: Mapping[str, float]) -> PlanModel:
        sizes: dict[Plan, float] = {e.stream: e.joinable for e in self.state.streams}
        found: dict[Plan | HalfJoin, float] = {}
        for operator in operators(self.query.tree):
            found.update(self._selectivities(operator))
        plan = self.query.tree
        draft = plan_model(plan, self.rates, sizes=sizes, selectivity=found, caps=caps, limits=limits)
        orders = {child: order for op in draft.operators for child, order in self._orders(op, draft).items()}
        return plan_model(
            plan, self.rates, sizes=sizes, selectivity=found, orders=orders, caps=caps, limits=limits
        )

    def _selectivities(self, operator: tuple[Plan, ...]) -> dict[Plan | HalfJoin, float]:
        """The share of pairs that match, of each half-join of an operator."""
        given = policies_for(self.query, operator=operator).given
        groups = [[self.query.names.index(name) for name in leaves(child)] for child in operator]
        bounds_us = self.query.bounds.between(groups).matrix
        found: dict[Plan | HalfJoin, float] = {}
        for half_join in half_joins(operator):
            if half_join.driver in operator and half_join.probed in operator:
                i, j = operator.index(half_join.driver), operator.index(half_join.probed)
                found[half_join] = given.get(
                    (i, j), self.share(half_join) * self._inside(operator[j], bounds_us[j][i])
                )
        return found

    def _inside(self, probed: Plan, bound_us: int) -> float:
        """The part of a state that is new enough for a probe."""
        if not isinstance(probed, str):
            return 1.0
        stay_us = self.query.stay_us(self.query.streams[self.query.names.index(probed)])
        return min(1.0, max(0, bound_us) / stay_us) if stay_us else 1.0

    def _orders(self, operator: tuple[Plan, ...], draft: PlanModel) -> dict[Plan, tuple[Plan, ...]]:
        """In which order each input's rows probe the others, by the query's own policy."""
        policy, numbers = policies_for(self.query, operator=operator).probe_order, range(len(operator))
        seen = tuple(
            tuple(
                None if i == j else draft.selectivities[HalfJoin(operator[i], operator[j])] for j in numbers
            )
            for i in numbers
        )
        turn = Turn((0,) * len(operator), tuple(round(draft.sizes[c]) for c in operator), selectivity=seen)
        return {operator[i]: tuple(operator[j] for j in policy.order(i, turn)) for i in numbers}


def unknown(outlook: Outlook) -> str:
    """Why nothing can be foreseen; empty if it can."""
    hidden = next((e for e in outlook.state.streams if e.rows is None), None)
    return "" if hidden is None else f"{hidden.stream}: {hidden.why}"
