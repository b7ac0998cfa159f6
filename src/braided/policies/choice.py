"""From the names in `Tuning` to the policies that run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from braided.policies.allowance import Unlimited
from braided.policies.decisions import AllowancePolicy, DriverPolicy, ProbeOrderPolicy
from braided.policies.driver.consumption_rate import ConsumptionRate
from braided.policies.driver.initial_output_size import InitialOutputSize
from braided.policies.driver.output_rate import OutputRate
from braided.policies.driver.round_robin import RoundRobin
from braided.policies.driver.timestamp import Timestamp
from braided.policies.probe_order.a_greedy import AGreedy
from braided.policies.probe_order.fixed import Fixed
from braided.policies.probe_order.selectivity import Selectivity
from braided.query.errors import InvalidValue
from braided.query.tuning import Tuning

DRIVER_POLICIES: dict[str, Callable[..., DriverPolicy]] = {
    "timestamp": Timestamp,
    "round-robin": RoundRobin,
    "consumption-rate": ConsumptionRate,
    "initial-output-size": InitialOutputSize,
    "output-rate": OutputRate,
}
PROBE_ORDER_POLICIES: dict[str, Callable[[], ProbeOrderPolicy]] = {
    "fixed": Fixed,
    "selectivity": Selectivity,
    "a-greedy": AGreedy,
}
INDEXES = ("auto", "hash")


@dataclass(frozen=True)
class Policies:
    """The decisions an operator asks for; the seam where other policies plug in.

    `given` are the selectivities the user gave, by numbers of streams.
    """

    driver: DriverPolicy = field(default_factory=InitialOutputSize)
    probe_order: ProbeOrderPolicy = field(default_factory=Selectivity)
    allowance: AllowancePolicy = field(default_factory=Unlimited)
    given: dict[tuple[int, int], float] = field(default_factory=dict)


def policies_for(tuning: Tuning, streams: tuple[str, ...]) -> Policies:
    """The policies a tuning names; what this version does not have raises."""
    for stream in streams:
        _available("index", tuning.index_of(stream), INDEXES)
    _available("driver_stream", tuning.driver_stream, tuple(DRIVER_POLICIES))
    _available("probe_order", tuning.probe_order, tuple(PROBE_ORDER_POLICIES))
    of_streams, of_pairs = _given(tuning, streams)
    options: dict[str, Any] = {"given": of_streams} if tuning.driver_stream == "consumption-rate" else {}
    driver = DRIVER_POLICIES[tuning.driver_stream](**options)
    return Policies(driver, PROBE_ORDER_POLICIES[tuning.probe_order](), given=of_pairs)


def _given(
    tuning: Tuning, streams: tuple[str, ...]
) -> tuple[tuple[float, ...], dict[tuple[int, int], float]]:
    """The user's selectivities: of all streams or none, and of pairs, in both directions."""
    of_streams, of_pairs = {}, {}
    for names, value in tuning.selectivities:
        numbers = [streams.index(name) for name in names]
        if len(numbers) == 1:
            of_streams[numbers[0]] = value
        else:
            i, j = numbers
            of_pairs[i, j] = of_pairs[j, i] = value
    return tuple(of_streams[i] for i in sorted(of_streams)), of_pairs


def _available(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidValue(
            f"Tuning: {option}={value!r} is not available in this version; "
            f"use {' or '.join(map(repr, known))}"
        )
