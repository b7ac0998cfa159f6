"""The testing kit notices what is wrong."""

from __future__ import annotations

import pyarrow as pa
import pytest

import braided as bd
from braided.testing import (
    assert_same_bag,
    expect_late,
    expect_results,
    expect_state,
    expected,
    push,
    restore,
    run_script,
)

QUERY = bd.JoinQuery([bd.Stream(n, key="k", time="t", window="10 us") for n in "ab"])
ROWS = push(a=[{"k": 1, "t": 0}], b=[{"k": 1, "t": 1}])


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (expect_results(), "expected 0 results; got 1"),
        (expect_results({"a_k": 2}), "step 2"),
        (expect_results({"a_k": 1}, {"a_k": 1}), "expected 2 results; got 1"),
        (expect_state(a=2), "got {'a': 1}"),
        (expect_late(b=1), "got {'b': 0}"),
        (restore(), "needs a snapshot"),
    ],
)
def test_a_script_fails_where_it_should(step: object, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        run_script(QUERY, ROWS, step)  # type: ignore[arg-type]


def test_bags_that_differ_are_told_apart() -> None:
    table = pa.table({"x": [1, 1, 2]})
    assert_same_bag(table, pa.table({"x": [2, 1, 1]}))
    with pytest.raises(AssertionError, match="missing 1, doubled or wrong 0"):
        assert_same_bag(pa.table({"x": [1, 2]}), table)
    with pytest.raises(AssertionError, match="missing 0, doubled or wrong 1"):
        assert_same_bag(pa.table({"x": [1, 1, 1, 2]}), table)


def test_the_oracle_on_an_example_by_hand() -> None:
    a = pa.table({"k": [1, 1, None], "t": [0, 5, 5]})
    b = pa.table({"k": [1, 2, None], "t": [11, 5, 5]})
    assert expected(QUERY, {"a": a, "b": b}).to_pylist() == [
        {"a_k": 1, "a_t": 5, "b_k": 1, "b_t": 11, "result_time": 11}
    ]


@pytest.mark.parametrize("punctuation", ["over", bd.RangePunctuation("over", "upto")])
def test_the_oracle_knows_that_punctuations_are_no_data(punctuation: bd.RangePunctuation | str) -> None:
    query = bd.JoinQuery([bd.Stream("a", "k", unique=True), bd.Stream("b", "k", punctuation=punctuation)])
    b: dict[str, list[object]] = {"k": [1, 1, None], "over": [False, True, None]}
    if punctuation != "over":
        b["upto"] = [None, 1, None]
    tables = {"a": pa.table({"k": [1, 2]}), "b": pa.table(b)}
    assert_same_bag(expected(query, tables), bd.run_local(query, tables))
    assert expected(query, tables).to_pylist() == [{"a_k": 1, "b_k": 1}]
