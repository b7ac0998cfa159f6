"""Layouts: the shares that copy least, where rows go, and what is said of it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import braided as bd
from braided.query.layout import Layout, check_rates, choose, dimensions_of, in_stages

TWO_KEYS = [("orders.customer", "customers.id"), ("orders.item", "items.id")]


def two_keys(**options: object) -> bd.JoinQuery:
    return bd.JoinQuery([bd.Stream(n) for n in ("orders", "customers", "items")], on=TWO_KEYS, **options)  # type: ignore[arg-type]


def test_one_key_of_several_columns_is_one_dimension() -> None:
    query = bd.JoinQuery([bd.Stream(n, key=("k", "m")) for n in "abc"])
    layout = choose(query, 16)
    assert layout.shares == (16,)
    assert [layout.copies(n) for n in "abc"] == [1, 1, 1]
    assert layout.dimensions[0].columns("b") == ("k", "m")


def test_keys_of_the_same_streams_are_one_dimension() -> None:
    on = [("a.k", "b.k"), ("a.m", "b.m"), ("b.k", "c.k")]
    dimensions = dimensions_of(bd.JoinQuery([bd.Stream(n) for n in "abc"], on=on))
    assert [[str(d)] for d in dimensions] == [["a.k = b.k = c.k"]]
    assert len(dimensions_of(two_keys())) == 2


def test_every_result_has_one_cell_and_every_row_is_sent_there() -> None:
    for layout in (choose(two_keys(), 8), choose(two_keys(), 16, {"items": 1.0})):
        for cell in range(layout.cells):
            at = [cell // stride % share for stride, share in zip(layout.strides, layout.shares, strict=True)]
            for name in ("orders", "customers", "items"):
                known = zip(layout.dimensions, at, layout.strides, strict=True)
                own = sum(c * stride for d, c, stride in known if d.known_to(name))
                assert [own + offset for offset in layout.offsets(name)].count(cell) == 1


@pytest.mark.parametrize("seed", range(40))
def test_the_shares_copy_least_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"s{i}" for i in range(int(rng.integers(2, 6)))]
    on = [
        (f"s{rng.integers(i)}.c{rng.integers(2)}", f"s{i}.c{rng.integers(2)}") for i in range(1, len(names))
    ]
    query = bd.JoinQuery([bd.Stream(n) for n in names], on=on)
    rates = {n: float(10 ** rng.uniform(0, 4)) for n in names}
    bits = int(rng.integers(0, 6))
    chosen = choose(query, 1 << bits, rates)
    assert chosen.cells == 1 << bits
    every = itertools.product(range(bits + 1), repeat=len(chosen.dimensions))
    best = min(
        Layout(chosen.dimensions, tuple(1 << e for e in exponents)).sent(rates)
        for exponents in every
        if sum(exponents) == bits
    )
    assert math.isclose(chosen.sent(rates), best)


def test_a_grid_is_cheaper_than_stages_until_it_copies_much() -> None:
    query = two_keys()
    assert not in_stages(query, choose(query, 8))[0]
    staged, reason = in_stages(query, choose(query, 64))
    assert staged
    assert "5.7 copies" in reason
    assert not in_stages(query, choose(query, 64), dict.fromkeys(query.names, 1000.0))[0]


def test_explain_shows_layout_copies_and_reason() -> None:
    text = two_keys().explain(buckets=8)
    assert "on Spark: a grid (2.3 copies of a row on average" in text
    assert "a row goes to one cell, of customers to 2, of items to 4" in text
    assert "on Spark: stages (5.7 copies" in two_keys().explain(buckets=64)
    budget = two_keys(overload=bd.Overload(probes=5)).explain(buckets=64)
    assert "a budget needs it" in budget
    one = bd.JoinQuery([bd.Stream(n, key="k") for n in "ab"])
    assert "on Spark" not in one.explain()
    assert "  8 cells: 8 by a.k = b.k" in one.explain(buckets=8)
    keyless = bd.JoinQuery([bd.Stream(n) for n in "ab"], where="a.x < b.x")
    assert "8 cells: 4 by rows of a x 2 by rows of b" in keyless.explain()


@pytest.mark.parametrize(
    "rates", [{"nobody": 1.0}, {"orders": -1.0}, {"orders": math.inf}, {"orders": "many"}]
)
def test_rates_that_cannot_be(rates: dict[str, float]) -> None:
    with pytest.raises(bd.BraidedError, match="rates"):
        check_rates(two_keys(), rates)
