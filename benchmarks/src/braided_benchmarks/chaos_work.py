"""What a chaos campaign joins: generated streams, the query over them, and in SQL what must come out.

`Windowed` are three streams with windows, joined by one key, or by two in two stages. `Promised` are three
without windows, one unique and two punctuated: rows go, closed keys are kept and chunks are written anew all
the time. There the sink must also hold one announcement of each complete key, and the state store just the
rows that may still join: both are counted out of the whole input, by the rules of `docs/howto/promises.md`.
`Windowed` may have a memory budget; with `defer` what is owed at the end is asked for. It may have an
`Overload`, too: then results may be missing, and none wrong or doubled. `Optional` is a left
and an anti join: what waits for its deadline at the end is asked for, too. `Ended` is one with promises;
`AsOfs` is an as-of join.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

import braided as bd
from braided.policies.arrays import Bools, Int64s
from braided.testing.samples.files import add_file

NAMES = ("a", "b", "c")
LAST_KEY = {1: ("a.k", "c.k"), 2: ("b.m", "c.m")}  # beside a.k = b.k, by number of keys
WINDOW_S = 5


class Work(ABC):
    """Streams and their join."""

    columns: ClassVar[tuple[str, ...]]  # of the sink, to be compared
    live: ClassVar[str | None] = None  # SQL: how many rows the state must hold at the end, and of how many
    defer: bool = False  # whether results may be owed at the end
    lossy: bool = False  # whether results may be missing

    @property
    @abstractmethod
    def flags(self) -> list[str]:
        """As options of the command line."""

    @property
    @abstractmethod
    def schemas(self) -> dict[str, str]:
        """The streams' columns, as Spark writes them."""

    @property
    @abstractmethod
    def wanted(self) -> str:
        """SQL over the streams' files: the compared columns of all that the sink must hold."""

    @abstractmethod
    def query(self) -> bd.JoinQuery:
        """The join."""

    @abstractmethod
    def generate(self, root: Path, batches: int, seed: int) -> None:
        """A folder for each stream, with a file for each batch."""


@dataclass(frozen=True)
class Windowed(Work):
    """Files of random size, in order of time."""

    keys: int = 1
    limit: int = 0  # bytes of memory; 0: no budget
    defer: bool = False
    overload: str = ""  # options of `Overload`, as JSON
    freshness: str = ""  # of all streams
    columns: ClassVar[tuple[str, ...]] = ("a_v", "b_v", "c_v")

    @property
    def lossy(self) -> bool:  # type: ignore[override]  # an attribute of others
        """With a budget of probes or rows."""
        return bool(self.overload)

    @property
    def flags(self) -> list[str]:
        """As options of the command line."""
        flags = ["--keys", str(self.keys), "--limit", str(self.limit), *(["--defer"] if self.defer else [])]
        return [*flags, "--overload", self.overload, "--freshness", self.freshness]

    @property
    def schemas(self) -> dict[str, str]:
        """The streams' columns."""
        return dict.fromkeys(NAMES, "k long, t timestamp, v long, m long")

    @property
    def wanted(self) -> str:
        """All combinations inside the windows."""
        newest = "greatest(a.t, b.t, c.t)"
        near = " and ".join(f"epoch_us({newest}) - epoch_us({n}.t) <= {WINDOW_S * 1_000_000}" for n in NAMES)
        last = " = ".join(LAST_KEY[self.keys])
        return f"select a.v, b.v, c.v from a join b on a.k = b.k join c on {last} where {near}"

    def query(self) -> bd.JoinQuery:
        """The join, on one key or two."""
        window = f"{WINDOW_S} seconds"
        streams = [
            bd.Stream(
                n, key="k", time="t", window=window, lateness="0 seconds", freshness=self.freshness or None
            )
            for n in NAMES
        ]
        on = None if self.keys == 1 else [("a.k", "b.k"), LAST_KEY[self.keys]]
        memory = bd.Memory(self.limit, defer=self.defer) if self.limit else None
        overload = bd.Overload(**json.loads(self.overload)) if self.overload else None
        return bd.JoinQuery(streams, on=on, memory=memory, overload=overload)

    def generate(self, root: Path, batches: int, seed: int) -> None:
        """Keys at random."""
        _in_order(root, batches, seed, keys=300)


@dataclass(frozen=True)
class Optional(Work):
    """Rows of a with those of b or null, where c has none; c by the same key, or by another one.

    Half of the rows of a have no partner in b, and as many none in c; some keys are null.
    """

    keys: int = 1
    defer: bool = True
    columns: ClassVar[tuple[str, ...]] = ("a_v", "b_v")

    @property
    def flags(self) -> list[str]:
        """As options of the command line."""
        return ["--optional", "--keys", str(self.keys)]

    @property
    def schemas(self) -> dict[str, str]:
        """The streams' columns."""
        return dict.fromkeys(NAMES, "k long, t timestamp, v long, m long")

    @property
    def wanted(self) -> str:
        """All rows of a that meet none of c."""
        near = f"abs(epoch_us(a.t) - epoch_us(other.t)) <= {WINDOW_S * 1_000_000}"
        b, c = (near.replace("other", name) for name in NAMES[1:])
        return (
            f"select a.v, b.v from a left join b on a.k = b.k and {b} "
            f"where not exists (from c where {' = '.join(self._last)} and {c})"
        )

    @property
    def _last(self) -> tuple[str, str]:
        """What joins c: with two keys not b's m, which may be null."""
        return LAST_KEY[1] if self.keys == 1 else ("a.m", "c.m")

    def query(self) -> bd.JoinQuery:
        """The join, on one key or two."""
        window, hows = f"{WINDOW_S} seconds", ("inner", "left", "anti")
        streams = [
            bd.Stream(n, key="k", time="t", window=window, lateness="0 seconds", how=how)
            for n, how in zip(NAMES, hows, strict=True)
        ]
        return bd.JoinQuery(streams, on=[("a.k", "b.k"), self._last])

    def generate(self, root: Path, batches: int, seed: int) -> None:
        """Keys at random."""
        _in_order(root, batches, seed, keys=4_000, nulls=0.02)


@dataclass(frozen=True)
class AsOfs(Optional):
    """Rows of a with the newest of b before them, which must be there, and of c, or null."""

    columns: ClassVar[tuple[str, ...]] = ("a_v", "b_v", "c_v")

    @property
    def flags(self) -> list[str]:
        """As options of the command line."""
        return ["--as-of", "--keys", str(self.keys)]

    @property
    def wanted(self) -> str:
        """All rows of a with one of b."""

        def newest(stream: str, own: str, other: str) -> str:
            near = f"{own} = {other} and epoch_us(a.t) - epoch_us({stream}.t) between 0 and {WINDOW_S}000000"
            times = (
                f"(select a.v as of_v, max({stream}.t) as t from a join {stream} on {near} group by a.v) x"
            )
            again = f"a on a.v = of_v join {stream} on {own} = {other} and {stream}.t = x.t"
            return f"(select of_v, {stream}.v from {times} join {again})"

        b, c = newest("b", "a.k", "b.k"), newest("c", *self._last)
        return f"select a.v, b.v, c.v from a join {b} b on b.of_v = a.v left join {c} c on c.of_v = a.v"

    def query(self) -> bd.JoinQuery:
        """The join, on one key or two."""
        age = bd.AsOf(f"{WINDOW_S} seconds")
        return bd.JoinQuery(
            [
                bd.Stream("a", key="k", time="t", window="0 seconds", lateness="0 seconds"),
                bd.Stream("b", key="k", time="t", window=age, lateness="0 seconds"),
                bd.Stream("c", key="k", time="t", window=age, lateness="0 seconds", how="left"),
            ],
            on=[("a.k", "b.k"), self._last],
        )


def _in_order(root: Path, batches: int, seed: int, *, keys: int, nulls: float = 0.0) -> None:
    """Files of random size, in order of time."""
    rng, other = np.random.default_rng(seed), np.random.default_rng((seed, 2))
    for name in NAMES:
        sizes = rng.integers(50, 2_000, batches)
        times = np.sort(rng.integers(0, batches * 4_000_000, sizes.sum())) + 1_700_000_000_000_000
        k, m = (
            pa.array(r.integers(0, keys, len(times)), mask=_few(r, len(times), nulls)) for r in (rng, other)
        )
        stamps = pa.array(times, pa.timestamp("us", tz="UTC"))
        table = pa.table({"k": k, "t": stamps, "v": np.arange(len(times)), "m": m})
        for n, (start, size) in enumerate(zip(np.cumsum(sizes) - sizes, sizes, strict=True)):
            add_file(root / name, n, table.slice(start, size))


def _few(rng: np.random.Generator, rows: int, share: float) -> Bools | None:
    return rng.random(rows) < share if share else None


_BY_KEY = """
    with by_key as (
        select coalesce(a.k, b.k, c.k) as k,
            coalesce(a.n, 0) as a_rows, coalesce(b.n, 0) as b_rows, coalesce(c.n, 0) as c_rows,
            a_rows > 0 as a_over, coalesce(b.over, false) as b_over, coalesce(c.over, false) as c_over,
            (a_over and b_over and c_over) or (b_over and b_rows = 0) or (c_over and c_rows = 0) as complete
        from (select k, count(*) as n from a group by k) as a
        full join (select k, count(*) filter (not p) as n, bool_or(p) as over from b group by k) as b
            on a.k = b.k
        full join (select k, count(*) filter (not p) as n, bool_or(p) as over from c group by k) as c
            on coalesce(a.k, b.k) = c.k
    )
"""


@dataclass(frozen=True)
class Promised(Work):
    """A key's rows come within four batches of its birth, and its punctuations soon after, some twice.

    For one key in twenty the unique stream is slow, so that other rows stay for long, and among rows that
    have gone. Of a few keys a row or a punctuation never comes. The last batch brings all that is left.
    """

    columns: ClassVar[tuple[str, ...]] = ("a_k", "a_v", "b_v", "c_v", "punctuation")
    live: ClassVar[str | None] = (
        f"{_BY_KEY} select (sum(a_rows) filter (not complete and not (b_over and c_over)))"
        " + (sum(b_rows) filter (not complete and not (a_over and c_over)))"
        " + (sum(c_rows) filter (not complete and not (a_over and b_over))),"
        " sum(a_rows + b_rows + c_rows) from by_key"
    )

    @property
    def flags(self) -> list[str]:
        """As options of the command line."""
        return ["--promises"]

    @property
    def schemas(self) -> dict[str, str]:
        """The unique stream needs no punctuations."""
        return {n: "k long, v long" + ("" if n == "a" else ", p boolean") for n in NAMES}

    @property
    def wanted(self) -> str:
        """All combinations, and an announcement of each key that is complete."""
        return (
            f"{_BY_KEY} select a.k, a.v, b.v, c.v, false from a join b on a.k = b.k join c on a.k = c.k "
            "where not b.p and not c.p "
            "union all select k, null, null, null, true from by_key where complete"
        )

    def query(self) -> bd.JoinQuery:
        """The join; purging is as it is by default."""
        first, *others = NAMES
        unique = bd.Stream(first, "k", unique=True, window="unbounded")
        punctuated = [bd.Stream(n, "k", punctuation="p") for n in others]
        return bd.JoinQuery([unique, *punctuated], emit_punctuations=True)

    def generate(self, root: Path, batches: int, seed: int) -> None:
        """Each file is in random order."""
        rng = np.random.default_rng((seed, 3))
        born = np.repeat(np.arange(batches), rng.integers(100, 1_500, batches))
        keys = np.arange(len(born))
        slow = np.where(rng.random(len(keys)) < 0.05, 20, 0)
        for name in NAMES:
            unique = name == "a"
            k = _most(rng, keys) if unique else np.repeat(keys, rng.integers(0, 4, len(keys)))
            over = keys[:0] if unique else _most(rng, keys)
            over = np.append(over, over[::10])
            at = np.append(
                born[k] + rng.integers(0, 4, len(k)) + (slow[k] if unique else 0),
                born[over] + rng.integers(3, 7, len(over)),
            )
            flags = np.repeat([False, True], [len(k), len(over)])
            values = pa.array(np.arange(len(at)), mask=flags)
            table = pa.table({"k": np.append(k, over), "v": values, "p": flags})
            table = table.drop_columns("p") if unique else table
            for batch in range(batches):
                here = np.flatnonzero(np.minimum(at, batches - 1) == batch)
                add_file(root / name, batch, table.take(rng.permutation(here)))


@dataclass(frozen=True)
class Ended(Promised):
    """The same rows, and one is optional: b may be lacking, c must be; nulls come as keys are closed."""

    defer: bool = True
    columns: ClassVar[tuple[str, ...]] = ("a_k", "a_v", "b_v")
    live: ClassVar[str | None] = (
        f"{_BY_KEY} select sum(a_rows + b_rows + c_rows) filter (not (a_over and b_over and c_over)),"
        " sum(a_rows + b_rows + c_rows) from by_key"
    )

    @property
    def flags(self) -> list[str]:
        """As options of the command line."""
        return ["--promises", "--optional"]

    @property
    def wanted(self) -> str:
        """All rows of a without one of c."""
        return (
            "select a.k, a.v, b.v from a left join b on a.k = b.k and not b.p "
            "where not exists (from c where c.k = a.k and not c.p)"
        )

    def query(self) -> bd.JoinQuery:
        """The join; purging is as it is by default."""
        first, second, third = NAMES
        return bd.JoinQuery(
            [
                bd.Stream(first, "k", unique=True, window="unbounded"),
                bd.Stream(second, "k", punctuation="p", how="left"),
                bd.Stream(third, "k", punctuation="p", how="anti"),
            ]
        )


def _most(rng: np.random.Generator, keys: Int64s) -> Int64s:
    """All keys but a few."""
    return keys[rng.random(len(keys)) < 0.98]
