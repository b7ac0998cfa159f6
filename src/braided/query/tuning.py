"""How a join is run, never what it means: every value gives the same result."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from braided.query.errors import (
    BraidedError,
    InvalidType,
    InvalidValue,
    about,
    require_choice,
    require_whole,
    shown,
)
from braided.query.values import PlainDict, freeze, value_class

DriverStream = Literal["timestamp", "round-robin", "consumption-rate", "initial-output-size", "output-rate"]
ProbeOrder = Literal["fixed", "selectivity", "a-greedy"]
Index = Literal["auto", "hash", "scan"]
Expiry = Literal["active", "lazy"]
Purge = Literal["immediate", "batch"]
Goal = Literal["throughput", "memory"]
OnViolation = Literal["raise", "count"]


@value_class
class BatchPurge(PlainDict):
    """Purge after every `every` punctuations."""

    every: int = 100

    def __post_init__(self) -> None:
        require_whole("BatchPurge", "every", self.every, 1, (1 << 63) - 1, "at least 1, in 64 bits")


@value_class
class Tuning(PlainDict):
    """Policies and their options.

    `driver_stream` says whose rows probe next: "initial-output-size", "output-rate", "consumption-rate",
    "timestamp" or "round-robin". `probe_order` says which partner is probed first: "selectivity", "a-greedy"
    or "fixed". `index` ("auto", "hash", "scan") may be one choice, or one per stream as a mapping. `expiry`
    is "active" or "lazy".

    Where streams promise something, `purge` says when rows go by it: after a "batch" of punctuations (or a
    `BatchPurge`), or "immediate", which `goal="memory"` means, too; with `on_violation="count"` rows that
    break a promise are left out and counted, instead of raising. `seed` picks the rows that an `Overload`
    lets in.

    `selectivities` are what the user knows instead of what is estimated: of a pair, such as
    `("orders", "payments"): 1e-6` (matching pairs of rows out of all), and of a stream, such as
    `"orders": 0.9` (results per row; all streams, or none).
    """

    driver_stream: DriverStream = "initial-output-size"
    probe_order: ProbeOrder = "selectivity"
    index: Index | Mapping[str, Index] = dataclasses.field(default="auto", kw_only=True)
    expiry: Expiry = dataclasses.field(default="active", kw_only=True)
    purge: Purge | BatchPurge = dataclasses.field(default="batch", kw_only=True)
    goal: Goal = dataclasses.field(default="throughput", kw_only=True)
    seed: int = dataclasses.field(default=0, kw_only=True)
    on_violation: OnViolation = dataclasses.field(default="raise", kw_only=True)
    selectivities: Any = dataclasses.field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        require_choice("Tuning", "driver_stream", self.driver_stream, get_args(DriverStream))
        require_choice("Tuning", "probe_order", self.probe_order, get_args(ProbeOrder))
        require_choice("Tuning", "expiry", self.expiry, get_args(Expiry))
        require_choice("Tuning", "goal", self.goal, get_args(Goal))
        require_choice("Tuning", "on_violation", self.on_violation, get_args(OnViolation))
        freeze(self, index=_index(self.index), purge=_purge(self.purge))
        with about("selectivities"):
            freeze(self, selectivities=_selectivities(self.selectivities))
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise InvalidType.must("seed", "a whole number", self.seed, owner="Tuning")
        if not -(1 << 63) <= self.seed < 1 << 63:
            raise InvalidValue(f"Tuning: seed must fit in 64 bits; got {shown(self.seed)}", option="seed")

    def index_of(self, stream: str) -> str:
        """The index choice for one stream."""
        if isinstance(self.index, tuple):
            return dict(self.index).get(stream, "auto")
        return str(self.index)


def _index(index: object) -> str | tuple[tuple[str, str], ...]:
    if isinstance(index, str):
        require_choice("Tuning", "index", index, get_args(Index))
        return index
    try:
        pairs = dict(index)  # type: ignore[call-overload]
        frozen = tuple(sorted(pairs.items()))
    except (TypeError, ValueError):
        raise InvalidType.must("index", "a choice or one per stream", index, owner="Tuning") from None
    for stream, choice in frozen:
        if not isinstance(stream, str):
            raise InvalidType(f"Tuning: index is by stream name; got {shown(stream)}", option="index")
        require_choice("Tuning", "index", choice, get_args(Index), of_stream=stream)
    return frozen


def _selectivities(given: object) -> tuple[tuple[tuple[str, ...], float], ...]:
    """Sorted pairs of (one or two stream names, selectivity)."""
    try:
        pairs = dict(given.items() if isinstance(given, Mapping) else _hashable(given))
    except BraidedError:
        raise
    except (TypeError, ValueError):
        raise InvalidType(f"Tuning: selectivities must be a mapping; got {shown(given)}") from None
    found: dict[tuple[str, ...], float] = {}
    for key, value in pairs.items():
        names = _names(key)
        share = _share(names, value)
        if found.setdefault(names, share) != share:
            raise InvalidValue(
                f"Tuning: the selectivity of {' and '.join(names)} is given twice, as {found[names]:g} and "
                f"{share:g}; give one"
            )
    return tuple(sorted(found.items()))


def _hashable(given: Any) -> Iterator[tuple[Any, Any]]:
    """Pairs as `to_dict` writes them, in lists; a name that comes twice raises."""
    seen = set()
    for key, value in given:
        name = key if isinstance(key, str) else tuple(key)
        if name in seen:
            raise InvalidValue(f"Tuning: the selectivity of {name!r} is given twice; give one")
        seen.add(name)
        yield name, value


def _names(key: object) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else key
    named = isinstance(names, tuple) and all(isinstance(n, str) for n in names)
    if isinstance(names, tuple) and named and 1 <= len(names) <= 2 and len(set(names)) == len(names):
        return tuple(sorted(names))
    raise InvalidType(
        f"Tuning: selectivities is by stream name or by pair of two stream names; got {shown(key)}"
    )


def _share(names: tuple[str, ...], value: object) -> float:
    owner = f"Tuning: the selectivity of {' and '.join(names)}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidType(f"{owner} must be a number; got {shown(value)}")
    try:
        share = float(value)
    except OverflowError:
        share = float("inf")
    if not 0 <= share < float("inf") or (len(names) == 2 and share > 1):
        most = "a number from 0 to 1" if len(names) == 2 else "zero or more"
        raise InvalidValue(f"{owner} must be {most}; got {shown(value)}")
    return share


def _purge(purge: object) -> str | BatchPurge:
    if isinstance(purge, BatchPurge):
        return purge
    if isinstance(purge, Mapping):
        with about("purge"):
            return BatchPurge.from_dict(purge)
    require_choice("Tuning", "purge", purge, get_args(Purge))
    return str(purge)
