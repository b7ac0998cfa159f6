"""The six data sets of the driver-selection paper, and its future work with more streams; seeded.

Three streams join on one key. In data sets I to IV all have the same size: 1,000 keys occur once in S1, five
times in S2 and a thousand times in S3, every other row matches nothing. In V and VI the streams are of
different sizes: 1,000 keys occur once, ten times and a hundred times, nine tenths of every stream match
nothing. Smaller data sets have fewer keys, and the same shares.

| data set | S1 | S2 | S3 |
| --- | --- | --- | --- |
| I | constant | constant | alternates, fast first |
| II | constant | alternates, slow first | alternates, fast first |
| III | constant | alternates, slow first | sinusoidal |
| IV | constant | constant | b-model 20-80 |
| V | constant | constant | b-model 80-20 |
| VI | constant | constant | b-model 20-80 |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import braided as bd
from braided.policies.arrays import Int64s
from braided_lab.arrivals import alternating, b_model, constant, sinusoidal

NAMES = ("I", "II", "III", "IV", "V", "VI")
STREAMS = ("S1", "S2", "S3")
_FULL = 1_000_000
_Arrival = Callable[[np.random.Generator, int, int], Int64s]


def dataset(name: str, rows: int, parameters: Mapping[str, Any], *, seed: int) -> dict[str, pa.Table]:
    """A data set whose largest stream has so many rows (a million in the paper)."""
    rng = np.random.default_rng([seed, NAMES.index(name)])
    span = rows * parameters["units_per_row"]
    if name in ("V", "VI"):
        sizes, per_key = (rows // 100, rows // 10, rows), (1, 10, 100)
    else:
        sizes, per_key = (rows, rows, rows), (1, 5, 1000)
    keys = max(1, 1_000 * rows // _FULL)
    return {
        stream: _table(_keys(rng, size, keys, times, number), arrival(rng, size, span))
        for number, (stream, size, times, arrival) in enumerate(
            zip(STREAMS, sizes, per_key, _arrivals(name, parameters), strict=True)
        )
    }


def query(names: Sequence[str], tuning: bd.Tuning) -> bd.JoinQuery:
    """All rows of all streams join for ever, as in the paper."""
    return bd.JoinQuery([bd.Stream(n, key="k", time="t", window="unbounded") for n in names], tuning=tuning)


def wide(
    streams: int, condition: str, rows: int, parameters: Mapping[str, Any], *, seed: int
) -> dict[str, pa.Table]:
    """More streams: even or uneven sizes, constant or bursty arrival."""
    rng = np.random.default_rng([seed, streams])
    span = rows * parameters["units_per_row"]
    beyond = parameters["beyond"]
    keys = int(rows * beyond["keys_per_row"])
    tables = {}
    for number in range(streams):
        size = rows // 2 ** (streams - 1 - number) if "uneven" in condition else rows
        size = max(size, 2 * keys)
        most, few = beyond["rows_per_key"]
        times = most if number == streams - 1 else few if number == streams - 2 else 1
        bursty = "bursty" in condition and number % 2 == 1
        first = 0.2 if number % 4 == 1 else 0.8
        arrived = (
            b_model(rng, size, span, first=first, depth=parameters["b_model"]["depth"])
            if bursty
            else constant(rng, size, span)
        )
        tables[f"s{number}"] = _table(_keys(rng, size, keys, min(times, size // keys), number), arrived)
    return tables


def _arrivals(name: str, parameters: Mapping[str, Any]) -> tuple[_Arrival, _Arrival, _Arrival]:
    sinus, depth = parameters["sinus"], parameters["b_model"]["depth"]
    fast: _Arrival = lambda *a: alternating(*a, fast_first=True)  # noqa: E731
    slow: _Arrival = lambda *a: alternating(*a, fast_first=False)  # noqa: E731
    swing: _Arrival = lambda *a: sinusoidal(*a, cycles=sinus["cycles"], amplitude=sinus["amplitude"])  # noqa: E731
    later: _Arrival = lambda *a: b_model(*a, first=0.2, depth=depth)  # noqa: E731
    sooner: _Arrival = lambda *a: b_model(*a, first=0.8, depth=depth)  # noqa: E731
    return {
        "I": (constant, constant, fast),
        "II": (constant, slow, fast),
        "III": (constant, slow, swing),
        "IV": (constant, constant, later),
        "V": (constant, constant, sooner),
        "VI": (constant, constant, later),
    }[name]


def _keys(rng: np.random.Generator, rows: int, keys: int, times: int, number: int) -> Int64s:
    """So many keys so many times each, in random places; every other row has a key of its own."""
    joining = np.repeat(np.arange(keys), times)[:rows]
    own = (number + 1) * 10_000_000_000 + np.arange(rows - len(joining))
    return rng.permutation(np.concatenate([joining, own]))


def _table(keys: Int64s, arrived: Int64s) -> pa.Table:
    return pa.table({"k": keys, "t": pa.array(arrived, pa.timestamp("us"))})
