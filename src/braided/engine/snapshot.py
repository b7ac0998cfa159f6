"""An engine's whole state as bytes, and back. Restoring anywhere changes no result.

Per stream: its schema, its stored rows, rows that wait, late rows not yet handed back. Hashes and
the index are computed anew. `meta` holds counters, newest times and the query's meaning, which must
be the same on return; tuning may differ, and so may the plan: intermediate rows, which are stored too, are
then made anew from the streams' rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine import codec
from braided.engine.engine import Counters, Engine, StreamState
from braided.engine.sides.side import Rows
from braided.engine.spill import checkpoint as spill_checkpoint
from braided.policies.arrays import Bools, Int64s
from braided.query.errors import InvalidValue
from braided.query.join_query import JoinQuery
from braided.query.values import plain

_LINKED = "__braided_linked"
_CLOSURES, _SPILLED = "closures/", "spilled/"
_NUMBERS = pa.schema([("n", pa.int64())])


def save(engine: Engine) -> bytes:
    """The engine's state between two batches."""
    parts: dict[str, codec.Part] = {}
    for stream, late in zip(engine.streams, engine.late, strict=True):
        if stream is not None:
            name = stream.layout.stream.name
            parts[f"{name}/schema"] = (stream.layout.schema, [])
            parts[f"{name}/rows"] = _part(stream, stream.side.contents())
            parts[f"{name}/waiting"] = _part(stream, list(stream.waiting.pieces))
            parts[f"{name}/late"] = (stream.layout.schema, late)
    for source, side in engine.tree.intermediates:
        parts[f"{source.name}/rows"] = (source.schema, [rows.batch for rows in side.contents()])
    meta = _meta(engine)
    if engine.closures is not None:
        meta["closures"], arrays = engine.closures.kept()
        for name, numbers in arrays.items():
            parts[f"{_CLOSURES}{name}"] = (_NUMBERS, [pa.record_batch([pa.array(numbers)], schema=_NUMBERS)])
    if engine.spilling is not None:
        meta["spilling"], spilled = spill_checkpoint.kept(engine.spilling)
        parts.update({f"{_SPILLED}{name}": (rows[0].schema, rows) for name, rows in spilled.items()})
    return codec.encode(meta, parts)


def load(engine: Engine, data: bytes) -> None:
    """Bring a new engine of the same query to the saved state."""
    meta, parts = codec.decode(data)
    _check_meaning(engine.query, meta)
    names = engine.query.names
    engine.learn({n: parts[f"{n}/schema"][0] for n in names if f"{n}/schema" in parts})
    for i, (name, stream) in enumerate(zip(names, engine.streams, strict=True)):
        said = meta["streams"][name]
        engine.counters[i] = Counters(**said["counters"])
        engine.watermark.newest_us[i] = said["newest_us"]
        if stream is not None:
            engine.late[i] = list(parts[f"{name}/late"][1])
    for name, stream in zip(names, engine.streams, strict=True):
        if stream is not None:
            engine.put(
                stream, [r for part in ("rows", "waiting") for r in _rows(stream, parts[f"{name}/{part}"])]
            )
    engine.regulation.restore(meta.get("regulation", {}))
    same_plan = meta.get("plan", plain(engine.query.names)) == plain(engine.query.tree)
    same_rows = same_plan and _same_intermediates(engine, parts)
    if same_rows:
        for source, _ in engine.tree.intermediates:
            engine.tree.put(source, parts[f"{source.name}/rows"][1])
        engine.tree.restore(meta.get("learned", meta))  # older states had all in one
    else:
        engine.tree.rebuild(engine.regulation.floors_us)
    _load_spilled(engine, meta, parts, same=same_rows)
    engine.rationing.restore(meta.get("rationing", {}), same_plan=same_plan)
    if engine.closures is not None and "closures" in meta:
        engine.closures.restore(meta["closures"], _numbers(parts))
    engine.results, engine.batches = meta["results"], meta["batches"]
    engine.watermark.ended = meta["ended"]


def _same_intermediates(engine: Engine, parts: Mapping[str, codec.Part]) -> bool:
    """Whether intermediate rows look the same; under a memory budget they may tell where they came from."""
    return all(parts[f"{source.name}/rows"][0] == source.schema for source, _ in engine.tree.intermediates)


def _load_spilled(
    engine: Engine, meta: Mapping[str, Any], parts: Mapping[str, codec.Part], *, same: bool
) -> None:
    spilled = {n.removeprefix(_SPILLED): p[1] for n, p in parts.items() if n.startswith(_SPILLED)}
    if engine.spilling is not None and same and "spilling" in meta:
        spill_checkpoint.restore(engine.spilling, meta["spilling"], spilled)
    elif spilled:
        raise InvalidValue(
            "this state has rows on disk that owe results; restore it with the plan and a memory budget as "
            "when it was saved (the limit may differ)"
        )


def _meta(engine: Engine) -> dict[str, Any]:
    return {
        "fingerprint": engine.query.fingerprint(),
        "meaning": engine.query.meaning(),
        "streams": {
            name: {
                "counters": dataclasses.asdict(engine.counters[i]),
                "newest_us": engine.watermark.newest_us[i],
            }
            for i, name in enumerate(engine.query.names)
        },
        "plan": plain(engine.query.tree),
        "learned": engine.tree.kept(),
        "rationing": engine.rationing.kept(),
        "regulation": engine.regulation.kept(),
        "results": engine.results,
        "batches": engine.batches,
        "ended": engine.watermark.ended,
    }


def _numbers(parts: Mapping[str, codec.Part]) -> dict[str, Int64s]:
    """The closures' arrays."""
    return {
        name.removeprefix(_CLOSURES): np.array(batches[0].column(0).to_numpy())
        for name, (_, batches) in parts.items()
        if name.startswith(_CLOSURES)
    }


def _part(stream: StreamState, pieces: list[Rows]) -> codec.Part:
    """Stored columns, and behind them which rows have a key (where rows without are kept)."""
    schema = stream.layout.stored_schema
    if stream.side.counted is None:
        return schema, [rows.batch for rows in pieces]
    schema = schema.append(pa.field(_LINKED, pa.bool_()))
    return schema, [
        pa.RecordBatch.from_arrays([*rows.batch.columns, pa.array(_linked(rows))], schema=schema)
        for rows in pieces
    ]


def _linked(rows: Rows) -> Bools:
    return np.ones(len(rows), np.bool_) if rows.linked is None else rows.linked


def _rows(stream: StreamState, part: codec.Part) -> list[Rows]:
    if stream.side.counted is None:
        return [stream.intake.stored(batch) for batch in part[1]]
    found = []
    for batch in part[1]:
        *columns, linked = batch.columns
        stored = pa.RecordBatch.from_arrays(columns, schema=stream.layout.stored_schema)
        found.append(stream.intake.stored(stored, np.asarray(linked.to_numpy(zero_copy_only=False))))
    return found


def _check_meaning(query: JoinQuery, meta: dict[str, Any]) -> None:
    different = query.difference(meta["meaning"])
    if different:
        raise InvalidValue(
            f"this state belongs to another query: {different}; restore it with the query that saved it"
        )
