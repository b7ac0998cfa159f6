"""Joins whose arenas are damaged between batches: `python -m tests.spark.arena_damage ROOT FIRST LAST`.

A process of its own, because damage that is not found kills it or makes it hang. It prints how often an
engine was kept and rebuilt, and fails if a result is missing, doubled or wrong.
"""

from __future__ import annotations

import copy
import dataclasses
import faulthandler
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import braided as bd
from braided.spark import measures
from braided.spark.storage import folders
from braided.testing import assert_same_bag, expected
from tests.promised import batches_of, data_of, plainly
from tests.spark.test_bucket import Cluster
from tests.spark.test_promises import workload
from tests.workloads import names_of, random_tables, stream

NAMES = names_of(3)
_HUGE = 1 << 40
Rng = np.random.Generator


def flip(rng: Rng, path: Path, __: list[Path]) -> None:
    """Change some bytes: one, a few, or many in a row."""
    data = bytearray(path.read_bytes())
    if not data:
        return
    for _ in range(int(rng.integers(1, 6))):
        at, size = int(rng.integers(0, len(data))), int(rng.choice([1, 1, 8, 64]))
        data[at : at + size] = rng.bytes(len(data[at : at + size]))
    path.write_bytes(data)


def one_bit(rng: Rng, path: Path, _: list[Path]) -> None:
    """Flip a single bit."""
    data = bytearray(path.read_bytes())
    if data:
        data[int(rng.integers(0, len(data)))] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(data)


def fill(rng: Rng, path: Path, _: list[Path]) -> None:
    """Fill a file with one byte: positions of nowhere, links to themselves."""
    path.write_bytes(bytes([int(rng.choice([0, 1, 0x7F, 0x80, 0xFF]))]) * path.stat().st_size)


def resize(rng: Rng, path: Path, _: list[Path]) -> None:
    """Cut a file off, or make it longer, sometimes by a terabyte of nothing."""
    size = path.stat().st_size
    os.truncate(path, int(rng.choice([0, size // 2, max(0, size - 1), size + 1, size + 4_096, _HUGE])))


def swap(rng: Rng, path: Path, others: list[Path]) -> None:
    """Let two files change places, in one bucket or over two."""
    other, between = others[int(rng.integers(0, len(others)))], path.with_name("between")
    path.rename(between)
    if other != path:
        other.rename(path)
    between.rename(other)


def remove(_: Rng, path: Path, __: list[Path]) -> None:
    """Remove a file."""
    path.unlink()


def replace(rng: Rng, path: Path, others: list[Path]) -> None:
    """Put something else into its place."""
    target = others[int(rng.integers(0, len(others)))]
    path.unlink()
    makers: tuple[Callable[[Path], None], ...] = (os.mkfifo, Path.mkdir, lambda p: p.symlink_to(target))
    makers[int(rng.integers(0, len(makers)))](path)


DAMAGES = (flip, flip, flip, one_bit, one_bit, fill, resize, swap, remove, replace)


def damage(rng: Rng, root: Path) -> None:
    """Damage a file or some."""
    for _ in range(int(rng.integers(1, 4))):
        files = sorted(p for p in root.rglob("*") if p.is_file() and p.stat().st_size < _HUGE)
        if files:
            kind = DAMAGES[int(rng.integers(0, len(DAMAGES)))]
            kind(rng, files[int(rng.integers(0, len(files)))], files)


def case(seed: int) -> tuple[Cluster, dict[str, pa.Table], pa.Table]:
    """A join, its input and the right results."""
    if seed % 4 == 3:
        query, tables = workload(seed, ("punctuated", "punctuated", "punctuated"))
        plain = plainly(query), {n: data_of(t) for n, t in tables.items()}
        return Cluster(query, tables, arena=True), tables, expected(*plain)
    tables = random_tables(seed, NAMES, key_type=("int64", "string")[seed % 2])
    options: dict[str, Any] = {"plan": "linear"} if seed % 4 == 2 else {}
    tuning = bd.Tuning(index=("hash", "hash", "scan")[seed % 3])
    query = bd.JoinQuery([stream(n, ("30 us", "60 us")[seed % 2]) for n in NAMES], tuning=tuning, **options)
    return Cluster(query, tables, arena=True), tables, expected(query, tables)


def run(seed: int, root: Path) -> tuple[int, int]:
    """One join in batches; how often engines were kept and rebuilt."""
    rng = np.random.default_rng(seed)
    made, tables, right = case(seed)
    made.plan = dataclasses.replace(made.plan, arena=f"app-{seed}")
    found = []
    for batch in batches_of(tables, 9):
        before = copy.deepcopy(made.states)
        result = made.push(batch)
        if rng.random() < 0.3:  # a retry: the arena is one batch ahead, and damaged
            made.states = before
            damage(rng, root)
            result = made.push(batch)
        found.append(result)
        damage(rng, root)
    assert_same_bag(pa.concat_tables(found), right)
    query = made.plan.query
    seen = [measures.combined(query.names, query.tree, [measures.read([text])]) for text in made.reports]
    return sum(s.arena_hits for s in seen), sum(s.rebuilds for s in seen)


def main() -> None:
    """Run all seeds, and print what was kept and what was rebuilt."""
    faulthandler.enable()
    root, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folders.root, folders.other_roots = (lambda: root), list
    kept = rebuilt = 0
    for seed in range(first, last):
        print("seed", seed, file=sys.stderr, flush=True)
        k, r = run(seed, root)
        kept, rebuilt = kept + k, rebuilt + r
        shutil.rmtree(root, ignore_errors=True)
    print(kept, rebuilt)


if __name__ == "__main__":
    main()
