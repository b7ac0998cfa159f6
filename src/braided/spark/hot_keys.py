"""Keys that are too much for one bucket: which ones they are, and which stream's rows are spread for them.

Every bucket keeps a sketch of its heaviest keys in its small value: their rows in the latest batches, which
fade, from evenly spread samples. A key that has few rows of its bucket is not in it, so without hot keys it
is empty. A restart adds the sketches up (`more`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from braided.engine.intake import Arrival
from braided.engine.operators.layout import key_format_of
from braided.policies.arrays import Floats, Int64s
from braided.query.errors import InvalidType, InvalidValue, require_stream
from braided.query.kinds import whole
from braided.query.layout import HotKey
from braided.spark.plan import JoinPlan

Heavy: TypeAlias = dict[str, Any]  # by stream: its rows, and by a key's hash its rows and its text
_SAMPLE = 4096  # rows of a stream in a batch: a key with 1 % of them has 41
_FADING = 0.8  # of what is known, from batch to batch
_MOST = 8  # keys of a stream in a bucket
_LEAST_SHARE = 0.02  # of a bucket's rows
HOT_SHARE = 0.1  # of a stream's rows, or twice the share of a bucket if that is more


class Sample(NamedTuple):
    """The most frequent keys among evenly spread rows of a stream: hashes, places of a row, and its rows."""

    hashes: Int64s
    places: Int64s
    rows: Floats


def samples(plan: JoinPlan, arrivals: Sequence[Arrival | None]) -> list[Sample | None]:
    """The heaviest keys of each stream's rows in a batch; copies are counted elsewhere."""
    if plan.query.keyless:
        return [None] * len(arrivals)
    return [None if a is None else _sample(a) for a in arrivals]


def _sample(arrival: Arrival) -> Sample | None:
    own = len(arrival.rows) - arrival.copied_rows
    if not own:
        return None
    step = -(-own // _SAMPLE)
    sample = arrival.rows.hashes[:own:step]
    hashes, places, counts = np.unique(sample, return_index=True, return_counts=True)
    largest = np.argpartition(-counts, min(_MOST, len(counts)) - 1)[:_MOST]
    return Sample(hashes[largest], places[largest] * step, np.float64(own / len(sample)) * counts[largest])


def hottest_rows(sampled: Sequence[Sample | None]) -> int:
    """About how many rows of a batch have the key that most have."""
    rows: defaultdict[int, float] = defaultdict(float)
    for sample in sampled:
        for hash_, count in zip(sample.hashes.tolist(), sample.rows.tolist(), strict=True) if sample else ():
            rows[hash_] += count
    return round(max(rows.values(), default=0.0))


def observed(
    heavy: Heavy, plan: JoinPlan, arrivals: Sequence[Arrival | None], sampled: Sequence[Sample | None]
) -> Heavy:
    """The sketch with what a bucket got in a batch."""
    if plan.staged or plan.query.keyless or len(plan.grid.dimensions) > 1:
        return {}
    later: Heavy = {}
    for layout, arrival, sample in zip(plan.layouts, arrivals, sampled, strict=True):
        name = layout.stream.name
        before = heavy.get(name, {"rows": 0.0, "keys": {}})
        own = 0 if arrival is None else arrival.own_rows
        rows = _FADING * before["rows"] + own
        keys = {h: [_FADING * count, text] for h, (count, text) in before["keys"].items()}
        for hash_, place, count in zip(*sample, strict=True) if sample is not None else ():
            if count > _LEAST_SHARE * own:
                assert arrival is not None
                values = [arrival.rows.batch.column(k)[int(place)].as_py() for k in layout.keys]
                text = str(values[0] if len(values) == 1 else tuple(values))
                keys[str(hash_)] = [keys.get(str(hash_), [0.0])[0] + float(count), text]
        largest = sorted(keys, key=lambda h: (-keys[h][0], h))[:_MOST]
        later[name] = {
            "rows": rows,
            "keys": {h: keys[h] for h in largest if keys[h][0] > _LEAST_SHARE * rows},
        }
    return {name: known for name, known in later.items() if known["rows"] >= 1}


def shares(heavies: Sequence[Heavy]) -> dict[str, dict[int, tuple[float, str]]]:
    """By stream, the heavy keys of all buckets: their share of its rows, and their texts."""
    found: dict[str, dict[int, tuple[float, str]]] = {}
    for name in sorted({name for heavy in heavies for name in heavy}):
        known = [heavy[name] for heavy in heavies if name in heavy]
        total = sum(part["rows"] for part in known)
        counts: dict[int, tuple[float, str]] = {}
        for part in known:
            for key, (count, text) in part["keys"].items():
                counts[int(key)] = (counts.get(int(key), (0.0, ""))[0] + count / total, text)
        found[name] = counts
    return found


def more(plan: JoinPlan, known: Sequence[HotKey], heavies: Sequence[Heavy]) -> tuple[HotKey, ...]:
    """Hot keys, with those that have become so: spread by the stream that has most of their rows."""
    rows = {name: sum(h[name]["rows"] for h in heavies if name in h) for name in plan.query.names}
    hot = {key.hash: key for key in known}
    least = max(HOT_SHARE, 2 / plan.buckets)
    fat: dict[int, tuple[float, str, float, str]] = {}  # its rows, stream, share and text, the largest first
    for name, keys in shares(heavies).items():
        for key, (share, text) in keys.items():
            if share >= least and not why_not_fat(plan, name):
                fat[key] = max(fat.get(key, (0.0, "", 0.0, "")), (share * rows[name], name, share, text))
    for key, (_, name, share, text) in sorted(fat.items()):
        cells = min(plan.buckets, max(2, math.ceil(share * plan.buckets)))
        hot.setdefault(key, HotKey(key, name, cells, text))
    return tuple(sorted(hot.values(), key=lambda key: key.hash))


def declared(plan: JoinPlan, hot_keys: Mapping[str, Mapping[Any, int]]) -> tuple[HotKey, ...]:
    """The keys that are to be spread, as a layout has them; what cannot be spread raises."""
    found: dict[int, HotKey] = {}
    for name, keys in hot_keys.items():
        require_stream(name, plan.query.names, "join: hot_keys")
        if wrong := why_not_fat(plan, name):
            raise InvalidValue(f"join: hot_keys: {wrong}", stream=name, option="hot_keys")
        if not isinstance(keys, Mapping):
            raise InvalidType.must("hot_keys", "such as {'clicks': {'ad-1': 8}}", keys, owner="join")
        for key, cells in keys.items():
            wanted = f"a number of cells from 2 to buckets={plan.buckets}"
            whole(2, plan.buckets, wanted)("join", f"hot_keys of {name!r}, key {key!r}", cells)
            hash_ = _hash_of(plan, name, key)
            if hash_ in found:
                raise InvalidValue(
                    f"join: hot_keys: key {key!r} is spread by stream {found[hash_].stream!r} already; only "
                    "one stream's rows can be"
                )
            found[hash_] = HotKey(hash_, name, cells, str(key))
    return tuple(found[hash_] for hash_ in sorted(found))  # however they were given


def why_not_fat(plan: JoinPlan, name: str) -> str:
    """Why the rows of a stream cannot be spread, in words; nothing if they can."""
    stream = plan.query.streams[plan.query.names.index(name)]
    if len(plan.grid.dimensions) > 1 or plan.query.keyless or plan.staged:
        return "they need one key that all streams have"
    if plan.query.emit_punctuations:
        return "with emit_punctuations all rows of a key must be in one bucket"
    if stream.optional or any(s.how == "full" for s in plan.query.streams):
        return f"stream {name!r} is optional, or meets one in a full join: only all rows of a key tell a null"
    if stream.count_window is not None:
        return f"stream {name!r} has a window that counts rows, which needs all rows of a key in one bucket"
    if stream.promises:
        return f"stream {name!r} promises something about its keys, which needs them in one bucket"
    return ""


def _hash_of(plan: JoinPlan, name: str, key: Any) -> int:
    """The hash of a key that a user gave, as rows of the stream have it."""
    (dimension,) = plan.grid.dimensions
    columns, values = dimension.columns(name), key if isinstance(key, tuple) else (key,)
    stored = plan.layouts[plan.query.names.index(name)].stored_schema
    types = [stored.field(column).type for column in columns]
    if len(values) != len(columns) or any(value is None for value in values):
        raise InvalidValue(
            f"join: hot_keys: a key of stream {name!r} has {len(columns)} values ({', '.join(columns)}), "
            f"none of them null; got {key!r}"
        )
    try:
        arrays = [pa.array([value], type_) for value, type_ in zip(values, types, strict=True)]
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        raise InvalidType(
            f"join: hot_keys: {key!r} is no key of stream {name!r}, which is {', '.join(map(str, types))}"
        ) from None
    return int(key_format_of(dimension.key, plan.layouts).hashes(arrays, 1)[0])
