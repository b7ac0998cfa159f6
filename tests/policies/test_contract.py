"""One contract for all policies of a family: they are pure, and answer what was asked."""

from __future__ import annotations

import itertools

import pytest

from braided.policies.allowance import Unlimited
from braided.policies.choice import DRIVER_POLICIES, PROBE_ORDER_POLICIES
from braided.policies.decisions import HalfJoinCounts, Turn

TURNS = [
    Turn(waiting, stored)
    for waiting in itertools.product((0, 1, 50), repeat=3)
    for stored in itertools.product((0, 1, 50), repeat=3)
    if any(waiting)
]
COUNTS = [
    HalfJoinCounts(((0, p, p),) * 3, ((0, m, m // 2),) * 3) for p in (0, 10, 1000) for m in (0, 7, 3000)
]


@pytest.mark.parametrize("name", DRIVER_POLICIES)
def test_driver_policies_choose_a_waiting_stream(name: str) -> None:
    policy = DRIVER_POLICIES[name]()
    for turn in TURNS:
        chosen = policy.choose(turn)
        assert turn.waiting_rows[chosen] > 0
        assert policy.choose(turn) == chosen


@pytest.mark.parametrize("name", PROBE_ORDER_POLICIES)
def test_probe_orders_name_every_other_stream_once(name: str) -> None:
    policy = PROBE_ORDER_POLICIES[name]()
    for turn, counts, driver in itertools.product(TURNS[:50], COUNTS, range(3)):
        order = policy.order(driver, turn, counts)
        assert sorted((driver, *order)) == [0, 1, 2]
        assert policy.order(driver, turn, counts) == order


def test_the_unlimited_allowance_covers_every_partner() -> None:
    assert len(Unlimited().allow(0, (1, 2), TURNS[0])) == 2
