"""How long a micro-batch takes, as a bucket can know it when it writes its state.

A bucket knows when the batch's first pack task began, and when it is done itself. What Spark does after that
(commits, logs, planning the next batch) lies between the end of one batch and the beginning of the next; so
does idle time, so the shortest such gap of the latest batches is taken.

>>> clock = BatchClock()
>>> clock.seconds(began_us=0, ended_us=2_000_000)  # nothing is known of gaps yet
2.0
>>> clock.seconds(began_us=2_500_000, ended_us=4_500_000)
2.5
>>> clock.seconds(began_us=64_500_000, ended_us=66_500_000)  # a minute of waiting is no part of a batch
2.5
"""

from __future__ import annotations

from dataclasses import dataclass, field

_GAPS = 8


@dataclass
class BatchClock:
    """When the last batch ended, and the gaps before the latest ones, in microseconds."""

    ended_us: int | None = None
    gaps_us: list[int] = field(default_factory=list)

    def seconds(self, began_us: int, ended_us: int) -> float:
        """A batch has been processed: how long it takes in all."""
        if self.ended_us is not None and began_us > self.ended_us:
            self.gaps_us = [*self.gaps_us, began_us - self.ended_us][-_GAPS:]
        self.ended_us = ended_us
        return max(0, ended_us - began_us + min(self.gaps_us, default=0)) / 1e6
