"""How far event time has come: below the watermark no row is accepted any more.

The watermark is the smallest, over the streams, of (largest time in earlier batches - lateness). It moves
only between batches, and never falls, whatever a restart changes. A stream that never brought a row holds it
back; `at_end` lifts it for good.

A stream with `idle_after` that has brought no row for so long, by the recorded clock, holds it no more until
it brings one. Only time within one run counts: an outage is no idleness. If all streams are idle it stays.
In a batch without a clock it stands still.

>>> start = Watermark((0, 0), idle_after_s=(None, 60))
>>> both = start.after([10, 4], Clock(1000, run=1), [True, True])
>>> both.us, both.after([90, None], Clock(1059, run=1), [True, False]).us
(4, 4)
>>> both.after([90, None], Clock(1060, run=1), [True, False]).us
90
>>> woken = both.after([None, None], Clock(1059, run=1), [False, False]).after([90, 5], None, [True, True])
>>> woken.after([90, None], Clock(1060, run=1), [True, False]).us
5
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NONE_US = -(1 << 62)
END_US = 1 << 62


@dataclass(frozen=True)
class Clock:
    """The wall clock in seconds, as it was recorded with a batch, and the run of the query it belongs to."""

    seconds: float
    run: int = 0


@dataclass(frozen=True)
class Watermark:
    """The newest time of each stream, and what follows from them.

    `floor_us` is where the watermark was before: it never falls below. `active_s` is, by the clock, when each
    stream last brought a row in this `run`.
    """

    lateness_us: tuple[int, ...]
    newest_us: tuple[int | None, ...] = ()
    ended: bool = False
    floor_us: int = NONE_US
    idle_after_s: tuple[float | None, ...] = ()
    active_s: tuple[float, ...] = ()
    run: int | None = None
    clock_s: float | None = None

    def __post_init__(self) -> None:
        if not self.newest_us:
            object.__setattr__(self, "newest_us", (None,) * len(self.lateness_us))

    @property
    def us(self) -> int:
        """The watermark; `NONE_US` until every stream has brought a row, or is idle."""
        if self.ended:
            return END_US
        return NONE_US if (event_us := self.event_us) is None else event_us

    @property
    def event_us(self) -> int | None:
        """How far event time had come before any end; None until every stream has brought a row."""
        waiting = [not idle for idle in self.idle]
        newest = [t for t, waits in zip(self.newest_us, waiting, strict=True) if waits]
        late = [t for t, waits in zip(self.lateness_us, waiting, strict=True) if waits]
        now_us = NONE_US
        if newest and None not in newest:
            now_us = min(t - lateness for t, lateness in zip(newest, late, strict=True) if t is not None)
        now_us = max(now_us, self.floor_us)
        return None if now_us == NONE_US else now_us

    @property
    def idle(self) -> tuple[bool, ...]:
        """Which streams have brought nothing for as long as they may."""
        if not any(self.idle_after_s) or self.clock_s is None:
            return (False,) * len(self.lateness_us)
        pairs = zip(self.idle_after_s, self.active_s, strict=True)
        return tuple(after is not None and self.clock_s - active >= after for after, active in pairs)

    @property
    def clock_us(self) -> int:
        """The largest event time seen; `NONE_US` before any."""
        return max((newest for newest in self.newest_us if newest is not None), default=NONE_US)

    def after(
        self, newest_us: Sequence[int | None], clock: Clock | None = None, brought: Sequence[bool] = ()
    ) -> Watermark:
        """The watermark once a batch with these newest times has been processed.

        `clock` is when that was, and `brought` which streams had any row.
        """
        both = zip(self.newest_us, newest_us, strict=True)
        newest = tuple(old if new is None else new if old is None else max(old, new) for old, new in both)
        floor_us = NONE_US if self.event_us is None else self.event_us
        later = dataclasses.replace(self, newest_us=newest, floor_us=floor_us)
        if clock is None and self.clock_s is not None and self.run is not None:
            clock = Clock(self.clock_s, self.run)  # it stands still
        if clock is None or not any(self.idle_after_s):
            return later
        fresh = clock.run != self.run
        active = self.active_s or (clock.seconds,) * len(newest)
        active_s = tuple(
            clock.seconds if fresh or came else since for since, came in zip(active, brought, strict=True)
        )
        return dataclasses.replace(later, active_s=active_s, run=clock.run, clock_s=clock.seconds)

    def at_end(self) -> Watermark:
        """The watermark after the last batch: everything has passed."""
        return dataclasses.replace(self, ended=True)

    def save(self) -> dict[str, Any]:
        """What a restart needs besides the newest times."""
        return {
            "ended": self.ended,
            "floor_us": self.event_us,
            **(
                {"active_s": self.active_s, "run": self.run, "clock_s": self.clock_s} if self.active_s else {}
            ),
        }

    def load(self, newest_us: Sequence[int | None], saved: Mapping[str, Any]) -> Watermark:
        """Go on from there; lateness, and when streams are idle, are as they are asked for now."""
        floor_us = NONE_US if saved["floor_us"] is None else saved["floor_us"]
        return dataclasses.replace(
            self,
            newest_us=tuple(newest_us),
            ended=saved["ended"],
            floor_us=floor_us,
            active_s=tuple(saved.get("active_s", ())),
            run=saved.get("run"),
            clock_s=saved.get("clock_s"),
        )
