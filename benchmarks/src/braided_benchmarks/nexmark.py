"""Nexmark's streams, generated: persons, auctions and bids of an auction site. Seeded.

Of 50 events one is a person who registers, three are auctions that open and 46 are bids, always in this
order, as in Nexmark's own generator. So an id can be computed from the number of the event, and every id that
a row names was given out before it: the seller of an auction, the auction and the bidder of a bid.

| Nexmark | here |
| --- | --- |
| person, auction, bid | tables `persons`, `auctions`, `bids`, with most of their columns |
| dateTime | `registered_at`, `opened_at`, `bid_at`: event n happens n / `events_per_second` after the start |
| hot sellers, auctions, bidders | `hot_share` of the rows name the latest hot one: every 100th id is hot |
| active people, auctions in flight | other rows name one of the `active` latest ids |
| out of order events | `disorder_s`: a row arrives up to so many seconds after it happened |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from braided.policies.arrays import Int64s
from braided.query.errors import InvalidValue

TIMES = {"persons": "registered_at", "auctions": "opened_at", "bids": "bid_at"}
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CATEGORIES = (10, 11, 12, 13, 14)

_ROUND, _PERSONS, _AUCTIONS = 50, 1, 3
_FIRST_ID = 1000
_HOT_EVERY = 100
_START_US = 1_767_225_600_000_000  # 2026-01-01
_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_CITIES = ("Phoenix", "Palo Alto", "Boise", "Portland", "Seattle", "Cheyenne")  # one a state
_ITEMS = ("bicycle", "lamp", "piano", "sofa", "stamps", "violin")
_CHANNELS = ("Apple", "Google", "Facebook", "Baidu")


@dataclass(frozen=True)
class Nexmark:
    """How many events, how fast, and how they are spread."""

    events: int
    events_per_second: float = 100.0
    active: int = 100
    hot_share: float = 0.5
    disorder_s: float = 0.0

    def __post_init__(self) -> None:
        for option, least in (("events", 0), ("active", 1), ("hot_share", 0), ("disorder_s", 0)):
            value = getattr(self, option)
            if not value >= least:
                raise InvalidValue(f"Nexmark: {option} must be at least {least}; got {value}")
        if not self.events_per_second > 0:
            raise InvalidValue(
                f"Nexmark: events_per_second must be more than 0; got {self.events_per_second}"
            )
        if self.hot_share > 1:
            raise InvalidValue(f"Nexmark: hot_share must be at most 1; got {self.hot_share}")


def tables(workload: Nexmark, *, seed: int = 0) -> dict[str, pa.Table]:
    """The three streams, their rows in the order they arrive; ids count from 1000.

    >>> {name: table.num_rows for name, table in tables(Nexmark(events=1000)).items()}
    {'persons': 20, 'auctions': 60, 'bids': 920}
    """
    rng = np.random.default_rng(seed)
    place = np.arange(workload.events) % _ROUND
    numbers = np.arange(workload.events)
    is_person, is_bid = place < _PERSONS, place >= _PERSONS + _AUCTIONS
    made = {
        "persons": _persons(numbers[is_person], rng),
        "auctions": _auctions(workload, numbers[~is_person & ~is_bid], rng),
        "bids": _bids(workload, numbers[is_bid], rng),
    }
    kinds = {"persons": is_person, "auctions": ~is_person & ~is_bid, "bids": is_bid}
    return {name: _arrived(workload, name, made[name], numbers[kinds[name]], rng) for name in made}


def _persons(numbers: Int64s, rng: np.random.Generator) -> pa.Table:
    home = rng.integers(0, len(STATES), len(numbers))
    columns = {
        "id": _FIRST_ID + numbers // _ROUND,
        "name": _words(_NAMES, rng.integers(0, len(_NAMES), len(numbers))),
        "city": _words(_CITIES, home),
        "state": _words(STATES, home),
    }
    return pa.table(columns)


def _auctions(workload: Nexmark, numbers: Int64s, rng: np.random.Generator) -> pa.Table:
    initial = rng.integers(1, 1000, len(numbers))
    columns = {
        "id": _FIRST_ID + numbers // _ROUND * _AUCTIONS + numbers % _ROUND - _PERSONS,
        "item": _words(_ITEMS, rng.integers(0, len(_ITEMS), len(numbers))),
        "initial_bid": initial,
        "reserve": initial + rng.integers(1, 1000, len(numbers)),
        "seller": _named(workload, _persons_before(numbers), rng),
        "category": np.array(CATEGORIES)[rng.integers(0, len(CATEGORIES), len(numbers))],
    }
    return pa.table(columns)


def _bids(workload: Nexmark, numbers: Int64s, rng: np.random.Generator) -> pa.Table:
    columns = {
        "auction": _named(workload, (numbers // _ROUND + 1) * _AUCTIONS, rng),
        "bidder": _named(workload, _persons_before(numbers), rng),
        "price": rng.integers(1, 10_000, len(numbers)),
        "channel": _words(_CHANNELS, rng.integers(0, len(_CHANNELS), len(numbers))),
    }
    return pa.table(columns)


def _persons_before(numbers: Int64s) -> Int64s:
    """How many persons have registered: the first event of each round is one."""
    return numbers // _ROUND + 1


def _named(workload: Nexmark, given: Int64s, rng: np.random.Generator) -> Int64s:
    """For each row one of the `given` ids there are by then: the latest hot one, or one of the latest."""
    back = (rng.random(len(given)) * np.minimum(given, workload.active)).astype(np.int64)
    hot = (given - 1) // _HOT_EVERY * _HOT_EVERY
    is_hot = rng.random(len(given)) < workload.hot_share
    return _FIRST_ID + np.where(is_hot, hot, given - 1 - back)


def _arrived(
    workload: Nexmark, name: str, table: pa.Table, numbers: Int64s, rng: np.random.Generator
) -> pa.Table:
    """The rows with their times, in the order they arrive."""
    us = (numbers * (1e6 / workload.events_per_second)).astype(np.int64)
    stamps = pa.array(us + _START_US).cast(pa.timestamp("us", tz="UTC"))
    arrival = np.argsort(us + rng.uniform(0, 1e6 * workload.disorder_s, len(us)), kind="stable")
    return table.append_column(TIMES[name], stamps).take(pa.array(arrival))


def _words(words: Sequence[str], picked: Int64s) -> pa.Array:
    return pa.array(words).take(pa.array(picked))
