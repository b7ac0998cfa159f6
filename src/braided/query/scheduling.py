"""In which order rows that wait in queues are taken: a value, used by `run_local`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, get_args

from braided.query.errors import InvalidType, InvalidValue, require_choice, require_whole
from braided.query.values import PlainDict, freeze, value_class

Streams = Literal["random", "priority"]
Tuples = Literal["sequential", "value"]


@value_class
class Scheduling(PlainDict):
    """How queues are read when all rows wait in them; every value gives the same result.

    `streams` says which queue is read next: a drawn one, or the first of `order` (stream names; by default
    the unique streams, then the others) that has not had its `quota` of rows. `tuples` says in which order
    the rows of a turn are processed: as they came, or first those with keys that another stream has closed by
    a punctuation. On Spark there is no such choice: a micro-batch brings rows of all streams.
    """

    streams: Streams = "priority"
    tuples: Tuples = "value"
    quota: int = dataclasses.field(default=100, kw_only=True)
    order: Sequence[str] | None = dataclasses.field(default=None, kw_only=True)
    seed: int = dataclasses.field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        require_choice("Scheduling", "streams", self.streams, get_args(Streams))
        require_choice("Scheduling", "tuples", self.tuples, get_args(Tuples))
        for option, least in (("quota", 1), ("seed", 0)):
            wanted = f"at least {least}, in 64 bits"
            require_whole("Scheduling", option, getattr(self, option), least, (1 << 63) - 1, wanted)
        freeze(self, order=_order(self.order))


def _order(order: object) -> tuple[str, ...] | None:
    if order is None:
        return None
    if isinstance(order, str) or not isinstance(order, Sequence):
        raise InvalidType.must("order", "names of streams", order, owner="Scheduling")
    for name in order:
        if not isinstance(name, str):
            raise InvalidType.must("order", "names of streams", name, owner="Scheduling")
    if len(set(order)) < len(order):
        raise InvalidValue(f"Scheduling: order names a stream twice: {', '.join(order)}", option="order")
    return tuple(order)
