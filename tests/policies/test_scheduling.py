"""The decisions of scheduling, one by one."""

from __future__ import annotations

import numpy as np
import pytest

import braided as bd
from braided.policies import queues as policy


def turns(waiting: list[int], quota: int) -> list[tuple[int, int]]:
    """The queues that are read, and how many rows, until all are empty."""
    taken: tuple[int, ...] = (0,) * len(waiting)
    made = []
    while any(waiting):
        turn = policy.by_priority(waiting, taken, quota)
        taken = turn.taken
        waiting[turn.place] -= turn.rows
        made.append((turn.place, turn.rows))
    return made


def test_two_queues_alternate_and_the_first_begins() -> None:
    assert turns([5, 7], 3) == [(0, 3), (1, 3), (0, 2), (1, 3), (1, 1)]


def test_no_queue_starves() -> None:
    assert [place for place, _ in turns([4, 4, 4], 2)] == [0, 1, 2, 0, 1, 2]


def test_random_turns_are_equally_likely_and_seeded() -> None:
    def drawn(seed: int) -> list[int]:
        rng = np.random.default_rng(seed)
        return [policy.at_random([1, 0, 900], 5, rng).place for _ in range(2000)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert set(drawn(1)) == {0, 2}
    assert 0.45 < np.mean(np.array(drawn(1)) == 0) < 0.55
    assert policy.at_random([3, 0], 5, np.random.default_rng(0)).rows == 3


def test_unique_streams_come_first_unless_told_otherwise() -> None:
    streams = [bd.Stream("a", "k"), bd.Stream("b", "k", unique=True), bd.Stream("c", "k")]
    query = bd.JoinQuery(streams)
    assert policy.priorities(bd.Scheduling(), query) == ("b", "a", "c")
    assert policy.priorities(bd.Scheduling(order=["c"]), query) == ("c", "b", "a")
    with pytest.raises(bd.BraidedError, match="no stream 'd'"):
        policy.priorities(bd.Scheduling(order=["d"]), query)


@pytest.mark.parametrize("length", [1, 5, 64, 65, 1000])
def test_a_cluster_ends_where_its_key_does(length: int) -> None:
    codes = np.array([1, *[2] * length, 3, 2])
    assert policy.cluster_end(codes, 1) == 1
    assert policy.cluster_end(codes, 2) == 1 + length
    assert policy.cluster_end(codes[: 1 + length], 2) == 1 + length
    assert policy.cluster_end(codes, len(codes)) == len(codes)


def test_bad_options_are_refused_with_a_hint() -> None:
    with pytest.raises(bd.BraidedError, match="did you mean 'priority'"):
        bd.Scheduling("priorty")  # type: ignore[arg-type]
    with pytest.raises(bd.BraidedError, match="tuples must be one of"):
        bd.Scheduling(tuples="random")  # type: ignore[arg-type]
    for quota in (0, -1, 1.5, True):
        with pytest.raises(bd.BraidedError, match="quota must be"):
            bd.Scheduling(quota=quota)  # type: ignore[arg-type]
    with pytest.raises(bd.BraidedError, match="seed must be"):
        bd.Scheduling(seed=-1)
    for order in ("ab", [1], 7):
        with pytest.raises(bd.BraidedError, match="names of streams"):
            bd.Scheduling(order=order)  # type: ignore[arg-type]
    with pytest.raises(bd.BraidedError, match="twice"):
        bd.Scheduling(order=["a", "a"])
    made = bd.Scheduling("random", quota=3, order=["a", "b"], seed=4)
    assert bd.Scheduling.from_dict(made.to_dict()) == made
    assert hash(made) == hash(bd.Scheduling("random", quota=3, order=("a", "b"), seed=4))
