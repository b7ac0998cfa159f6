"""What promises and windows bound, a memory budget does not unbound: rows held after streams stalled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.testing import bag

KEYS = 20  # of a batch
BATCHES, STALL = 75, range(10, 25)
NAMES = ("news", "access")


def streams(window: str | None, lateness: str) -> list[bd.Stream]:
    time: dict[str, Any] = {} if window is None else {"time": "t", "window": window, "lateness": lateness}
    return [
        bd.Stream("news", "k", unique=True, **time),
        bd.Stream("access", "k", punctuation="over", **time),
    ]


def batches(silent: str, stalls: int, seed: int = 1) -> Iterator[dict[str, pa.Table]]:
    """Keys that live for two batches: news comes, is accessed in the next batch too, and is closed.

    A silent stream sends nothing for a while, and then all at once.
    """
    rng = np.random.default_rng(seed)
    late: dict[str, list[pa.Table]] = {name: [] for name in NAMES}
    for n in range(BATCHES):
        new = np.arange(n * KEYS, (n + 1) * KEYS)
        old = new - KEYS
        here = np.concatenate([rng.permutation(np.repeat(new, 3)), np.repeat(old, 2)])
        made = {"news": table(new, n), "access": table(here, n, closes=old)}
        stalled = any(n - 30 * again in STALL for again in range(stalls))
        for name in NAMES:
            late[name].append(made[name])
            if stalled and name == silent:
                made[name] = made[name].slice(0, 0)
            else:
                made[name], late[name] = pa.concat_tables(late[name]), []
        yield made


def table(keys: Any, n: int, closes: Any = ()) -> pa.Table:
    """Rows of a batch, and behind them punctuations."""
    everything = np.concatenate([keys, np.asarray(closes, np.int64)]).astype(np.int64)
    over = np.arange(len(everything)) >= len(keys)
    return pa.table(
        {
            "k": everything,
            "t": pa.array(np.full(len(everything), 1000 * n), pa.timestamp("us"), mask=over),
            "over": over,
            "pad": pa.array(["x" * 40] * len(everything), pa.string(), mask=over),
        }
    )


def held(join: bd.LocalJoin) -> int:
    """Rows in memory and on disk."""
    return sum(s.live_rows + s.spilled_rows for s in join.stats().streams.values())


@pytest.mark.parametrize("defer", [False, True])
@pytest.mark.parametrize(
    ("silent", "stalls", "window", "lateness"),
    [
        ("access", 1, None, ""),
        ("news", 1, None, ""),
        ("access", 2, None, ""),
        ("news", 2, None, ""),
        ("access", 1, "20000 us", "0 us"),
        ("news", 1, "20000 us", "3000 us"),
    ],
)
def test_after_a_stall_a_budget_holds_no_more_than_twice_what_is_held_without(
    silent: str, stalls: int, window: str | None, lateness: str, *, defer: bool
) -> None:
    free, bounded = (
        bd.LocalJoin(bd.JoinQuery(streams(window, lateness), memory=memory))
        for memory in (None, bd.Memory(20_000, defer=defer))
    )
    spilled = 0
    found: list[list[pa.Table]] = [[], []]
    for batch in batches(silent, stalls):
        for join, of_join in zip((free, bounded), found, strict=True):
            of_join.append(join.push(batch))
        spilled = max(spilled, sum(s.spilled_rows for s in bounded.stats().streams.values()))
    assert spilled > 5 * KEYS  # or nothing was tested
    latest = 6 * KEYS if defer else 0  # rows that wait for the next step to meet those on disk
    assert held(bounded) <= 2 * held(free) + latest
    for join, of_join in zip((free, bounded), found, strict=True):
        of_join.append(join.end())
    without, within = (bag(pa.concat_tables(of_join)) for of_join in found)
    assert without == within


@pytest.mark.parametrize("defer", [False, True])
def test_keys_with_many_rows_do_not_pile_up_on_disk(defer: bool) -> None:
    """How many rows a key has was guessed until groups were first looked through, which with `defer` was
    when half of the rows on disk were dead by that guess: if a key had seven times as many, never."""
    streams_ = [bd.Stream(n, "k", punctuation="over") for n in NAMES]
    tuning = bd.Tuning(purge="immediate")
    free, bounded = (
        bd.LocalJoin(bd.JoinQuery(streams_, tuning=tuning, memory=memory))
        for memory in (None, bd.Memory(20_000, defer=defer))
    )
    for n in range(40):
        new = np.arange(5 * n, 5 * n + 5)
        few = np.concatenate([new[:1], new[:1], np.repeat(new - 10, 2 if n > 1 else 0)])
        batch = {
            "news": table(np.repeat(new, 12), n, closes=new - 5),
            "access": table(few, n, closes=new - 15),
        }
        for join in (free, bounded):
            join.push({name: rows.drop_columns(["t"]) for name, rows in batch.items()})
    assert held(bounded) <= 2 * held(free)
    over = table([], 0, closes=np.arange(200)).drop_columns(["t"])
    for join in (free, bounded):
        join.push(dict.fromkeys(NAMES, over))
        for _ in range(30):  # merges first, one at a time
            join.push({})
    assert held(bounded) == held(free) == 0
