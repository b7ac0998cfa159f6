"""How much memory a join's state may take: what does not fit waits on disk, and results stay exact."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Annotated, Literal

from braided.query.durations import Duration, to_us
from braided.query.errors import InvalidValue
from braided.query.kinds import MOST_INT, above_zero, duration, size, text, whole
from braided.query.values import Value

Flush = Literal["adaptive-global", "state-spill", "hash-merge", "rpj", "largest"]
Keeping = Literal["recent", "average", "ewma"]
LIVE_SHARE = 0.75  # of the limit: rows that may be found; the rest is for those that are gone
_GROUP_BYTES = 200_000  # of the limit for each group, about: smaller pieces take long, larger ones room
_GROUPS = tuple(1 << bits for bits in range(1, 11))


def _groups(owner: str, option: str, value: object) -> object:
    if value not in _GROUPS:
        raise InvalidValue.must(option, f"one of {', '.join(map(str, _GROUPS))}", value, owner=owner)
    return value


class Memory(Value):
    """A budget for stored rows, their indexes and what is known of them; `limit` is bytes, or "512 MB".

    Rows are flushed to disk in partition groups: the same slice of keys of every input of an operator.
    `flush` says which go first ("adaptive-global", "state-spill", "hash-merge", "rpj", "largest"),
    `flush_share` how much of the limit goes at a time at least. With `state_manager` groups are merged from
    disk whenever that promises more results than rows that arrive. With `take_along` its merges take the rows
    of the group in memory along, and these go to disk; without, as in the paper, they stay, and meet the rows
    on disk only after they are flushed.

    What groups take in and give out is counted over an `interval`; `statistics` says how intervals are put
    together: the latest one ("recent"), an "average" of `average_of`, or one that forgets ("ewma"; `alpha` is
    the weight of what was known). With `lineage` results of lower operators have the groups they came from
    "carried" along, or "recomputed".

    `disk_rate` is how many rows a second a merge takes (None: measured), `memory_weight` by how much results
    from memory count more than those from disk. With `defer` merges may wait; without, every batch ends with
    all of its results. None: in this process they may wait, on Spark not, unless `owed_within` says how long
    they may: groups are merged early enough for that, by the speed of merges as it is measured.

    `groups` is how many an operator has, a power of two (None: by the limit). `directory` is where groups are
    written (None: the system's folder for temporary files; on Spark its state store has them).
    """

    limit: Annotated[int | str, size]
    _: dataclasses.KW_ONLY
    flush: Flush = "adaptive-global"
    flush_share: Annotated[float, above_zero(most=1)] = 0.05
    state_manager: bool = True
    take_along: bool = True
    statistics: Keeping = "ewma"
    alpha: Annotated[float, above_zero(most=1)] = 0.5
    average_of: Annotated[int, whole(1, MOST_INT, "a whole number from 1 on")] = 3
    interval: Annotated[Duration, partial(duration, zero=False)] = "5 seconds"
    defer: bool | None = None
    lineage: Literal["carried", "recomputed"] = "carried"
    owed_within: Annotated[Duration, partial(duration, zero=False)] | None = None
    disk_rate: Annotated[float, above_zero()] | None = None
    memory_weight: Annotated[float, above_zero()] = 1.0
    groups: Annotated[int, _groups] | None = None
    directory: Annotated[str, text()] | None = None

    def _check(self) -> None:
        if self.owed_within is not None and self.defer is False:
            raise InvalidValue(
                "Memory: owed_within says how long results may wait, and with defer=False none does; give "
                "one of them",
                option="owed_within",
                value=self.owed_within,
            )
        if self.owed_within is not None and not self.take_along:
            raise InvalidValue(
                "Memory: owed_within says how long results may wait, and with take_along=False rows in "
                "memory wait until they are flushed; give one of them",
                option="take_along",
                value=self.take_along,
            )

    @property
    def waits(self) -> bool:
        """Whether merges are asked to wait, wherever the join runs."""
        return self.defer is True or self.owed_within is not None

    @property
    def owed_within_s(self) -> float | None:
        """How long results may wait, in seconds."""
        return None if self.owed_within is None else to_us(self.owed_within) / 1e6

    @property
    def interval_s(self) -> float:
        """The interval in seconds."""
        return to_us(self.interval) / 1e6

    @property
    def limit_bytes(self) -> int:
        """The limit as a number."""
        assert isinstance(self.limit, int)
        return self.limit

    @property
    def group_bits(self) -> int:
        """How many partition groups an operator has, as a power of two: more where there is more room."""
        if self.groups is not None:
            return self.groups.bit_length() - 1
        return min(8, max(3, (self.limit_bytes // _GROUP_BYTES).bit_length()))

    @property
    def one_sided(self) -> bool:
        """Whether single inputs of a group are flushed, and not all of them together."""
        return self.flush in ("rpj", "largest")
