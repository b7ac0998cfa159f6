"""What a bucket reads and writes in a steady join: what is new, however much it holds.

The rows held are in the arena as long as it can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.spark.storage import folders
from braided.spark.storage.store import META, Meta
from tests.spark.test_bucket import Cluster, Memory

ROWS = 120  # of a stream and batch
PAD = "x" * 40


class Counting(Memory):
    """A bucket's state that counts bytes and calls."""

    def __init__(self) -> None:
        super().__init__()
        self.start()

    def start(self) -> None:
        self.meta_read = self.meta_written = self.read = self.written = 0

    def get(self, number: int) -> bytes | None:
        data = super().get(number)
        if number == META:
            self.meta_read += len(data or b"")
        else:
            self.read += len(data or b"")
        return data

    def put(self, number: int, data: bytes) -> None:
        if number == META:
            self.meta_written += len(data)
        else:
            self.written += len(data)
        super().put(number, data)


@pytest.fixture(autouse=True)
def own_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")


def plain_batches() -> Iterator[dict[str, pa.Table]]:
    """Two streams whose rows stay for good: state grows with every batch."""
    rng, at = np.random.default_rng(1), 0
    while True:
        times = np.arange(at, at + ROWS)
        keys = np.array([rng.permutation(times) for _ in "ab"])
        yield {
            n: pa.table({"k": keys[i], "t": times, "v": [f"{k}{PAD}" for k in keys[i]]})
            for i, n in enumerate("ab")
        }
        at += ROWS


def promised_batches() -> Iterator[dict[str, pa.Table]]:
    """The same, with punctuations for half of the keys of the batch before."""
    before: list[np.ndarray] = [np.empty(0, np.int64)] * 2
    for batch in plain_batches():
        out = {}
        for i, (name, table) in enumerate(batch.items()):
            done = before[i][: ROWS // 2]
            before[i] = np.sort(table["k"].to_numpy())
            closing = pa.table(
                {"k": done, "t": np.full(len(done), table["t"][0].as_py()), "v": [None] * len(done)}
            ).cast(table.schema)
            flags = [True] * len(done) + [False] * ROWS
            out[name] = pa.concat_tables([closing, table]).append_column("p", pa.array(flags))
        yield out


def joins() -> dict[str, Any]:
    streams = [bd.Stream(n, "k", time="t") for n in "ab"]
    promising = [bd.Stream(n, "k", time="t", punctuation="p") for n in "ab"]
    budget = bd.Memory(60_000, groups=16)
    return {
        "plain": (bd.JoinQuery(streams), plain_batches),
        "promises": (bd.JoinQuery(promising), promised_batches),
        "memory": (bd.JoinQuery(streams, memory=budget), plain_batches),
    }


@dataclass
class Seen:
    """What a batch read and wrote, and how large small values and closed keys are after it."""

    read: int
    written: int
    meta_read: int
    meta_written: int
    closed_keys: int


def run(name: str, batches: int) -> tuple[list[Seen], int]:
    """What every batch did, and how many bytes are held at the end."""
    query, feed = joins()[name]
    source = feed()
    first = next(source)
    made = Cluster(query, first, arena=True)
    states = [Counting() for _ in made.states]
    made.states = list(states)
    seen = []
    for number in range(batches):
        for state in states:
            state.start()
        made.push(first if number == 0 else next(source))
        metas = [Meta.decode(state.meta) for state in states if state.meta is not None]
        closed = [c.size for m in metas for n, chunks in m.parts.items() if "/rows" not in n for c in chunks]
        names = ("read", "written", "meta_read", "meta_written")
        sums = {n: sum(getattr(s, n) for s in states) for n in names}
        seen.append(Seen(closed_keys=sum(closed), **sums))
    return seen, sum(len(data) for s in states for data in s.chunks.values())


@pytest.mark.parametrize("name", ["plain", "promises"])
def test_a_batch_writes_what_is_new_and_reads_the_small_value(name: str) -> None:
    seen, held = run(name, 40)
    one = seen[0].written
    assert held > 25 * one
    before = 0
    for batch in seen:
        assert batch.written - batch.closed_keys <= 2 * one
        assert batch.read == before  # the closed keys, and no row: these are in the arena
        before = batch.closed_keys
    assert (before > 0) == (name == "promises")
    assert before < held / 20
    assert seen[-1].meta_read <= held / 10
    assert seen[-1].meta_written - seen[-2].meta_written < 64 * 2 * 4  # what it says of a few more chunks


def test_a_memory_budget_writes_a_few_times_what_is_new() -> None:
    """A flush writes rows again, and a merge reads a group; neither grows with all that is held."""
    seen, held = run("memory", 40)
    one = seen[0].written
    assert held > 60 * one
    assert max(batch.written for batch in seen) <= 12 * one
    early, late = (np.mean([b.written for b in part]) for part in (seen[10:20], seen[30:]))
    assert late <= 1.5 * early
    assert np.mean([b.read for b in seen[30:]]) <= held / 4


def test_without_an_arena_all_rows_are_read() -> None:
    """So that the counts above mean something."""
    query, feed = joins()["plain"]
    source = feed()
    first = next(source)
    made = Cluster(query, first)
    states = [Counting() for _ in made.states]
    made.states = list(states)
    for batch in (first, next(source), next(source)):
        held = sum(len(data) for s in states for data in s.chunks.values())
        for state in states:
            state.start()
        made.push(batch)
        assert sum(s.read for s in states) == held
