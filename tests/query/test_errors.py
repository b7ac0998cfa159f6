"""Errors say what they are about in fields, travel between processes, and never show credentials."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import braided as bd
from braided.jobs import JobError
from braided.query.errors import BrokenPromise, InvalidType, InvalidValue, SpillFailed, UnknownName, about
from braided.query.masking import masked


def query(**options: Any) -> bd.JoinQuery:
    streams = [bd.Stream(n, key="k", time="t", window="1 hour") for n in ("orders", "payments")]
    return bd.JoinQuery(options.pop("streams", streams), **options)


def from_file(**options: Any) -> bd.JoinQuery:
    stream = {"key": "k", "time": "t", "window": "1 hour"}
    return bd.JoinQuery.from_dict({"streams": {"orders": stream, "payments": {**stream, **options}}})


FIELDS: dict[str, tuple[Callable[[], object], tuple[str | None, str | None, Any]]] = {
    "a window": (lambda: bd.Stream("a", window="1 huor"), ("a", "window", None)),
    "a count window": (lambda: bd.Stream("a", window={"rows": 0}), ("a", "window", ("rows",))),  # type: ignore[arg-type]
    "a choice": (lambda: bd.Stream("a", arrival="x"), ("a", "arrival", None)),  # type: ignore[arg-type]
    "a name": (lambda: bd.Stream("a b"), (None, "name", None)),
    "an option": (lambda: bd.Stream("a", tiem="x"), (None, "tiem", None)),  # type: ignore[call-arg]
    "an option in a file": (lambda: from_file(tiem="x"), ("payments", "tiem", None)),
    "a lateness in a file": (lambda: from_file(lateness=3), ("payments", "lateness", None)),
    "a range": (lambda: from_file(punctuation={"flag": "f"}), ("payments", "punctuation", ("upto",))),
    "a limit": (lambda: bd.Memory("5 MBB"), (None, "limit", None)),
    "a missing limit": (bd.Memory, (None, "limit", None)),  # type: ignore[dict-item]
    "memory of a query": (lambda: query(memory={"limit": 1}), (None, "memory", ("limit",))),
    "no index": (lambda: bd.Tuning(index={"a": "x"}), (None, "index", ("a",))),  # type: ignore[dict-item]
    "tuning of no stream": (
        lambda: query(tuning=bd.Tuning(index={"order": "hash"})),
        (None, "tuning", ("index", "order")),
    ),
    "a purge": (lambda: query(tuning={"purge": {"every": 0}}), (None, "tuning", ("purge", "every"))),
    "a budget": (
        lambda: query(overload=bd.Overload(1, shed="input", allocation="window-inverse"),
                      streams=[bd.Stream(n, key="k") for n in "ab"]),
        ("a", "overload", ("allocation",)),
    ),
    "a bound": (lambda: query(within={"orders, paymnts": "1 hour"}), (None, "within", ("orders, paymnts",))),
    "a pair": (lambda: query(on=[("orders.a", "payments.a"), "x"]), (None, "on", (1,))),
    "a selected column": (lambda: query(select={"x": "order.a"}), (None, "select", ("x",))),
    "a condition": (lambda: query(where="order.a > 1"), (None, "where", None)),
    "a plan": (lambda: query(plan=("orders",)), (None, "plan", None)),
    "freshness": (lambda: query(streams=[bd.Stream("a", "k", time="t", freshness="1 s"),
                                         bd.Stream("b", "k", time="t")]), ("a", "freshness", None)),
    "a word": (lambda: bd.sql("SELECT *\nFROM a WINDW"), (None, None, (2, 13))),
}  # fmt: skip


@pytest.mark.parametrize("mistake", FIELDS)
def test_an_error_says_what_it_is_about(mistake: str) -> None:
    """The line of a job file was guessed by matching words of messages."""
    make, fields = FIELDS[mistake]
    with pytest.raises(bd.BraidedError) as raised:
        make()
    assert (raised.value.stream, raised.value.option, raised.value.position) == fields, raised.value


def test_an_error_holds_the_value() -> None:
    with pytest.raises(InvalidType) as raised:
        bd.Stream("a", unique=3)  # type: ignore[arg-type]
    assert (raised.value.value, str(raised.value)) == (3, "stream 'a': unique must be True or False; got 3")


@pytest.mark.parametrize(
    "leaf", [InvalidValue, InvalidType, UnknownName, BrokenPromise, SpillFailed, JobError]
)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_errors_travel(leaf: type[bd.BraidedError], again: Callable[[Any], Any]) -> None:
    """A `JobError` could not be unpickled, and one about a lambda could not be pickled."""
    wrong = leaf(
        "job has 2 problems:\none\ntwo", stream="a", option="key", value=lambda: 1, position=(1, "x")
    )
    copied = again(wrong)
    assert type(copied) is leaf
    assert str(copied) == str(wrong)
    assert (copied.stream, copied.option, copied.position) == ("a", "key", (1, "x"))
    assert "lambda" in copied.value
    assert not isinstance(copied, JobError) or copied.lines == ("one", "two")


def test_what_is_inside_is_placed_inside() -> None:
    with pytest.raises(InvalidValue) as raised, about("tuning", stream="a"), about("purge", 3):
        raise InvalidValue("x", option="every", position=("y",))
    assert (raised.value.stream, raised.value.option, raised.value.position) == (
        "a",
        "tuning",
        ("purge", 3, "every", "y"),
    )


def test_a_number_too_long_to_print_is_an_error_like_others() -> None:
    """Python refuses to print whole numbers of more than 4,300 digits: the message itself raised."""
    for make in (
        lambda n: bd.Tuning(seed=n),
        bd.Memory,
        bd.Overload,
        bd.CountWindow,
    ):
        with pytest.raises(bd.BraidedError, match="too long to print"):
            make(10**5000)
    with pytest.raises(bd.BraidedError, match="limit must be at most"):
        bd.Memory("9" * 400 + " GB")


SECRETS = {
    "s3a://KEY:se/cr@et@bucket/orders": "s3a://***@bucket/orders",
    "jdbc:postgresql://host:5432/db?user=a&password=pw&ssl=true": (
        "jdbc:postgresql://host:5432/db?user=a&password=***&ssl=true"
    ),
    "jdbc:oracle:thin:scott/tiger@//host:1521/x": "jdbc:oracle:***@//host:1521/x",
    "https://a.blob.core.windows.net/c?sv=1&sig=abc%3D&se=2": (
        "https://a.blob.core.windows.net/c?sv=1&sig=***&se=2"
    ),
    "https://h/x?token=abc": "https://h/x?token=***",
    'PlainLoginModule required username="u" password="p w";': (
        'PlainLoginModule required username="u" password=***;'
    ),
    "fs.azure.account.key.acc.dfs.core.windows.net=zzz": "fs.azure.account.key.acc.dfs.core.windows.net=***",
    "abfss://container@account.dfs.core.windows.net/x": "abfss://container@account.dfs.core.windows.net/x",
    "hdfs://name:8020/orders": "hdfs://name:8020/orders",
    "orders.token = payments.token": "orders.token = payments.token",
    "stream 'a': key='order_id'": "stream 'a': key='order_id'",
}


@pytest.mark.parametrize("text", SECRETS)
def test_credentials_are_masked(text: str) -> None:
    """Paths with keys in them were printed in errors, in `explain` and by `repr`."""
    assert masked(text) == SECRETS[text]
    assert str(InvalidValue(text)) == SECRETS[text]


def test_options_are_masked_by_their_names() -> None:
    options = {
        "kafka.sasl.jaas.config": "x",
        "kafka.ssl.key.password": "x",
        "fs.s3a.access.key": "x",
        "key": "k",
    }
    assert masked({"options": options, "paths": ["s3a://a:b@c"]}) == {
        "options": {**dict.fromkeys(options, "***"), "key": "k"},
        "paths": ["s3a://***@c"],
    }
