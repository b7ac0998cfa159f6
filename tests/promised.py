"""Random streams that keep what they promise, with their punctuations in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import braided as bd
from tests.workloads import KEY_TYPES

KINDS = ("any", "unique", "clustered", "ordered", "descending", "punctuated", "range", "unique-punctuated")


def promised_stream(name: str, kind: str, **options: Any) -> bd.Stream:
    """A stream of a kind, keyed by k with times t."""
    punctuation: Any = None
    arrival: Any = kind if kind in ("clustered", "ordered", "descending") else "any"
    if kind == "range":
        punctuation = bd.RangePunctuation("p", "upto")
    elif kind.endswith("punctuated"):
        punctuation = "p"
    return bd.Stream(
        name,
        options.pop("key", "k"),
        time="t",
        unique=kind.startswith("unique"),
        arrival=arrival,
        punctuation=punctuation,
        **options,
    )


def promised_table(
    rng: np.random.Generator,
    kind: str,
    *,
    rows: int,
    keys: int,
    key_type: str = "int64",
    compound: bool = False,
) -> pa.Table:
    """Rows (and punctuations, where p is true) of a stream of a kind; with `compound` k2 is a key, too."""
    numbers = rng.integers(0, keys, rows)
    if kind == "range":
        numbers = np.clip(np.arange(rows) * keys // rows + rng.integers(-2, 3, rows), 0, keys - 1)
    elif kind in ("ordered", "descending"):
        numbers = np.sort(numbers)[:: 1 if kind == "ordered" else -1]
    elif kind == "clustered":
        place = rng.permutation(keys)
        numbers = numbers[np.argsort(place[numbers], kind="stable")]
    elif kind.startswith("unique"):
        numbers = rng.permutation(keys)[: max(1, min(keys, rows))]
    items = [(int(n), False) for n in numbers]
    if kind.endswith("punctuated"):
        items = _punctuated(rng, items, keys)
    elif kind == "range":
        items = _ranges(items)
    flags = np.array([p for _, p in items], np.bool_)
    times = np.sort(rng.integers(0, 200, len(items)))
    values = KEY_TYPES[key_type](np.array([n for n, _ in items]))
    return pa.table(
        {
            "k": values,
            "k2": pa.array([f"second {n % 3}" if compound or not p else None for n, p in items], pa.string()),
            "t": pa.array(times).cast(pa.timestamp("us")),
            "v": pa.array(rng.integers(0, 1000, len(items)), mask=flags),
            "p": flags,
            "upto": values,
        }
    )


def data_of(table: pa.Table) -> pa.Table:
    """The same without punctuations and their columns."""
    if "p" not in table.column_names:
        return table
    rows = table.filter(pa.array(~table["p"].to_numpy(zero_copy_only=False)))
    return rows.drop_columns([c for c in ("p", "upto") if c in rows.column_names])


def plainly(query: bd.JoinQuery) -> bd.JoinQuery:
    """The query without any promise."""
    said = query.to_dict()
    for stream in said["streams"]:
        for promise in ("unique", "arrival", "punctuation"):
            stream.pop(promise, None)
    said.pop("emit_punctuations", None)
    return bd.JoinQuery.from_dict(said)


def batches_of(tables: dict[str, pa.Table], rows: int) -> list[dict[str, pa.Table]]:
    """All tables in step, so many rows at a time."""
    longest = max(t.num_rows for t in tables.values())
    return [{n: t.slice(at, rows) for n, t in tables.items()} for at in range(0, longest, rows)]


def _punctuated(
    rng: np.random.Generator, items: Sequence[tuple[int, bool]], keys: int
) -> list[tuple[int, bool]]:
    """With a punctuation somewhere behind the last row of most keys, seen or not."""
    last = {n: i for i, (n, _) in enumerate(items)}
    after: dict[int, list[int]] = {}
    for n in range(keys + 2):
        if rng.random() < 0.9:
            at = int(rng.integers(last.get(n, -1), len(items)))
            after.setdefault(at, []).append(n)
    made = [(n, True) for n in after.get(-1, ())]
    for i, item in enumerate(items):
        made += [item, *((n, True) for n in after.get(i, ()))]
    return made


def _ranges(items: Sequence[tuple[int, bool]]) -> list[tuple[int, bool]]:
    """With punctuations up to the largest value below all that is to come, now and then."""
    made: list[tuple[int, bool]] = []
    for i, item in enumerate(items):
        made.append(item)
        later = [n for n, _ in items[i + 1 :]]
        if i % 5 == 0 and (smallest := min(later, default=item[0] + 1)) > 0:
            made.append((smallest - 1, True))
    return made
