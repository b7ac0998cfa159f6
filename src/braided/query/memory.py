"""How much memory a join's state may take: what does not fit waits on disk, and results stay exact."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Literal, get_args

from braided.query.durations import Duration, to_text, to_us
from braided.query.errors import InvalidType, InvalidValue, about, require_choice
from braided.query.values import PlainDict, freeze, value_class

Flush = Literal["adaptive-global", "state-spill", "hash-merge", "rpj", "largest"]
Keeping = Literal["recent", "average", "ewma"]
Lineage = Literal["carried", "recomputed"]
LEAST_BYTES = 1 << 12
MOST_BYTES = 1 << 60
LIVE_SHARE = 0.75  # of the limit: rows that may be found; the rest is for those that are gone
_GROUPS = tuple(1 << bits for bits in range(1, 11))
_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


@value_class
class Memory(PlainDict):
    """A budget for stored rows, their indexes and what is known of them; `limit` is bytes, or "512 MB".

    Rows are flushed to disk in partition groups: the same slice of keys of every input of an operator.
    `flush` says which go first ("adaptive-global", "state-spill", "hash-merge", "rpj", "largest"),
    `flush_share` how much of the limit goes at a time at least. With `state_manager` groups are merged from
    disk whenever that promises more results than rows that arrive.

    What groups take in and give out is counted over an `interval`; `statistics` says how intervals are put
    together: the latest one ("recent"), an "average" of `average_of`, or one that forgets ("ewma"; `alpha` is
    the weight of what was known). With `lineage` results of lower operators have the groups they came from
    "carried" along, or "recomputed".

    `disk_rate` is how many rows a second a merge takes (None: measured), `memory_weight` by how much results
    from memory count more than those from disk. With `defer` merges may wait; without, every batch ends with
    all of its results. None: in this process they may wait, on Spark not. `groups` is how many an operator
    has, a power of two (None: by the limit). `directory` is where groups are written (None: the system's
    folder for temporary files; on Spark its state store has them).
    """

    limit: int | str
    flush: Flush = dataclasses.field(default="adaptive-global", kw_only=True)
    flush_share: float = dataclasses.field(default=0.05, kw_only=True)
    state_manager: bool = dataclasses.field(default=True, kw_only=True)
    statistics: Keeping = dataclasses.field(default="ewma", kw_only=True)
    alpha: float = dataclasses.field(default=0.5, kw_only=True)
    average_of: int = dataclasses.field(default=3, kw_only=True)
    interval: Duration = dataclasses.field(default="5 seconds", kw_only=True)
    defer: bool | None = dataclasses.field(default=None, kw_only=True)
    lineage: Lineage = dataclasses.field(default="carried", kw_only=True)
    disk_rate: float | None = dataclasses.field(default=None, kw_only=True)
    memory_weight: float = dataclasses.field(default=1.0, kw_only=True)
    groups: int | None = dataclasses.field(default=None, kw_only=True)
    directory: str | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        freeze(self, limit=_bytes(self.limit))
        require_choice("Memory", "flush", self.flush, get_args(Flush))
        require_choice("Memory", "statistics", self.statistics, get_args(Keeping))
        require_choice("Memory", "lineage", self.lineage, get_args(Lineage))
        _number("flush_share", self.flush_share, above=0, most=1)
        _number("alpha", self.alpha, above=0, most=1)
        _number("memory_weight", self.memory_weight, above=0)
        if self.disk_rate is not None:
            _number("disk_rate", self.disk_rate, above=0)
        if isinstance(self.average_of, bool) or not isinstance(self.average_of, int) or self.average_of < 1:
            raise InvalidValue.must("average_of", "a whole number from 1 on", self.average_of, owner="Memory")
        if self.groups is not None and self.groups not in _GROUPS:
            wanted = f"one of {', '.join(map(str, _GROUPS))}"
            raise InvalidValue.must("groups", wanted, self.groups, owner="Memory")
        for option, value in (("state_manager", self.state_manager), ("defer", self.defer)):
            if not isinstance(value, bool) and (option, value) != ("defer", None):
                raise InvalidType.must(option, "True or False", value, owner="Memory")
        if self.directory is not None and not isinstance(self.directory, str):
            raise InvalidType.must("directory", "a text", self.directory, owner="Memory")
        with about("interval"):
            us = to_us(self.interval, owner="Memory: interval")
        if us <= 0:
            raise InvalidValue.must("interval", "above zero", self.interval, owner="Memory")
        freeze(self, interval=to_text(us))

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
        return min(8, max(3, (self.limit_bytes >> 16).bit_length()))

    @property
    def one_sided(self) -> bool:
        """Whether single inputs of a group are flushed, and not all of them together."""
        return self.flush in ("rpj", "largest")


def _bytes(limit: object) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int | str):
        raise InvalidType.must("limit", "bytes or a text such as '512 MB'", limit, owner="Memory")
    found = limit
    if isinstance(limit, str):
        read = _SIZE.fullmatch(limit)
        if read is None or read[2].lower() not in _UNITS:
            raise InvalidValue.must("limit", "a size such as '512 MB' or '1 GiB'", limit, owner="Memory")
        found = int(min(float(read[1]) * _UNITS[read[2].lower()], 2.0 * MOST_BYTES))
    assert isinstance(found, int)
    if found > MOST_BYTES:
        raise InvalidValue.must("limit", f"at most {MOST_BYTES:,} bytes", limit, owner="Memory")
    if found < LEAST_BYTES:
        raise InvalidValue.must("limit", f"at least {LEAST_BYTES:,} bytes", limit, owner="Memory")
    return found


def _number(option: str, value: object, *, above: float, most: float = math.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidType.must(option, "a number", value, owner="Memory")
    if not above < value <= most or math.isinf(value):
        upto = "" if math.isinf(most) else f" and at most {most:g}"
        raise InvalidValue.must(option, f"above {above:g}{upto}", value, owner="Memory")
