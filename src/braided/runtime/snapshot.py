"""An engine's whole state as bytes, and back. Restoring anywhere changes no result.

Per stream: its schema, its stored rows, rows that wait, late rows not yet handed back. Hashes and
the index are computed anew. `meta` holds counters, newest times and the query's meaning, which must
be the same on return; tuning may differ.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa

from braided.query.errors import InvalidValue
from braided.query.join_query import JoinQuery
from braided.runtime.engine import Counters, Engine, StreamState
from braided.state import codec
from braided.state.side import Rows

_LINKED, _RANK = "__braided_linked", "__braided_rank"


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
    return codec.encode(_meta(engine), parts)


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
            for rows in _rows(stream, parts[f"{name}/rows"]):
                stream.side.append(rows)
            stream.side.counted = said["counted"]
            for rows in _rows(stream, parts[f"{name}/waiting"]):
                stream.waiting = stream.waiting.add(dataclasses.replace(rows, ranks=None))
            engine.late[i] = list(parts[f"{name}/late"][1])
    engine.join.probes[:], engine.join.matches[:] = meta["probes"], meta["matches"]
    engine.results, engine.batches = meta["results"], meta["batches"]
    engine.watermark.ended = meta["ended"]


def _meta(engine: Engine) -> dict[str, Any]:
    return {
        "fingerprint": engine.query.fingerprint(),
        "meaning": engine.query.meaning(),
        "streams": {
            name: {
                "counters": dataclasses.asdict(engine.counters[i]),
                "newest_us": engine.watermark.newest_us[i],
                "counted": stream.side.counted if (stream := engine.streams[i]) else 0,
            }
            for i, name in enumerate(engine.query.names)
        },
        "probes": engine.join.probes.tolist(),
        "matches": engine.join.matches.tolist(),
        "results": engine.results,
        "batches": engine.batches,
        "ended": engine.watermark.ended,
    }


def _part(stream: StreamState, pieces: list[Rows]) -> codec.Part:
    extra = [(_LINKED, pa.bool_()), (_RANK, pa.int64())] if stream.side.window else []
    schema = (
        pa.schema([*stream.layout.stored_schema, *map(pa.field, *zip(*extra, strict=True))])
        if extra
        else stream.layout.stored_schema
    )
    batches = []
    for rows in pieces:
        columns = list(rows.batch.columns)
        if extra:
            columns.append(pa.array(np.ones(len(rows), np.bool_) if rows.linked is None else rows.linked))
            columns.append(pa.array(np.zeros(len(rows), np.int64) if rows.ranks is None else rows.ranks))
        batches.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return schema, batches


def _rows(stream: StreamState, part: codec.Part) -> list[Rows]:
    found = []
    for batch in part[1]:
        if not stream.side.window:
            found.append(stream.intake.stored(batch))
            continue
        *columns, linked, ranks = batch.columns
        stored = pa.RecordBatch.from_arrays(columns, schema=stream.layout.stored_schema)
        rows = stream.intake.stored(stored, np.asarray(linked.to_numpy(zero_copy_only=False)))
        found.append(dataclasses.replace(rows, ranks=ranks.to_numpy()))
    return found


def _check_meaning(query: JoinQuery, meta: dict[str, Any]) -> None:
    if meta["fingerprint"] == query.fingerprint():
        return
    now, then = query.meaning(), meta["meaning"]
    for part in ("streams", "within", "where", "select"):
        if now.get(part) != then.get(part):
            raise InvalidValue(
                f"this state belongs to another query: {part} was {then.get(part)!r} and is "
                f"{now.get(part)!r}; restore it with the query that saved it"
            )
    raise InvalidValue("this state belongs to another query")
