"""Overload: what is let in, found and probed where CPU or memory is short; lossy, and says so.

Each means has a module of its own: rows that are not let in, or are too old (`regulation`), windows that are
cut (`state_budget`), probes that are rationed along the plan (`rationing`), intermediates that hold only
their newest rows (`state_windows`). A site's `state_windows` bound what the sides of streams hold.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from braided.engine.features import Arrivals, Host, Numbers, Step
from braided.engine.fields import load_fields, save_fields
from braided.engine.operators.inputs import Input
from braided.engine.overload.rationing import Rationing
from braided.engine.overload.regulation import Regulation
from braided.engine.overload.state_budget import StateBudget
from braided.engine.sides.side import BOTTOMLESS_US, Reason, SideState
from braided.engine.site import Share
from braided.engine.state import EngineState, Held, rows_of
from braided.policies.arrays import Int64s


class Overloading(Rationing):
    """Applies a query's `Overload`."""

    name = "overload"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.state = StateBudget(host, self.windows.rows)
        self.regulation = Regulation(host, self.state)

    def admit(self, arrivals: Arrivals, share: Share, cores: int) -> Arrivals:
        """Let in what the budget allows."""
        arrivals, most = super().admit(arrivals, share, cores), self.most_rows()
        let_in = self.regulation.let_in(arrivals, share, most)
        self._budget = None if most is None or not self._drops_input else share.of_budget(most)
        self.entered_rows = sum(len(a.rows) for a in let_in if a)
        return let_in

    def floors(self, clock_us: int) -> list[int]:
        """Rows that are too old for fresh results are not found."""
        return self.regulation.floors_at(clock_us)

    def age_clock_us(self, event_us: int) -> int:
        """By which rows are old."""
        return self.regulation.age_clock_us(event_us)

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
        self.windows.expire()

    def begin(self, step: Step) -> None:
        """Share budgets by the rows that count; make again what is lacking, if there is budget to spare."""
        if self.limited:
            self._tidy()
        if self.catch_up() and self.limited:
            self._tidy()

    def commit(self, step: Step) -> None:
        """Settle the budget, and cut windows to what may be stored."""
        super().commit(step)
        self.left_out(self.windows.choose())
        self.regulation.after()
        self.state.after(step.arrivals)

    def save(self, state: EngineState) -> None:
        """Budgets, and what is lacking; intermediate rows below a floor need not be written."""
        numbers = {"rationing": self.numbers(), "regulation": save_fields(self.regulation, Regulation.saved)}
        state.put_feature(self.name, {**numbers, "state": save_fields(self.state, StateBudget.saved)})
        for source, _ in self.host.tree.intermediates:
            held = state.parts[rows_of(source.node)]
            assert isinstance(held, Held)
            state.parts[rows_of(source.node)] = dataclasses.replace(held, floors_us=self._floors(source))

    def load(self, state: EngineState, *, same_plan: bool) -> None:
        """Go on; what was cut off stays so, with another budget or none."""
        numbers = state.feature(self.name)
        if numbers:
            load_fields(self.regulation, Regulation.saved, numbers["regulation"])
            self.state.load(numbers["state"])
            self.restore(numbers["rationing"], same_plan=same_plan)

    @classmethod
    def outlasts(cls, state: EngineState) -> bool:
        """Until results are exact again, and to show what was cut."""
        numbers = state.feature(cls.name)
        return numbers["rationing"]["exact_since"] != 0 or any(numbers["state"]["cut_rows"])

    def describe(self, numbers: Numbers) -> None:
        """What was cut, and how probes are rationed."""
        numbers.join["rationing"] = self.statistics()
        numbers.join["exact_again"] = self.exact_since
        for name, rate in self.refresh.items():
            numbers.intermediates.get(name, {})["refresh_rows"] = round(rate)
        for name, live in self.state.made_rows.items():
            if name in numbers.intermediates:
                numbers.intermediates[name]["live_rows"] = live
        rows = zip(numbers.streams, self.state.cut_rows, self.state.held_rows, strict=True)
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
            if host.tree.counted is not None:
                host.tree.counted.forget_left(source, side, entirely=True)
            side.forget(side.ended(host.settled_us), Reason.EXPIRE, entirely=True)

    def _stale(self, source: Input, side: SideState) -> Int64s:
        """The positions of an intermediate's rows that hold a row below its stream's floor."""
        stale = np.zeros(side.rows, np.bool_)
        for place, floor_us in self._floors(source):
            stale |= side.payload.words(side.first, place) < floor_us
        return np.flatnonzero(stale) + side.first

    def _floors(self, source: Input) -> list[tuple[int, int]]:
        """Where an intermediate's times are, and the floors of their streams, if they have any."""
        floors_us = dict(zip(self.host.query.names, self.host.floors_us, strict=True))
        times = source.times.items()
        return [(place, floors_us[s]) for s, place in times if floors_us[s] > BOTTOMLESS_US]
