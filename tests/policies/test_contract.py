"""One contract for all policies of a family: they are pure, and answer what was asked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from braided.policies.decisions import BufferPolicy, RowPolicy, Turn, next_buffer
from braided.policies.driver import DRIVER_POLICIES
from braided.policies.probe_order import PROBE_ORDER_POLICIES

PROFILES = [None, np.zeros((0, 3), np.int64), np.array([[9, 0, 2], [9, 1, 0], [9, 3, 1]])]
TURNS = [
    Turn(waiting, stored, (70, 60, 50), known, profile=profile)
    for waiting in itertools.product((0, 1, 50), repeat=3)
    for stored in itertools.product((0, 1, 50), repeat=3)
    for known in ((), ((None, 0.1, 0.0), (0.5, None, None), (1.0, 0.2, None)))
    for profile in PROFILES
    if any(waiting)
]


@pytest.mark.parametrize("name", DRIVER_POLICIES)
def test_driver_policies_take_a_waiting_buffer_or_order_all_rows(name: str) -> None:
    policy = DRIVER_POLICIES[name]()
    assert isinstance(policy, BufferPolicy) != isinstance(policy, RowPolicy)
    if isinstance(policy, RowPolicy):
        for times in ([], [4], [3, 1, 2, 9, 9, 0]):
            keys = policy.keys(np.array(times, np.int64))
            assert len(keys) == len(times)
            assert (np.diff(keys) >= 0).all()
        return
    for turn in TURNS:
        chosen = next_buffer(policy, turn)
        assert turn.waiting_rows[chosen] > 0
        assert next_buffer(policy, turn) == chosen


@pytest.mark.parametrize("name", DRIVER_POLICIES)
def test_driver_policies_say_why(name: str) -> None:
    assert "50" in DRIVER_POLICIES[name]().reason(Turn((50, 0), (50, 1), (50, 1)), 0) or name == "output-rate"


@pytest.mark.parametrize("name", PROBE_ORDER_POLICIES)
def test_probe_orders_name_every_other_stream_once(name: str) -> None:
    policy = PROBE_ORDER_POLICIES[name]()
    for turn, driver in itertools.product(TURNS, range(3)):
        order = policy.order(driver, turn)
        assert sorted((driver, *order)) == [0, 1, 2]
        assert policy.order(driver, turn) == order
