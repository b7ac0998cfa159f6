"""A web shop's streams, generated: orders, their payments, their shipments. Seeded, in order of time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import braided as bd

_START_US = 1_767_225_600_000_000  # 2026-01-01
_MINUTE_US = 60_000_000


def query() -> bd.JoinQuery:
    """Orders with their payment within an hour and their shipment: the README's join."""
    return bd.JoinQuery(
        [
            bd.Stream("orders", key="order_id", time="placed_at", window="2 hours", lateness="1 minute"),
            bd.Stream("payments", key="order_id", time="paid_at", window="2 hours", lateness="1 minute"),
            bd.Stream("shipments", key="order_id", time="sent_at", window="10 minutes", lateness="1 minute"),
        ],
        within={("orders", "payments"): "1 hour"},
    )


def tables(orders: int, *, seed: int = 0) -> dict[str, pa.Table]:
    """Orders over a day and a half; most are paid, fewer are shipped while still joinable."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(orders)
    placed = np.sort(rng.integers(0, 36 * 60 * _MINUTE_US, orders))
    paid = placed + rng.exponential(20 * _MINUTE_US, orders).astype(np.int64)
    sent = paid + rng.exponential(30 * _MINUTE_US, orders).astype(np.int64)
    is_paid, is_sent = rng.random(orders) < 0.9, rng.random(orders) < 0.8
    amounts = np.round(rng.gamma(2.0, 40.0, orders), 2)
    return {
        "orders": _table({"order_id": ids, "amount": amounts}, "placed_at", placed, rng),
        "payments": _table(
            {"order_id": ids[is_paid], "method": _pick(rng, ("card", "transfer", "wallet"), is_paid.sum())},
            "paid_at", paid[is_paid], rng,
        ),
        "shipments": _table(
            {"order_id": ids[is_sent], "carrier": _pick(rng, ("north", "south"), is_sent.sum())},
            "sent_at", sent[is_sent], rng,
        ),
    }  # fmt: skip


def _pick(rng: np.random.Generator, words: tuple[str, ...], rows: int) -> pa.Array:
    return pa.array(words).take(pa.array(rng.integers(0, len(words), rows)))


def _table(columns: dict[str, object], time: str, us: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """The rows as they arrive: up to a minute out of order."""
    arrival = np.argsort(us + rng.uniform(0, _MINUTE_US, len(us)), kind="stable")
    stamps = pa.array(us + _START_US).cast(pa.timestamp("us", tz="UTC"))
    return pa.table({**columns, time: stamps}).take(pa.array(arrival))
