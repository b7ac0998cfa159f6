"""A saved state that is whole by its checksum but not by its content: one clear error, never a raw one.

A state with a missing part raised a KeyError. Here every number and every part of joins with each feature is
taken away or replaced by something else.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import braided as bd
from braided.engine import snapshot
from braided.engine.state import FORMAT
from tests.promised import batches_of, promised_stream, promised_table
from tests.workloads import names_of, random_tables, stream

Path = tuple[str | int, ...]
NAMES = names_of(3)
OTHERS: tuple[Any, ...] = (None, "x", [], {}, -7, 1.5, [[]], {"x": 1})


def tables() -> dict[str, pa.Table]:
    return random_tables(1, NAMES, rows=40, keys=5)


def promised() -> tuple[bd.JoinQuery, dict[str, pa.Table]]:
    rng = np.random.default_rng(1)
    kinds = dict(zip(NAMES, ("punctuated", "unique-punctuated", "range"), strict=True))
    streams = [promised_stream(n, k) for n, k in kinds.items()]
    made = {n: promised_table(rng, k, rows=30, keys=8) for n, k in kinds.items()}
    used = {s.name: (s.flag, s.upto) for s in streams}
    made = {n: t.drop_columns([c for c in ("p", "upto") if c not in used[n]]) for n, t in made.items()}
    return bd.JoinQuery(streams, emit_punctuations=True), made


def joins() -> dict[str, tuple[bd.JoinQuery, dict[str, pa.Table]]]:
    timed, plain = [stream(n) for n in NAMES], [bd.Stream(n, "k") for n in NAMES]
    counted = [stream(n, bd.CountWindow(3)) for n in NAMES]
    fresh = [stream(n, freshness="30 us") for n in NAMES]
    overload = bd.Overload(50, allocation="dp-knapsack")
    return {
        "plain": (bd.JoinQuery(timed), tables()),
        "tree": (bd.JoinQuery(timed, plan="linear"), tables()),
        "count windows": (bd.JoinQuery(counted), tables()),
        "promises": promised(),
        "memory": (bd.JoinQuery(plain, memory=bd.Memory(5_000)), tables()),
        "memory in a tree": (bd.JoinQuery(timed, plan="linear", memory=bd.Memory(5_000)), tables()),
        "overload": (bd.JoinQuery(fresh, overload=overload), tables()),
    }


JOINS = joins()


def saved(name: str) -> tuple[bd.JoinQuery, bytes]:
    """A join in mid-run, with rows that came too late."""
    query, made = JOINS[name]
    live = bd.LocalJoin(query)
    for batch in batches_of(made, 8)[:4]:
        live.push(batch)
    if query.streams[0].time and name != "promises":
        live.push({n: t.slice(0, 2) for n, t in made.items()})
    return query, live.snapshot()


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Where numbers are, outermost first; of a list only the first and the last."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from paths(value[key], (*path, key))
    elif isinstance(value, list) and value:
        for i in sorted({0, len(value) - 1}):
            yield from paths(value[i], (*path, i))


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def refused(query: bd.JoinQuery, data: bytes) -> bool:
    """Whether a state is refused; every other error than a clear one comes through."""
    try:
        bd.LocalJoin(query).restore(data)
    except bd.BraidedError as wrong:
        return "state" in str(wrong) or pytest.fail(f"unclear: {wrong}")
    return False


@pytest.mark.parametrize("name", JOINS)
def test_numbers_that_are_missing_or_of_another_type(name: str) -> None:
    query, data = saved(name)
    meta, parts = snapshot.decode(data)
    assert not refused(query, snapshot.encode(meta, parts))
    for n, path in enumerate(paths(copy.deepcopy(meta["numbers"]))):
        here = copy.deepcopy(meta)
        del at(here["numbers"], path[:-1])[path[-1]]
        gone = refused(query, snapshot.encode(here, parts))
        assert gone or path[0] in ("features", "learned", "plan") or len(path) > 3, path  # some have defaults
        here = copy.deepcopy(meta)
        at(here["numbers"], path[:-1])[path[-1]] = OTHERS[n % len(OTHERS)]
        refused(query, snapshot.encode(here, parts))


KEYS = ["streams", "floors_us", "plan", "learned", "results", "batches", "watermark"]


@pytest.mark.parametrize("key", KEYS)
def test_every_number_of_the_engine_must_be_there_and_of_its_type(key: str) -> None:
    query, data = saved("plain")
    meta, parts = snapshot.decode(data)
    others = [o for o in OTHERS if key != "plan" and not isinstance(o, type(meta["numbers"][key]))]
    for other in others:
        here = {**meta, "numbers": {**meta["numbers"], key: other}}
        with pytest.raises(bd.BraidedError, match="this saved state is damaged"):
            bd.LocalJoin(query).restore(snapshot.encode(here, parts))
    del meta["numbers"][key]
    with pytest.raises(bd.BraidedError, match=f"this saved state is damaged.*{key}"):
        bd.LocalJoin(query).restore(snapshot.encode(meta, parts))


@pytest.mark.parametrize("name", JOINS)
def test_parts_that_are_missing_or_another_ones(name: str) -> None:
    """Without a stream's schema, or a part of what is on disk, rows were left out, and nothing was said."""
    query, data = saved(name)
    meta, parts = snapshot.decode(data)
    assert parts
    for part in parts:
        with pytest.raises(bd.BraidedError, match=re.escape(f"its part '{part}' is missing")):
            bd.LocalJoin(query).restore(snapshot.encode(meta, {n: p for n, p in parts.items() if n != part}))
        for other in parts:
            refused(query, snapshot.encode(meta, {**parts, part: parts[other]}))
    assert refused(query, snapshot.encode(meta, {}))


def test_a_state_of_format_1_is_refused_with_both_formats() -> None:
    """Format 1 had no parts named by feature; no version that wrote it was ever released."""
    query, data = saved("plain")
    meta, parts = snapshot.decode(data)
    old = snapshot.encode({**meta, "format": 1}, parts)
    with pytest.raises(bd.BraidedError, match=f"saved in format 1; this version reads format {FORMAT}"):
        bd.LocalJoin(query).restore(old)


@pytest.mark.parametrize("key", ["numbers", "meaning", "parts"])
def test_a_state_without_its_numbers(key: str) -> None:
    query, data = saved("plain")
    meta, parts = snapshot.decode(data)
    for other in (None, "x", 7):
        with pytest.raises(bd.BraidedError, match="its numbers are missing"):
            bd.LocalJoin(query).restore(snapshot.encode({**meta, key: other}, parts))
    assert refused(query, snapshot.encode({**meta, key: type(meta[key])()}, parts)) is (key != "parts")
