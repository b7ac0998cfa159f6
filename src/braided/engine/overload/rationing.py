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

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from braided.engine.features import Arrivals, Feature, Host, Step
from braided.engine.fields import load_fields, save_fields
from braided.engine.overload.adaptation import Adaptation, Thresholds
from braided.engine.overload.forecast import of_probes, of_rows_let_in, retentions
from braided.engine.overload.freshening import Freshening
from braided.engine.overload.state_windows import StateWindows
from braided.engine.site import Share
from braided.policies import pacing
from braided.policies.allocation.question import Question
from braided.policies.decisions import Rations, Turn
from braided.policies.flow import predict
from braided.policies.pacing import Measured, Pace
from braided.policies.rationing import Known, at_present, model_of, rations_of
from braided.policies.recorded import BY_ROWS
from braided.policies.statistics import RationingStatistics
from braided.query.durations import to_us
from braided.query.plan_tree import HalfJoin, Plan, intermediates, label, leaves, operators

_LEFT = 0.05  # of a budget, that a batch may leave to the next
_UNSEEN = 0.2  # of a target, for what is done with results after the engine is done with a batch
_SAVED = (
    "credit", "exact_since", "spare", "lost", "too_old", "needs", "refresh", "decided_part", "decided_rows",
)  # fmt: skip


class Rationing(Feature):
    """Applies a query's budget of probes."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        query, overload = host.query, host.query.overload
        self.limited = overload is not None and overload.rations
        self._probes = overload.probes if overload is not None else None
        target = overload.target_batch if overload is not None else None
        self._target_seconds = None if target is None else to_us(target) / 1e6
        self._drops_input = overload is not None and overload.drops_input
        self.entered_rows = 0  # rows that the latest batch let in
        self.windows = StateWindows(host)
        self.adaptation = Adaptation()
        if overload is not None and self.limited:
            thresholds = Thresholds(overload.epsilon, overload.p, overload.averaging)
            self.adaptation = Adaptation(overload.rule, thresholds)
        bounds = {s.name: us for s in query.streams if (us := s.freshness_us) is not None}
        windows = {s.name: w.rows for s in query.streams if (w := s.count_window) is not None}
        rows = {s.name: n for s in query.streams if (n := s.freshness_rows) is not None}
        self._freshening = Freshening(query.names, bounds, retentions(query), windows=windows, rows=rows)
        self.too_old = ""  # why bounds on age cannot be kept
        self.needs: int | None = None  # probes a batch that would keep them
        self.refresh: dict[str, float] = {}  # rows a batch that intermediates need so that they are
        self.pace = Pace()
        self.credit = 0.0
        self.exact_since: int | None = 0  # the batch from which on nothing is missing
        self.lacking: dict[Plan, int] = {}  # intermediates that lack rows, and until when
        self.spare = 0.0
        self.decided_part: float | None = None  # of all engines' probes
        self.decided_rows: int | None = None  # that all engines let in
        self._asked: Question | None = None
        self._share = Share(0, 0, 0)  # nothing is known of it yet
        self._cores = 1
        self._budget: float | None = None
        self._results = 0  # of the latest batch
        self._foreseen: Callable[[float], float] | None = None  # how many results a budget may find
        self._known: Mapping[tuple[Plan, ...], Known] = {}
        self._allowances: Mapping[HalfJoin, float] | None = None
        self._rationed: set[Plan] = set()
        self.lost = self._lost_now = 0.0
        self._before = self.numbers()

    # a batch

    def admit(self, arrivals: Arrivals, share: Share, cores: int) -> Arrivals:
        """Remember which part of the batch is this engine's, and how many run at a time."""
        self._share, self._cores, self._foreseen = share, cores, None
        if share.decided is not None:
            self.decided_part, self.decided_rows = share.decided.part, share.decided.rows
        if self._drops_input and self._target_seconds is not None:
            self._foreseen = of_rows_let_in(self.host, arrivals, share, self.windows.rows)
        return arrivals

    def enter(self, step: Step) -> None:
        """Fit the allocation to the batch."""
        self._before = self.numbers()
        self._rationed, self._allowances, self._lost_now, self._asked = set(), None, 0.0, None
        if not self.limited or not any(step.arriving.values()):
            return
        self._known = known = self.host.tree.foreseen(step.arriving)
        self._freshening.count(_waiting(known))
        model = model_of(self.host.query.tree, known, self.windows.rows, self._freshening.limits())
        now = at_present(model, known)
        if self._target_seconds is not None:
            usual = self._share.of_budget(int(self.pace.granted)) or math.inf
            self._foreseen = of_probes(now, self.adaptation.allowances(now, usual))
        self._budget = self._budget_now()
        if self._budget is None:
            return
        budget = max(0.0, self._budget + self.credit)
        bounds = self._freshening.bounds() if self.windows.rows else {}
        weights = dict(self.host.query.overload.weights or ()) if self.host.query.overload else {}
        self._asked = Question(model, budget, bounds, True, weights)
        self.adaptation.begin(self.host.batches, self._asked)
        self._allowances = self.adaptation.allowances(now, budget)
        full = predict(now)
        self._lost_now = full.output - predict(now, self._allowances).output
        self.spare += max(0.0, budget - full.spent)

    def allow(self, operator: tuple[Plan, ...], turn: Turn) -> Rations | None:
        """Return who may probe in an operator, now that its inputs' rows are counted; None: all."""
        if self._allowances is None:
            return None
        now = Known(turn, self._known[operator].orders)
        rations = rations_of(operator, now, self._allowances)
        if any(min(plan.shares) < 1 for i, plan in rations.items() if turn.waiting_rows[i]):
            self._rationed.add(operator)
        return rations

    def commit(self, step: Step) -> None:
        """Settle the budget, and note what is lacking from here on."""
        self._results = step.results
        clock_us = step.later.clock_us
        if self._budget is not None and self._allowances is not None:
            left = self.credit + self._budget - step.probes
            most = 0.0 if self._target_seconds is not None else _LEFT * self._budget
            self.credit = float(min(most, max(-self._budget, left)))
            self.adaptation.adapt(self.host.batches)
        if self._allowances is not None or any(a is not None and a.cut_rows for a in step.arrivals):
            self._freshening.batch_done(self.age_clock_us(clock_us), step.later.newest_us)
            self._note_needs()
        if self._rationed:
            self.exact_since = None
            self.lost += self._lost_now
            self.spare = 0.0
            for node in intermediates(self.host.query.tree):
                if not self._rationed.isdisjoint(operators(node)):
                    self.lacking[node] = clock_us + self._lasting_us(node)
        elif self.exact_since is None and not self.lacking:
            self.exact_since = self.host.batches
        self._allowances = None

    def _note_needs(self) -> None:
        """Note what bounds on age need, by the latest analysis, and why they cannot be kept."""
        if (fresh := self.adaptation.freshness) is not None:  # there was one since it was loaded
            several = self.host.site.part.total > 1 and fresh.budget > 0
            of_all = (self._budget_of_all() or 0.0) / fresh.budget if several else 1.0
            self.too_old = self._freshening.problem(fresh, of_all)
            self.needs = math.ceil(fresh.cost) if 0 < fresh.cost < math.inf else None
            self.refresh = {label(n): rate for n, rate in fresh.refresh.items() if 0 < rate < math.inf}

    def age_clock_us(self, event_us: int) -> int:
        """The clock by which rows are old, given the largest time seen."""
        return event_us

    def left_out(self, until_us: Mapping[Plan, int]) -> None:
        """Intermediates have lost rows that might have been found, until these times."""
        for node, until in until_us.items():
            self.exact_since = None
            self.lacking[node] = max(until, self.lacking.get(node, until))

    def undo(self) -> None:
        """The budget is as it was."""
        self.restore(self._before)

    def catch_up(self) -> bool:
        """Between batches, make again what is lacking if there is budget to spare; return whether it was."""
        tree, watermark_us = self.host.tree, self.host.watermark.us
        self.lacking = {node: until for node, until in self.lacking.items() if until >= watermark_us}
        if not self.lacking:
            return False
        if (self.limited and self.spare < sum(map(tree.rebuild_probes, self.lacking))) or (
            self.windows.rows.keys() & self.lacking.keys()  # what is made again would go again
        ):
            return False
        tree.rebuild(self.host.floors_us, self.lacking)
        self.lacking = {}
        self.spare = 0.0
        return True

    def measured(self, seconds: float, paced: float, probes: int, ahead: float) -> None:
        """A batch's time, as far as it is known when it is committed, decides the budget of the next."""
        if self._target_seconds is not None:
            bought = self.entered_rows if self._drops_input else probes
            granted = self._timely()
            batch = Measured(seconds, paced, bought, self._share.total, ahead, granted, self._results)
            self.pace = pacing.after(self.pace, batch)

    # from and to a checkpoint, and what is shown

    def numbers(self) -> dict[str, Any]:
        """As plain numbers, for a checkpoint, and to go back to."""
        return {
            **save_fields(self, _SAVED),
            "adaptation": self.adaptation.save() if self.limited else {},
            "pace": list(dataclasses.astuple(self.pace)),
            "lacking": {label(node): until for node, until in self.lacking.items()},
            "freshening": save_fields(self._freshening, Freshening.saved),
            "windows": self.windows.save(),
        }

    def restore(self, saved: Mapping[str, Any], *, same_plan: bool = True) -> None:
        """Go on from saved numbers.

        With another plan all intermediates have been made again, so nothing is lacking.
        """
        load_fields(self, _SAVED, saved)
        if self.limited and same_plan and saved["adaptation"]:
            self.adaptation.load(saved["adaptation"], self.host.query.tree)
        self.pace = Pace(*saved["pace"])
        names = {label(node): node for node in intermediates(self.host.query.tree)} if same_plan else {}
        self.lacking = {names[n]: until for n, until in saved["lacking"].items() if n in names}
        load_fields(self._freshening, Freshening.saved, saved["freshening"])
        self.left_out(self.windows.load(saved["windows"] if same_plan else {}))

    def statistics(self) -> RationingStatistics | None:
        """What is shown of it; None without a budget."""
        if not self.limited and not self._drops_input:
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
            reasons=(allocation.reason,) if allocation else (),
            freshness_needs=self.needs,
            curve=self._curve() if self.host.site.part.total > 1 else (),
            rows_of_all=self._budget_of_all() if self._drops_input else None,
        )

    def problem(self) -> str:
        """Why the budget cannot be what it should be, or does not suffice for freshness."""
        too_old = self._freshening.behind() or self.too_old
        if self._target_seconds is None:
            return too_old
        without = "row that is let in" if self._drops_input else "probe"
        slow = pacing.problem(self.pace, self._target_seconds, self._share.total, without)
        return "; ".join(filter(None, (slow, too_old)))

    # parts of the above

    def most_rows(self) -> int | None:
        """Return how many rows all engines let in in this batch; None: all.

        Where several get the same row, they must agree: what was decided for all of them counts.
        """
        if not self._drops_input:
            return None
        if self._target_seconds is not None and self._share.copied:
            return self.decided_rows
        return self._budget_of_all()

    def _budget_of_all(self) -> int | None:
        """Return what all engines may probe, or how many rows they let in, in this batch; None: no limit."""
        most = self._probes if self._target_seconds is None else self._timely()
        if most is None or self._target_seconds is None or not (self._drops_input and self._share.copied):
            return most
        return most * (self._share.different or 0) // self._share.total  # copies took their part

    def _timely(self) -> int | None:
        """Return the budget of all engines that fits into the target time, copies of rows counted."""
        if self._target_seconds is None:
            return None
        rows = self._share.total
        lanes = pacing.lanes(self._cores, rows, self._share.rows)
        aim = self._target_seconds * (1 - _UNSEEN if self.host.site.retried else 1)
        return pacing.budget(self.pace, aim, rows, lanes, self._foreseen, lasting=self._drops_input)

    def _budget_now(self) -> float | None:
        """Return this engine's probes in this batch; None: no limit.

        Its part is by its rows of the batch, unless others probe that have waited.
        """
        if (budget := self._budget_of_all()) is None:
            return None
        own = float((self.host.site.part if self.host.query.counts else self._share).of_budget(budget))
        if self.decided_part is None or self.host.query.counts:
            return own
        return BY_ROWS * own + (1 - BY_ROWS) * budget * self.decided_part

    def _curve(self) -> tuple[tuple[float, float], ...]:
        """Return what is expected of half the latest batch's budget, of all of it, and of twice as much."""
        if self._asked is None or self._asked.budget <= 0:
            return ()
        budgets = [part * self._asked.budget for part in (0.5, 1.0, 2.0)]
        return tuple(
            (b, self.adaptation.expected(dataclasses.replace(self._asked, budget=b))) for b in budgets
        )

    def _lasting_us(self, node: Plan) -> int:
        """How long a row of an intermediate may be found after its newest time."""
        query = self.host.query
        return min(query.bounds.retention_us(query.names.index(s)) for s in leaves(node))


def _waiting(known: Mapping[tuple[Plan, ...], Known]) -> dict[str, tuple[float, float]]:
    """How many rows each stream brings, and how many it holds."""
    turns = [(operator, now.turn) for operator, now in known.items()]
    return {
        child: (float(turn.waiting_rows[i]), float(turn.stored_rows[i]))
        for operator, turn in turns
        for i, child in enumerate(operator)
        if isinstance(child, str)
    }
