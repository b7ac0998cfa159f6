"""The parts of an engine's state as chunks: read when they are asked for, written as far as they are new."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from braided.engine.state import EngineState, Held, Part
from braided.policies.arrays import Bools
from braided.spark.storage.chunks import Chunks, unpacked
from braided.spark.storage.store import Chunk, Meta
from braided.spark.wire import blobs


@dataclass(frozen=True)
class StoredPart:
    """A part in chunks; nothing is read before it is asked for."""

    name: str
    chunks: Sequence[Chunk]
    source: Chunks

    @functools.cached_property
    def batches(self) -> list[pa.RecordBatch]:
        """The rows, chunk by chunk; a damaged one raises."""
        whole = not self.name.endswith("/rows")
        return [
            self.source.load(c.number, _described(self.name), c.rows, remember=whole) for c in self.chunks
        ]

    @property
    def schema(self) -> pa.Schema:
        """Their columns, as they were written."""
        return self.batches[0].schema if self.chunks else pa.schema([])

    @property
    def gone(self) -> Bools | None:
        """Which of them have been forgotten by key."""
        if not any(chunk.gone_rows for chunk in self.chunks):
            return None
        return np.concatenate([unpacked(chunk.gone, chunk.rows) for chunk in self.chunks])


def _described(part: str) -> str:
    """A part's name in words."""
    kind, _, rest = part.partition("/")
    return f"{kind} {rest.removesuffix('/rows')!r}" if kind in ("stream", "intermediate") else "closed keys"


def read_parts(source: Chunks, meta: Meta) -> dict[str, Part]:
    """All parts, as the small value lists them."""
    return {name: StoredPart(name, list(chunks), source) for name, chunks in meta.parts.items()}


def write_parts(target: Chunks, meta: Meta, state: EngineState) -> None:
    """Write what is new, and remove parts that are no more."""
    written = {n: p for n, p in state.parts.items() if isinstance(p, Held) or p.batches}
    for name in meta.parts.keys() - written.keys():
        target.remove(meta.parts.pop(name))
    for name, part in written.items():
        chunks = meta.parts.setdefault(name, [])
        if isinstance(part, Held):
            if part.mark is None:
                target.remove(chunks)
            target.keep(chunks, part)
        else:
            _write_whole(target, chunks, part)


def _write_whole(target: Chunks, chunks: list[Chunk], part: Part) -> None:
    """A part that is written whole, unless it is as it was."""
    data = [blobs.encode(batch, compressed=True) for batch in part.batches]
    if [target.bytes_of(chunk) for chunk in chunks] == data:
        return
    target.remove(chunks)
    for encoded, batch in zip(data, part.batches, strict=True):
        chunks.append(Chunk(target.put(encoded), batch.num_rows, 0, len(encoded)))
