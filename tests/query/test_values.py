"""Queries are values: frozen, comparable, hashable, to and from plain dicts; and they explain themselves."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json

import pytest

import braided as bd
from braided.query.durations import to_text, to_us


def query(**options: object) -> bd.JoinQuery:
    return bd.JoinQuery(
        [
            bd.Stream("orders", key="order_id", time="placed_at", window="2 hours", lateness="1 minute"),
            bd.Stream("payments", key="order_id", time="paid_at", window=bd.CountWindow(3)),
            bd.Stream("shipments", key="order_id", time="sent_at", window="unbounded", unique=True),
        ],
        within={("payments", "orders"): ("-1 hour", "0 s"), ("orders", "payments"): "90 minutes"},
        where="orders.amount > payments.amount",
        select={"id": "orders.order_id"},
        tuning=bd.Tuning(probe_order="fixed", index={"orders": "hash"}, purge=bd.BatchPurge(7)),
        **options,  # type: ignore[arg-type]
    )


def test_equal_values_are_equal_and_hash_alike() -> None:
    assert query() == query()
    assert hash(query()) == hash(query())
    assert bd.Stream("a", key="k", time="t", window="2 hours") == bd.Stream(
        "a", key=("k",), time="t", window=dt.timedelta(minutes=120)
    )


def test_values_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        query().where = None  # type: ignore[misc]


def test_to_dict_and_back_through_json() -> None:
    plain = json.loads(json.dumps(query().to_dict()))
    assert bd.JoinQuery.from_dict(plain) == query()
    assert bd.Tuning.from_dict(bd.Tuning().to_dict()) == bd.Tuning()


def test_within_keeps_the_tightest_bound_of_a_pair() -> None:
    assert query().pairs == ((("orders", "payments"), ("0 seconds", "1 hour")),)


def test_the_fingerprint_is_the_meaning_and_nothing_else() -> None:
    base = query()
    assert dataclasses.replace(base, tuning=bd.Tuning(seed=9)).fingerprint() == base.fingerprint()
    assert dataclasses.replace(base, where=None).fingerprint() != base.fingerprint()


def test_bounds_are_closed_by_shortest_paths() -> None:
    bounded = bd.JoinQuery(
        [bd.Stream(n, key="k", time="t") for n in "abc"],
        within={("a", "b"): ("0 us", "5 us"), ("b", "c"): ("1 us", "5 us")},
    )
    assert bounded.bounds.matrix == ((0, 5, 10), (0, 0, 5), (-1, -1, 0))
    assert [bounded.bounds.retention_us(i) for i in range(3)] == [10, 5, -1]


def test_explain_says_what_a_newcomer_asks() -> None:
    text = query().explain()
    for words in (
        "orders.order_id = payments.order_id = shipments.order_id",
        "a row is forgotten 2 hours after its placed_at",
        "until 3 newer rows of its key came",
        "from 0 seconds to 1 hour after orders",
        "where: orders.amount > payments.amount",
        "id (from orders.order_id)",
        "wait until the watermark",
    ):
        assert words in text, text


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("2 hours", 7_200_000_000),
        ("100 ms", 100_000),
        ("1 minute 30 seconds", 90_000_000),
        ("1.5 h", 5_400_000_000),
        ("-3 µs", -3),
        ("1 day, 1 us", 86_400_000_001),
        ("0 s", 0),
    ],
)
def test_durations(text: str, us: int) -> None:
    assert to_us(text) == us
    assert to_us(to_text(us)) == us
