"""An engine's whole state as bytes, and back: named Arrow tables and one line of JSON, no pickle.

Eight bytes of name, four of checksum, then an Arrow IPC stream of two columns, `part` and `data`. The part
"meta" is JSON with the format's version; every other part is an IPC stream of its own schema.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from braided.engine import saving
from braided.engine.engine import Engine
from braided.engine.state import FORMAT, EngineState, Part, Table
from braided.query.errors import InvalidValue

_NAME = b"BRAIDED\0"
_OUTER = pa.schema([("part", pa.string()), ("data", pa.large_binary())])
_META = {"meaning": dict, "numbers": dict, "parts": list}


def save(engine: Engine) -> bytes:
    """The engine's state between two batches."""
    state = saving.save(engine)
    meta = {"meaning": engine.query.meaning(), "numbers": state.numbers, "parts": list(state.parts)}
    return encode(meta, state.parts)


def load(engine: Engine, data: bytes) -> None:
    """Bring a new engine of the same query to the saved state."""
    meta, parts = decode(data)
    if not all(isinstance(meta.get(name), type_) for name, type_ in _META.items()):
        raise InvalidValue("this saved state is damaged: its numbers are missing")
    if different := engine.query.difference(meta["meaning"]):
        raise InvalidValue(
            f"this state belongs to another query: {different}; restore it with the query that saved it"
        )
    state = EngineState(meta["numbers"], dict(parts))
    for name in meta["parts"]:
        state.part(name)
    saving.load(engine, state)


def encode(meta: Mapping[str, Any], parts: Mapping[str, Part]) -> bytes:
    """Meta data and tables as bytes."""
    blobs = [json.dumps({"format": FORMAT, **meta}).encode()]
    blobs += [_stream(part.schema, part.batches) for part in parts.values()]
    columns = [pa.array(["meta", *parts]), pa.array(blobs, pa.large_binary())]
    body = _stream(_OUTER, [pa.record_batch(columns, schema=_OUTER)])
    return _NAME + zlib.crc32(body).to_bytes(4, "little") + body


def decode(data: bytes) -> tuple[dict[str, Any], dict[str, Table]]:
    """Undo `encode`; damaged bytes and other formats raise."""
    try:
        name, checksum, body = data[:8], data[8:12], data[12:]
        if name != _NAME or zlib.crc32(body).to_bytes(4, "little") != checksum:
            raise ValueError("its checksum is wrong")
        outer = pa.ipc.open_stream(pa.py_buffer(body)).read_all()
        blobs = dict(zip(outer["part"].to_pylist(), outer["data"], strict=True))
        meta: dict[str, Any] = json.loads(blobs.pop("meta").as_py())
        if meta.get("format") != FORMAT:
            raise InvalidValue(
                f"this state was saved in format {meta.get('format')}; this version reads format "
                f"{FORMAT}; restore it with the version that saved it"
            )
        readers = {name: pa.ipc.open_stream(blob.as_buffer()) for name, blob in blobs.items()}
        parts = {name: Table(reader.schema, list(reader)) for name, reader in readers.items()}
    except InvalidValue:
        raise
    except (pa.ArrowException, KeyError, ValueError, TypeError, AttributeError, OSError) as wrong:
        raise InvalidValue(
            f"this is no saved Braided state, or it is damaged ({wrong}); "
            "give restore() the bytes that snapshot() returned"
        ) from None
    return meta, parts


def _stream(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
