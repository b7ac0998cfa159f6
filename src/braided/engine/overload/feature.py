"""Overload: what is let in, found and probed where CPU or memory is short; lossy, and says so.

Three means, each in a module of its own: rows that are not let in, and windows that are cut (`regulation`),
and probes that are rationed along the plan (`rationing`). `state_windows` of a site bound what sides hold.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from braided.engine.features import Arrivals, Host, Numbers, Step
from braided.engine.fields import save_fields
from braided.engine.operators.inputs import Input
from braided.engine.overload.rationing import Rationing
from braided.engine.overload.regulation import Regulation
from braided.engine.sides.side import BOTTOMLESS_US, Reason, SideState
from braided.engine.site import Share
from braided.engine.state import EngineState
from braided.policies.arrays import Int64s
from braided.query.plan_tree import Plan


class Overloading(Rationing):
    """Applies a query's `Overload`."""

    name = "overload"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.regulation = Regulation(host)

    def admit(self, arrivals: Arrivals, share: Share, cores: int) -> Arrivals:
        """Let in what the budget allows."""
        return self.regulation.let_in(super().admit(arrivals, share, cores), share)

    def floors(self, clock_us: int) -> list[int]:
        """Rows that are too old for fresh results are not found."""
        return self.regulation.floors_at(clock_us)

    def retains(self) -> Collection[Plan]:
        """Intermediates with a window of their own do not expire with their rows."""
        return [node for node in self.host.site.state_windows if not isinstance(node, str)]

    def expire(self) -> None:
        """Forget rows that are too many for a side's window, and intermediates with a row below its floor."""
        tree, floors_us = self.host.tree, self.host.floors_us
        for node, rows in self.host.site.state_windows.items():
            if node in tree.sides:
                side = tree.sides[node]
                side.forget(range(side.first, max(side.first, side.count - rows)), Reason.SHED)
        if any(floor_us > BOTTOMLESS_US for floor_us in floors_us):
            for source, side in tree.intermediates:
                side.forget(self._stale(source, side), Reason.SHED)

    def begin(self, step: Step) -> None:
        """Share budgets by the rows that count; make again what is lacking, if there is budget to spare."""
        if self.limited:
            self._tidy()
        if self.catch_up() and self.limited:
            self._tidy()

    def commit(self, step: Step) -> None:
        """Settle the budget, and cut windows to what may be stored."""
        super().commit(step)
        self.regulation.after(step.arrivals)

    def save(self, state: EngineState) -> None:
        """Budgets, and what is lacking."""
        regulation = save_fields(self.regulation, Regulation.saved)
        state.put_feature(self.name, {"rationing": self.numbers(), "regulation": regulation})

    def load(self, state: EngineState, *, same_plan: bool) -> None:
        """Go on; what was cut off stays so, with another budget or none."""
        numbers = state.feature(self.name)
        if numbers:
            self.regulation.load(numbers["regulation"])
            self.restore(numbers["rationing"], same_plan=same_plan)

    @classmethod
    def outlasts(cls, state: EngineState) -> bool:
        """Until results are exact again, and to show what was cut."""
        numbers = state.feature(cls.name)
        return numbers["rationing"]["exact_since"] != 0 or any(numbers["regulation"]["cut_rows"])

    def describe(self, numbers: Numbers) -> None:
        """What was cut, and how probes are rationed."""
        numbers.join["rationing"] = self.statistics()
        numbers.join["exact_again"] = self.exact_since
        rows = zip(numbers.streams, self.regulation.cut_rows, self.regulation.held_rows, strict=True)
        for of_stream, cut, held in rows:
            if "live_rows" in of_stream:
                of_stream["cut_rows"] = cut
                of_stream["live_rows"] = min(of_stream["live_rows"], held if held is not None else 1 << 62)

    def _tidy(self) -> None:
        """Count the rows of streams that are dead, and forget every intermediate row that is.

        What is found decides who may probe next; it must not depend on when dead rows were last tidied up.
        """
        host = self.host
        for i, name in enumerate(host.query.names):
            if (side := host.tree.sides.get(name)) is not None:
                side.dead = len(side.ended(host.oldest_us(i)))
        for source, side in host.tree.intermediates:
            side.forget(self._stale(source, side), Reason.SHED, entirely=True)
            if source.node not in host.site.state_windows:
                side.forget(side.ended(host.watermark.us), Reason.EXPIRE, entirely=True)

    def _stale(self, source: Input, side: SideState) -> Int64s:
        """The positions of an intermediate's rows that hold a row below its stream's floor."""
        stale = np.zeros(side.rows, np.bool_)
        for stream, place in source.times.items():
            floor_us = self.host.floors_us[self.host.query.names.index(stream)]
            if floor_us > BOTTOMLESS_US:
                stale |= side.payload.words(side.first, place) < floor_us
        return np.flatnonzero(stale) + side.first
