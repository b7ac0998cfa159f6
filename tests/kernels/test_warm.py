"""Warming up compiles to the cache, and to another directory where the installation is read-only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from braided.engine.kernels import alternate, hashing, probe, warm_up
from braided.engine.kernels import pointers as memory

ONE = """
import numpy as np
from braided.engine.kernels.index import expired_prefix
print(expired_prefix(np.arange(9), 3), sum(expired_prefix.stats.cache_misses.values()))
"""
JOINS = """
import braided as bd, braided.engine.kernels as k, pyarrow as pa, time
from braided.engine.kernels import counting, gather, hashing, index, probe
seconds = k.warm_up()
modules = (counting, gather, hashing, index, probe)
functions = [f for m in modules for f in vars(m).values() if hasattr(f, "stats")]
misses = sum(sum(f.stats.cache_misses.values()) for f in functions)
compiled = {f.py_func.__name__: len(f.signatures) for f in functions}
numbers = pa.array(range(300), pa.int16())
t = pa.table({"k": ["x", "y", None] * 100, "t": range(300), "i": numbers, "b": [1.5] * 300})
for key in ("k", "i"):
    for windows in (["9 us"] * 2, [bd.CountWindow(2), bd.CountWindow(2, per="stream")]):
        q = bd.JoinQuery([bd.Stream(n, key=key, time="t", window=w) for n, w in zip("ab", windows)])
        bd.run_local(q, {"a": t, "b": t}, batch_rows=50)
added = {f.py_func.__name__ for f in functions if len(f.signatures) > max(1, compiled[f.py_func.__name__])}
print(misses, sorted(added))
"""


def test_compiled_code_is_kept_only_while_no_kernel_file_changes() -> None:
    """A kernel is built of parts from other files; Numba alone would go on with the old ones."""
    for function in (probe.enumerate_combinations, alternate.alternate, hashing.hash_words):
        assert function._cache._cache_file._source_stamp.endswith(memory.digest())


def run(code: str, **environment: str) -> list[str]:
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env={**os.environ, **environment}, check=True, capture_output=True, text=True
    )
    return done.stdout.split(maxsplit=1)


def test_warm_up_covers_every_kernel_a_join_uses() -> None:
    warm_up()
    misses, added = run(JOINS)
    assert int(misses) == 0, "these kernels were compiled, and are in the cache since the line above"
    assert added.strip() == "[]", "these kernels were compiled again during the join"


def test_compiled_code_is_kept_in_another_directory_too(tmp_path: Path) -> None:
    """Where the installation is read-only."""
    assert run(ONE, NUMBA_CACHE_DIR=str(tmp_path)) == ["3", "1\n"]
    assert any(tmp_path.rglob("*.nbc"))
    assert run(ONE, NUMBA_CACHE_DIR=str(tmp_path)) == ["3", "0\n"]
