"""How far event time has come: below the watermark no row is accepted any more.

The watermark is the smallest, over the streams, of (largest time in earlier batches - lateness). It
moves only between batches. A stream that never brought a row holds it back; `end` lifts it for good.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

NONE_US = -(1 << 62)
END_US = 1 << 62


@dataclass(frozen=True)
class Watermark:
    """The newest time of each stream, and what follows from them."""

    lateness_us: tuple[int, ...]
    newest_us: tuple[int | None, ...]
    ended: bool = False

    @property
    def us(self) -> int:
        """The watermark; `NONE_US` until every stream has brought a row."""
        if self.ended:
            return END_US
        return NONE_US if (event_us := self.event_us) is None else event_us

    @property
    def event_us(self) -> int | None:
        """How far event time had come before any end; None until every stream has brought a row."""
        if None in self.newest_us:
            return None
        pairs = zip(self.newest_us, self.lateness_us, strict=True)
        return min(newest - lateness for newest, lateness in pairs if newest is not None)

    @property
    def clock_us(self) -> int:
        """The largest event time seen; `NONE_US` before any."""
        return max((newest for newest in self.newest_us if newest is not None), default=NONE_US)

    def after(self, newest_us: Sequence[int | None]) -> Watermark:
        """The watermark once a batch with these newest times has been processed."""
        both = zip(self.newest_us, newest_us, strict=True)
        newest = (old if new is None else new if old is None else max(old, new) for old, new in both)
        return dataclasses.replace(self, newest_us=tuple(newest))

    def at_end(self) -> Watermark:
        """The watermark after the last batch: everything has passed."""
        return dataclasses.replace(self, ended=True)
