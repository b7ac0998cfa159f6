"""Closed keys against a plain set: whatever is closed, forgotten, cut, aged, kept and restored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from braided.engine.promises import closed_keys
from braided.engine.promises.closed_keys import ClosedKeys
from braided.engine.promises.key_sets import KeyTable
from braided.engine.sides.keys import KeyFormat, Keys, key_format

NUMBERS = {
    "int64": np.array([-(1 << 63), (1 << 63) - 1, -2, -1, 0, 1, 2, *range(5, 120), 1 << 40]),
    "string": np.arange(130),
}


def format_of(kind: str) -> KeyFormat:
    return key_format([[("s.k", pa.int64() if kind == "int64" else pa.string())]])


def keys_of(format_: KeyFormat, numbers: np.ndarray) -> Keys:
    text = not format_.ordered
    column = pa.array([f"key {n}" for n in numbers], pa.string()) if text else pa.array(numbers, pa.int64())
    checks = None if format_.exact else format_.checks([column])
    return Keys(format_.hashes([column], len(numbers)), checks)


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("ages", [False, True])
@pytest.mark.parametrize("few", [0, 5, 1 << 16])
def test_oracle_a_set_of_closed_keys(
    kind: str, ages: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closed_keys, "_FEW", few)  # how often the table is put into the set changes nothing
    numbers, format_ = NUMBERS[kind], format_of(kind)
    everything = keys_of(format_, numbers)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        mine, single, young, upto = ClosedKeys(format_, ages=ages), set[int](), set[int](), None
        for _ in range(60):
            some = rng.choice(numbers, rng.integers(0, 9))
            what = rng.integers(0, 7)
            if what <= 2:
                mine.add(keys_of(format_, some))
                new = {int(n) for n in some} - single - {int(n) for n in numbers if _in(upto, n)}
                single |= new
                young |= new
            elif what <= 4:
                mine.forget(keys_of(format_, some))
                single -= {int(n) for n in some}
                young -= {int(n) for n in some}
            elif what == 5 and ages:
                mine.age()
                single, young = set(young), set()
            elif what == 5 and format_.ordered and rng.random() < 0.3:
                rank = int(rng.integers(0, 90))
                mine.close_ranges(upto=rank)
                upto = rank if upto is None else max(upto, rank)
                single = {n for n in single if n > upto}
            else:
                again = ClosedKeys(format_, ages=ages)
                arrays: dict[str, Any] = {}
                again.load("x", mine.save("x", arrays), arrays)
                mine = again
            found = mine.contains(everything)
            edges = {int(numbers[0]), int(numbers[1])} if format_.ordered else set()
            for n, closed in zip(numbers.tolist(), found.tolist(), strict=True):
                if n not in edges:  # the smallest and the largest rank are closed as ranges, and stay so
                    assert closed == (n in single or _in(upto, n)), (seed, n)
            assert abs(mine.count - len(single - edges)) <= len(edges)


def _in(upto: int | None, n: int) -> bool:
    return upto is not None and n <= upto


@pytest.mark.parametrize("seed", range(4))
def test_oracle_a_table_of_states(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, known = KeyTable(), dict[int, int]()
    for _ in range(40):
        hashes = rng.integers(-40, 40, rng.integers(0, 60)) * 7919
        state = int(rng.integers(1, 3))
        changed = table.put(hashes, hashes + 1, state)
        assert changed == len({h for h in hashes.tolist() if known.get(h) != state})
        known.update(dict.fromkeys(hashes.tolist(), state))
        ask = np.arange(-45, 45, dtype=np.int64) * 7919
        assert table.states(ask, ask + 1).tolist() == [known.get(int(h), 0) for h in ask]
        assert not table.states(ask, ask + 2).any()
        assert len(table) == len(known)
        for which in (1, 2):
            mine = sorted(h for h, s in known.items() if s == which)
            assert sorted(table.having(which)[0].tolist()) == mine
