"""From the names in `Tuning` to the policies that run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from braided.policies.allowance import Unlimited
from braided.policies.decisions import AllowancePolicy, DriverPolicy, ProbeOrderPolicy
from braided.policies.driver.initial_output_size import InitialOutputSize
from braided.policies.probe_order.fixed import Fixed
from braided.policies.probe_order.selectivity import Selectivity
from braided.query.errors import InvalidValue
from braided.query.tuning import Tuning

DRIVER_POLICIES: dict[str, type[Any]] = {"initial-output-size": InitialOutputSize}
PROBE_ORDER_POLICIES: dict[str, type[Any]] = {"fixed": Fixed, "selectivity": Selectivity}
INDEXES = ("auto", "hash")


@dataclass(frozen=True)
class Policies:
    """The decisions an operator asks for; the seam where other policies plug in."""

    driver: DriverPolicy = field(default_factory=InitialOutputSize)
    probe_order: ProbeOrderPolicy = field(default_factory=Selectivity)
    allowance: AllowancePolicy = field(default_factory=Unlimited)


def policies_for(tuning: Tuning, streams: tuple[str, ...]) -> Policies:
    """The policies a tuning names; what this version does not have raises."""
    for stream in streams:
        _available("index", tuning.index_of(stream), INDEXES)
    _available("driver_stream", tuning.driver_stream, tuple(DRIVER_POLICIES))
    _available("probe_order", tuning.probe_order, tuple(PROBE_ORDER_POLICIES))
    return Policies(DRIVER_POLICIES[tuning.driver_stream](), PROBE_ORDER_POLICIES[tuning.probe_order]())


def _available(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidValue(
            f"Tuning: {option}={value!r} is not available in this version; "
            f"use {' or '.join(map(repr, known))}"
        )
