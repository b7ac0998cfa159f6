"""Monitor, analyse, actuate: who may probe is decided again when statistics move (jaqpot, section 4.4).

A batch calls, in this order:

1. `begin` with the statistics committed before it.
2. `allowances` with this batch's own rates: the allocation that holds, fitted to them (`allocation.guard`).
3. `adapt` at its end. If a statistic moved by more than `epsilon` since the last analysis (`monitor`), the
   allocation is analysed again, in a few milliseconds. The new one holds from the next batch on, if under the
   averages of now it yields more than `gain` more results than the present one, or if the present one does
   not keep the budget or the bounds on age.

So what a batch emits depends on the allocation committed with the batch before. The first allocation is made
inside `begin`, because there is nothing to fall back on. Saved are the present allocation and the statistics
of the last analysis.

| paper | here |
| --- | --- |
| error threshold epsilon (5 - 8 %) | `Thresholds.epsilon` |
| performance threshold p (3 - 7 %) | `Thresholds.gain` |
| windowed averages | `Thresholds.window` batches |

An analysis that fails is logged once and changes nothing.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from braided.engine.fields import load_fields, save_fields
from braided.engine.overload.monitor import Monitor
from braided.policies.allocation.guard import guard
from braided.policies.allocation.question import Allocate, Allocation, Question, answer
from braided.policies.allocation.registry import ALLOCATIONS
from braided.policies.flow import Flow, predict
from braided.policies.freshness import FreshnessPlan, covered
from braided.policies.plan_model import PlanModel, frozen
from braided.policies.statistics import Adapted
from braided.query.plan_tree import HalfJoin, Plan, half_joins, label

_log = logging.getLogger(__name__)
_RECORDS = 16
_OVER = 1.01  # of the budget or a bound: no reason to change
_MOST_NAMED = 3


@dataclass(frozen=True)
class Thresholds:
    """When to analyse (`epsilon`), over how many batches (`window`), and when to act on it (`gain`)."""

    epsilon: float = 0.08
    gain: float = 0.05
    window: int = 8


class Adaptation:
    """The allocation that holds, and the loop that replaces it."""

    def __init__(
        self, policy: str = "jaqpot", thresholds: Thresholds | None = None, analyse: Allocate | None = None
    ) -> None:
        """`analyse` stands in for the policy's own analysis."""
        self.allocation: Allocation | None = None
        self.freshness: FreshnessPlan | None = None  # of the last analysis, whether it was taken or not
        self.records: deque[Adapted] = deque(maxlen=_RECORDS)
        self._thresholds = thresholds or Thresholds()
        self.monitor = Monitor(self._thresholds.window)
        self._analyse = analyse or ALLOCATIONS[policy]
        self._asked: Question | None = None
        self.orders: dict[str, str] = {}  # probe orders at the last analysis
        self._failed = False

    def begin(self, batch: int, question: Question) -> None:
        """A batch begins; `question` holds the statistics committed before it."""
        self.monitor.observe(question)
        self._asked = question
        if self.allocation is None or self.allocation.allowances.keys() != set(question.model.half_joins):
            now = self.monitor.question(question)
            first, reason = self._analysis(now)
            self.allocation = first or _evenly(now)
            self._record(batch, f"first analysis; {reason}", taken=True)

    def adapt(self, batch: int) -> Adapted | None:
        """A batch ends: analyse again if statistics moved, and judge what comes of it; else None."""
        asked, present = self._asked, self.allocation
        if asked is None or present is None or not (why := self._why(asked.model)):
            return None
        now = self.monitor.question(asked)
        new, reason = self._analysis(now)
        if new is None:
            return self._record(batch, f"{why}; {reason}", taken=False)
        verdict, taken = _judge(now, present, new, self._thresholds.gain)
        self.allocation = new if taken else present
        return self._record(batch, f"{why}; {verdict}", taken=taken)

    def allowances(self, model: PlanModel, budget: float) -> dict[HalfJoin, float]:
        """How many rows may probe each half-join in a batch of these rates; infinite: all."""
        if self.allocation is None:
            return dict.fromkeys(model.half_joins, math.inf)
        return guard(model, self.allocation, budget)

    def expected(self, question: Question) -> float:
        """Return the results that the policy promises itself of a budget; 0 if it fails."""
        try:
            return self._analyse(question).output
        except Exception:  # as in `_analysis`
            return 0.0

    def save(self) -> dict[str, Any]:
        """As plain numbers and texts, for a checkpoint."""
        return {
            "orders": dict(self.orders),
            "allocation": None if self.allocation is None else _saved(self.allocation),
            "monitor": save_fields(self.monitor, Monitor.saved),
            "records": [[r.batch, r.reason, r.taken] for r in self.records],
        }

    def load(self, saved: Mapping[str, Any], plan: Plan) -> None:
        """Go on from what was saved; an allocation of another plan is left."""
        self._asked, self.freshness = None, None
        self.orders = dict(saved["orders"])
        self.allocation = saved["allocation"] and _loaded(saved["allocation"], plan)
        load_fields(self.monitor, Monitor.saved, saved["monitor"])
        self.records = deque((Adapted(*r) for r in saved["records"]), maxlen=_RECORDS)

    def _analysis(self, now: Question) -> tuple[Allocation | None, str]:
        """Return a new allocation, None if there is none, and why in words."""
        self.monitor.before, self.orders = self.monitor.averages, _orders(now.model)
        try:
            new = self._analyse(now)
        except Exception as error:  # whatever it is, the join goes on
            if not self._failed:
                _log.warning(
                    "braided: an analysis of the allocation failed, the old one stays", exc_info=error
                )
            self._failed = True
            return None, f"the analysis failed: {type(error).__name__}: {error}"
        self.freshness = new.freshness
        return new, new.reason

    def _why(self, model: PlanModel) -> str:
        now = _orders(model)
        moved = [f"order of {c}: {o} -> {now[c]}" for c, o in self.orders.items() if now.get(c, o) != o]
        moved += self.monitor.moved(self._thresholds.epsilon)
        named = "; ".join(moved[:_MOST_NAMED])
        if len(moved) > _MOST_NAMED:
            named += f" and {len(moved) - _MOST_NAMED} more"
        return named

    def _record(self, batch: int, reason: str, *, taken: bool) -> Adapted:
        self.records.append(Adapted(batch, reason, taken))
        return self.records[-1]


def _orders(model: PlanModel) -> dict[str, str]:
    """Whom each input of a wide operator probes, one by one, in words."""
    wide = {label(c): o for c, o in model.orders.items() if len(o) > 1}
    return {name: " ".join(map(label, order)) for name, order in wide.items()}


def _evenly(question: Question) -> Allocation:
    """The same share of rows everywhere: what is left if the first analysis fails."""
    full = predict(question.model)
    part = min(1.0, question.budget / full.spent) if full.spent else 1.0
    rows = {h: part * n for h, n in full.probes.items()}
    return answer(question, rows, f"all half-joins {part:.0%}")


def _judge(now: Question, present: Allocation, new: Allocation, gain: float) -> tuple[str, bool]:
    """What speaks for a new allocation in words, and whether to take it.

    Both are compared as they would be used: fitted to the budget of now.
    """
    fitted = (guard(now.model, allocation, now.budget) for allocation in (present, new))
    before, after = (predict(now.model, allowances, settle=now.settle) for allowances in fitted)
    change = f"{before.output:.4g} -> {after.output:.4g} results expected"
    plain = predict(now.model, present.allowances, settle=now.settle).spent
    if plain > now.budget * _OVER:
        return f"{change}; the present allocation costs {plain:.4g} of {now.budget:.4g} probes", True
    starved = _starved(new, before)
    if starved and len(_starved(new, after)) < len(starved):
        return f"{change}; too few rows come into {', '.join(starved)} under the present allocation", True
    if new.freshness_spent and not present.freshness_spent and new.freshness and new.freshness.feasible:
        return f"{change}; bounds on age can be kept now", True
    if now.weights and new.freshness is not None and not new.freshness.feasible:
        parts = [covered(now.model, new.freshness.refresh, flow, now.weights) for flow in (before, after)]
        change += f", of freshness by weights {parts[0]:.0%} -> {parts[1]:.0%}"
        return change, after.output * parts[1] > before.output * parts[0] * (1 + gain)
    return change, after.output > before.output * (1 + gain)


def _starved(new: Allocation, flow: Flow) -> list[str]:
    """The states whose refresh rates a flow does not reach, if they can be had."""
    rates = new.freshness.refresh if new.freshness is not None and new.freshness.feasible else {}
    return [label(node) for node, rate in rates.items() if flow.arrivals[node] * _OVER < rate]


def _saved(allocation: Allocation) -> dict[str, Any]:
    """An allocation, and of the flow it expects what decides who is free: probes and rows skipped."""
    expected = allocation.expected
    half_joins = {
        str(h): [allowed, expected.probes[h], expected.skipped[h], allocation.cover.get(h, 0.0)]
        for h, allowed in allocation.allowances.items()
    }
    return {**save_fields(allocation, ("reason", "freshness_spent", "output")), "half_joins": half_joins}


def _loaded(saved: Mapping[str, Any], plan: Plan) -> Allocation | None:
    names, numbers = {str(h): h for h in half_joins(plan)}, saved["half_joins"]
    if names.keys() != numbers.keys():
        return None
    allowed, probes, skipped, cover = ({names[n]: float(v[i]) for n, v in numbers.items()} for i in range(4))
    flow = Flow(frozen(probes), frozen(skipped), frozen({}), frozen({}), saved["output"])
    return Allocation(frozen(allowed), flow, saved["reason"], saved["freshness_spent"], cover=frozen(cover))
