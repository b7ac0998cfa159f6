"""What a bucket reads and writes in a steady join: what is new, however much it holds.

A batch of a join that holds a hundred batches wrote and read as much as one that holds ten.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.spark.storage import folders
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

    def get_meta(self) -> bytes | None:
        self.meta_read += len(self.meta or b"")
        return super().get_meta()

    def put_meta(self, data: bytes) -> None:
        self.meta_written += len(data)
        super().put_meta(data)

    def get_chunk(self, number: int) -> bytes | None:
        data = super().get_chunk(number)
        self.read += len(data or b"")
        return data

    def put_chunk(self, number: int, data: bytes) -> None:
        self.written += len(data)
        super().put_chunk(number, data)


@pytest.fixture(autouse=True)
def own_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(folders, "root", lambda: tmp_path / "arenas")


def plain_batches() -> Iterator[dict[str, pa.Table]]:
    """Two streams whose rows stay for good: state grows with every batch."""
    rng, at = np.random.default_rng(1), 0
    while True:
        times = np.arange(at, at + ROWS)
        keys = rng.integers(0, 1 << 40, (2, ROWS))
        yield {n: pa.table({"k": keys[i], "t": times, "v": [f"{k}{PAD}" for k in keys[i]]}) for i, n in enumerate("ab")}
        at += ROWS


def promised_batches() -> Iterator[dict[str, pa.Table]]:
    """The same, with punctuations for half of the keys of the batch before."""
    before: list[np.ndarray] = [np.empty(0, np.int64)] * 2
    for batch in plain_batches():
        out = {}
        for i, (name, table) in enumerate(batch.items()):
            done = before[i][: ROWS // 2]
            before[i] = table["k"].to_numpy()
            closing = pa.table(
                {"k": done, "t": np.full(len(done), table["t"][0].as_py()), "v": [None] * len(done)}
            ).cast(table.schema)
            flags = [True] * len(done) + [False] * ROWS
            out[name] = pa.concat_tables([closing, table]).append_column("p", pa.array(flags))
        yield out


def joins() -> dict[str, Any]:
    streams = [bd.Stream(n, "k", time="t") for n in "ab"]
    promising = [bd.Stream(n, "k", time="t", punctuation="p") for n in "ab"]
    budget = bd.Memory(60_000, defer=False, groups=16, interval="1 millisecond")
    return {
        "plain": (bd.JoinQuery(streams), plain_batches),
        "promises": (bd.JoinQuery(promising), promised_batches),
        "memory": (bd.JoinQuery(streams, memory=budget), plain_batches),
    }


def run(name: str, batches: int) -> tuple[list[dict[str, int]], int]:
    """What every batch read and wrote, and how many bytes are held at the end."""
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
        names = ("meta_read", "meta_written", "read", "written")
        seen.append({n: sum(getattr(s, n) for s in states) for n in names})
    return seen, sum(len(data) for s in states for data in s.chunks.values())


@pytest.mark.parametrize("name", joins())
def test_a_batch_writes_what_is_new(name: str) -> None:
    seen, held = run(name, 40)
    one = seen[0]["written"]
    print(name, held, one, [s["written"] for s in seen], [s["read"] for s in seen], [s["meta_read"] for s in seen], [s["meta_written"] for s in seen])
    assert held > 12 * one
