"""Rationed probes: what may probe in a batch, over all operators of a plan (jaqpot).

Before a batch every operator says what it knows. The allocation that holds (`adaptation`) is fitted to the
batch's rows, and each operator lets as many rows probe as its half-joins are allowed. What a batch takes too
much, because more matched than expected, is taken off the next.

The budget is given, or follows from a target batch time (`pacing`): then each batch's measured time is
committed with it, and decides the budget of the next.

Exact again
-----------
All rows are stored, whatever they may probe. So in a flat plan every combination whose last row comes after a
rationed batch is found. In a tree the intermediate rows that were not made then are lacking, until

- the watermark has passed them: none can be newer than the newest time seen then, nor outlive the shortest
  retention of its components from there; or
- budget that later batches have to spare has made them again, from the stored rows of the streams.

Then the join is exact again, for every combination whose last row comes from there on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braided.engine.features import Host
from braided.engine.fields import load_fields, save_fields
from braided.engine.operators.tree import Arriving
from braided.engine.overload.adaptation import Adaptation
from braided.engine.overload.freshening import Freshening
from braided.engine.site import Share
from braided.policies import pacing
from braided.policies.allocation.question import Question
from braided.policies.decisions import Rations, Turn
from braided.policies.flow import predict
from braided.policies.pacing import Measured, Pace
from braided.policies.rationing import Known, model_of, rations_of
from braided.policies.statistics import RationingStatistics
from braided.query.durations import to_us
from braided.query.plan_tree import HalfJoin, Plan, intermediates, label, leaves, operators

_LEFT = 0.05  # of a budget, that a batch may leave to the next
_SAVED = ("credit", "exact_since", "spare", "lost", "too_old")


class Rationing:
    """Applies a query's budget of probes."""

    def __init__(self, host: Host) -> None:
        self._host, self._query = host, host.query
        query, overload = host.query, host.query.overload
        self.limited = overload is not None and overload.rations
        self._probes = overload.probes if overload is not None else None
        target = overload.target_batch if overload is not None else None
        self._target_seconds = None if target is None else to_us(target) / 1e6
        self._windows = {node: float(rows) for node, rows in host.site.state_windows.items()}
        policy = overload.allocation if overload is not None and self.limited else "jaqpot"
        self.adaptation = Adaptation(policy, wait=host.site.repeatable)
        bounds = {s.name: us for s in query.streams if (us := s.freshness_us) is not None}
        self._freshening = Freshening(bounds if self._windows else {})
        self.too_old = ""  # why bounds on age cannot be kept
        self.pace = Pace()
        self.credit = 0.0
        self.exact_since: int | None = 0  # the batch from which on nothing is missing
        self.lacking: dict[Plan, int] = {}  # intermediates that lack rows, and until when
        self.spare = 0.0
        self._share = Share(0, 0, 0)  # nothing is known of it yet
        self._cores = 1
        self._budget: float | None = None
        self._known: Mapping[tuple[Plan, ...], Known] = {}
        self._allowances: Mapping[HalfJoin, float] | None = None
        self._rationed: set[Plan] = set()
        self.lost = self._lost_now = 0.0

    # a batch

    def share(self, share: Share, cores: int = 1) -> None:
        """A batch is judged: these are this engine's rows of it, and `cores` engines run at a time."""
        self._share, self._cores = share, cores

    def begin(self, arriving: Arriving) -> None:
        """A batch begins: fit the allocation to it."""
        self._rationed, self._allowances, self._lost_now = set(), None, 0.0
        if not self.limited or not any(rows for rows in arriving.values()):
            return
        self._budget = self._budget_now()
        if self._budget is None:
            return
        self._known = known = self._host.tree.foreseen(arriving)
        model = model_of(self._query.tree, known, self._windows)
        budget = max(0.0, self._budget + self.credit)
        bounds = self._freshening.bounds()
        self.adaptation.begin(self._host.batches, Question(model, budget, bounds, settle=not self._windows))
        self._allowances = self.adaptation.allowances(model, budget)
        full = predict(model)
        self._lost_now = full.output - predict(model, self._allowances).output
        self.spare += max(0.0, budget - full.spent)

    def rations(self, operator: tuple[Plan, ...], turn: Turn) -> Rations | None:
        """Who may probe in an operator, now that its inputs' rows are counted; None: all."""
        if self._allowances is None:
            return None
        now = Known(turn, self._known[operator].orders)
        rations = rations_of(operator, now, self._allowances)
        if any(min(s) < 1 for i, s in rations.shares.items() if turn.waiting_rows[i]):
            self._rationed.add(operator)
        return rations

    def end(self, probes: int, clock_us: int) -> None:
        """A batch is done, with this many probes; `clock_us` is the newest time seen."""
        if self._budget is not None and self._allowances is not None:
            left = self.credit + self._budget - probes
            saved = 0.0 if self._target_seconds is not None else _LEFT * self._budget
            self.credit = float(min(saved, max(-self._budget, left)))
            self.adaptation.collect(self._host.batches)
            self._freshening.batch_done(clock_us)
            if self.adaptation.freshness is not None:  # there was an analysis since the state was loaded
                self.too_old = self._freshening.problem(self.adaptation.freshness)
        if self._rationed:
            self.exact_since = None
            self.lost += self._lost_now
            self.spare = 0.0
            for node in intermediates(self._query.tree):
                if not self._rationed.isdisjoint(operators(node)):
                    self.lacking[node] = clock_us + self._lasting_us(node)
        elif self.exact_since is None and not self.lacking:
            self.exact_since = self._host.batches
        self._allowances = None

    def catch_up(self) -> bool:
        """Between batches: forget what is lacking no more; make it again if there is budget to spare.

        Whether it was made again.
        """
        tree, watermark_us = self._host.tree, self._host.watermark.us
        self.lacking = {node: until for node, until in self.lacking.items() if until >= watermark_us}
        if not self.lacking:
            return False
        cost = sum(tree.rebuild_probes(node) for node in self.lacking)
        if self.limited and self.spare < cost:
            return False
        tree.rebuild(self._host.floors_us, self.lacking)
        self.lacking = {}
        self.spare = 0.0
        return True

    def measured(self, seconds_batch: float, seconds_probing: float, probes: int, ahead: float = 0.0) -> None:
        """How long the latest batch took, as far as it is known when it is committed."""
        if self._target_seconds is not None:
            found = Measured(seconds_batch, seconds_probing, probes, self._share.total, ahead)
            self.pace = pacing.after(self.pace, found)

    # from and to a checkpoint, and what is shown

    def save(self) -> dict[str, Any]:
        """As plain numbers, for a checkpoint."""
        return {
            **save_fields(self, _SAVED),
            "adaptation": self.adaptation.save() if self.limited else {},
            "pace": self.pace.kept(),
            "lacking": {label(node): until for node, until in self.lacking.items()},
            "freshening": save_fields(self._freshening, Freshening.saved),
        }

    def load(self, saved: Mapping[str, Any], *, same_plan: bool = True) -> None:
        """Go on from saved numbers.

        With another plan all intermediates have been made again, so nothing is lacking.
        """
        load_fields(self, _SAVED, saved)
        if self.limited and same_plan and saved["adaptation"]:
            self.adaptation.load(saved["adaptation"], self._query.tree)
        self.pace = Pace.restored(saved["pace"])
        names = {label(node): node for node in intermediates(self._query.tree)} if same_plan else {}
        self.lacking = {names[n]: until for n, until in saved["lacking"].items() if n in names}
        load_fields(self._freshening, Freshening.saved, saved["freshening"])

    def statistics(self) -> RationingStatistics | None:
        """What is shown of it; None without a budget."""
        if not self.limited:
            return None
        allocation = self.adaptation.allocation
        spent = allocation.spent if allocation else 0.0
        return RationingStatistics(
            budget=None if self._budget is None else round(self._budget),
            freshness_share=allocation.freshness_spent / spent if allocation and spent else 0.0,
            results_lost=round(self.lost),
            reason=allocation.reason if allocation else "",
            adaptations=tuple(self.adaptation.records),
            problem=self.problem(),
        )

    def problem(self) -> str:
        """Why the budget cannot be what it should be, or does not suffice for freshness."""
        if self._target_seconds is None:
            return self.too_old
        slow = pacing.problem(self.pace, self._target_seconds, self._share.total)
        return "; ".join(said for said in (slow, self.too_old) if said)

    # parts of the above

    def _budget_now(self) -> float | None:
        """This engine's probes in this batch; None: no limit."""
        if self._target_seconds is None:
            return None if self._probes is None else float(self._own(self._probes))
        lanes = pacing.lanes(self._cores, self._share.total, self._share.rows)
        budget = pacing.budget(self.pace, self._target_seconds, self._share.total, lanes)
        return None if budget is None else float(self._own(budget))

    def _own(self, budget: int) -> int:
        """This engine's part of a budget: by its rows of the batch, unless others probe that have waited."""
        return self._host.site.part.of_budget(budget) if self._query.counts else self._share.of_budget(budget)

    def _lasting_us(self, node: Plan) -> int:
        """How long a row of an intermediate may be found after its newest time."""
        numbers = {name: i for i, name in enumerate(self._query.names)}
        return min(self._query.bounds.retention_us(numbers[s]) for s in leaves(node))
