"""In which order rows that wait in queues are taken: a value, used by `run_local` and `LocalJoin`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Literal

from braided.query.kinds import MOST_INT, names, whole
from braided.query.values import Value


class Scheduling(Value):
    """How rows are read that are there: all of `run_local`'s, or those of a push; results stay the same.

    `streams` says which queue is read next: a drawn one, or the first of `order` (stream names; by default
    the unique streams, then the others) that has not had its `quota` of rows. `tuples` says in which order
    the rows of a turn are processed: as they came, or first those with keys that another stream has closed by
    a punctuation. On Spark there is no such choice: a micro-batch brings rows of all streams.
    """

    streams: Literal["random", "priority"] = "priority"
    tuples: Literal["sequential", "value"] = "value"
    _: dataclasses.KW_ONLY
    quota: Annotated[int, whole(1, MOST_INT, "at least 1, in 64 bits")] = 100
    order: Annotated[Sequence[str], names("names of streams", "stream")] | None = None
    seed: Annotated[int, whole(0, MOST_INT, "at least 0, in 64 bits")] = 0
