"""The bytes of a saved state: named Arrow tables and one line of JSON, all in Arrow IPC, no pickle.

Eight bytes of name, four of checksum, then an IPC stream of two columns, `part` and `data`. The part
"meta" is JSON with the format's version; every other part is an IPC stream of its own schema.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from braided.engine.state import FORMAT, Part, Table
from braided.query.errors import InvalidValue

_NAME = b"BRAIDED\0"
_OUTER = pa.schema([("part", pa.string()), ("data", pa.large_binary())])


def encode(meta: Mapping[str, Any], parts: Mapping[str, Part]) -> bytes:
    """Meta data and tables as bytes."""
    names, blobs = ["meta"], [json.dumps({"format": FORMAT, **meta}).encode()]
    for name, part in parts.items():
        names.append(name)
        blobs.append(_stream(part.schema, part.batches))
    outer = pa.record_batch([pa.array(names), pa.array(blobs, pa.large_binary())], schema=_OUTER)
    body = _stream(_OUTER, [outer])
    return _NAME + zlib.crc32(body).to_bytes(4, "little") + body


def decode(data: bytes) -> tuple[dict[str, Any], dict[str, Table]]:
    """What `encode` was given; damaged bytes and other formats raise."""
    try:
        name, checksum, body = data[:8], data[8:12], data[12:]
        if name != _NAME or zlib.crc32(body).to_bytes(4, "little") != checksum:
            raise ValueError("its checksum is wrong")
        outer = pa.ipc.open_stream(pa.py_buffer(body)).read_all()
        named = dict(zip(outer["part"].to_pylist(), outer["data"], strict=True))
        meta: dict[str, Any] = json.loads(named.pop("meta").as_py())
        _check_format(meta)
        parts: dict[str, Table] = {}
        for name, blob in named.items():
            with pa.ipc.open_stream(blob.as_buffer()) as reader:
                parts[name] = Table(reader.schema, list(reader))
    except (pa.ArrowException, KeyError, ValueError, TypeError, OSError) as wrong:
        if isinstance(wrong, InvalidValue):
            raise
        raise InvalidValue(
            f"this is no saved Braided state, or it is damaged ({wrong}); "
            "give restore() the bytes that snapshot() returned"
        ) from None
    return meta, parts


def _check_format(meta: Mapping[str, Any]) -> None:
    if meta.get("format") != FORMAT:
        raise InvalidValue(
            f"this state was saved in format {meta.get('format')}; this version reads format "
            f"{FORMAT}; restore it with the version that saved it"
        )


def _stream(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
