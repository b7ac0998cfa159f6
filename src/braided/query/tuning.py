"""How a join is run, never what it means: every value gives the same result."""

from __future__ import annotations

import dataclasses
import numbers
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from braided.query.errors import InvalidType, InvalidValue, require_choice, shown
from braided.query.kinds import MOST_INT, whole
from braided.query.values import Value

RowByRow = Literal["timestamp", "round-robin"]
WholeBuffers = Literal["consumption-rate", "initial-output-size", "output-rate"]
DriverStream = Literal[RowByRow, WholeBuffers]
Index = Literal["auto", "hash", "scan"]


class BatchPurge(Value):
    """Purge after every `every` punctuations."""

    every: Annotated[int, whole(1, MOST_INT, "at least 1, in 64 bits")] = 100


def _index(owner: str, option: str, index: Any) -> str | tuple[tuple[str, str], ...]:
    if isinstance(index, str):
        require_choice(owner, option, index, get_args(Index))
        return index
    try:
        by_stream = tuple(sorted(dict(index).items()))
    except (TypeError, ValueError):
        raise InvalidType.must(option, "a choice or one per stream", index, owner=owner) from None
    for stream, choice in by_stream:
        if not isinstance(stream, str):
            raise InvalidType(f"{owner}: {option} is by stream name; got {shown(stream)}")
        require_choice(f"{owner}: {option} by stream", stream, choice, get_args(Index))
    return by_stream


def _selectivities(owner: str, option: str, given: Any) -> tuple[tuple[tuple[str, ...], float], ...]:
    """Read pairs of (one or two stream names, selectivity), also in lists, as `to_dict` writes them."""
    shares: dict[tuple[str, ...], float] = {}
    try:
        pairs = [(key, value) for key, value in (given.items() if isinstance(given, Mapping) else given)]
    except (TypeError, ValueError):
        raise InvalidType.must(option, "a mapping", given, owner=owner) from None
    for key, value in pairs:
        names = _names(key)
        share = _share(names, value)
        if shares.setdefault(names, share) != share:
            twice = f"twice, as {shares[names]:g} and {share:g}"
            raise InvalidValue(f"Tuning: the selectivity of {' and '.join(names)} is given {twice}; give one")
    return tuple(sorted(shares.items()))


def _names(key: object) -> tuple[str, ...]:
    names = [key] if isinstance(key, str) else key if isinstance(key, tuple | list) else []
    if all(isinstance(name, str) for name in names) and 1 <= len(set(names)) == len(names) <= 2:
        return tuple(sorted(names))
    wanted = "by stream name or by pair of two stream names"
    raise InvalidType(f"Tuning: selectivities is {wanted}; got {shown(key)}")


def _share(names: tuple[str, ...], value: Any) -> float:
    owner = f"Tuning: the selectivity of {' and '.join(names)}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidType(f"{owner} must be a number; got {shown(value)}")
    most, wanted = (1.0, "a number from 0 to 1") if len(names) == 2 else (sys.float_info.max, "zero or more")
    if not 0 <= value <= most:  # type: ignore[operator]
        raise InvalidValue(f"{owner} must be {wanted}; got {shown(value)}")
    return float(value)


class Tuning(Value):
    """Policies and their options.

    `driver_stream` says whose rows probe next: "initial-output-size", "output-rate", "consumption-rate",
    "timestamp" or "round-robin"; the last two take single rows and do not go with rationed probes.
    `probe_order` says which partner is probed first: "selectivity", "a-greedy" or "fixed". `index` ("auto",
    "hash", "scan") may be one choice, or one per stream as a mapping. `expiry` is "active" or "lazy".

    Where streams promise something, `purge` says when rows go by it: after a "batch" of punctuations (or a
    `BatchPurge`), or "immediate", which `goal="memory"` means, too; with `on_violation="count"` rows that
    break a promise are left out and counted, instead of raising. `seed` picks the rows that an `Overload`
    lets in.

    `selectivities` are what the user knows instead of what is estimated: of a pair, such as
    `("orders", "payments"): 1e-6` (matching pairs of rows out of all), and of a stream, such as
    `"orders": 0.9` (results per row; all streams, or none).
    """

    driver_stream: DriverStream = "initial-output-size"
    probe_order: Literal["fixed", "selectivity", "a-greedy"] = "selectivity"
    _: dataclasses.KW_ONLY
    index: Annotated[Index | Mapping[str, Index], _index] = "auto"
    expiry: Literal["active", "lazy"] = "active"
    purge: Literal["immediate", "batch"] | BatchPurge = "batch"
    goal: Literal["throughput", "memory"] = "throughput"
    seed: Annotated[int, whole(-MOST_INT - 1, MOST_INT, "a number that fits in 64 bits")] = 0
    on_violation: Literal["raise", "count"] = "raise"
    selectivities: Annotated[Any, _selectivities] = ()

    def index_of(self, stream: str) -> str:
        """Return the index choice for one stream."""
        return dict(self.index).get(stream, "auto") if isinstance(self.index, tuple) else str(self.index)
