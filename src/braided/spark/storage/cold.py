"""Partition groups that do not fit into memory, on Spark: their rows are chunks of their own.

A task cannot know the last batch, so nothing is owed when a batch ends: rows that arrive for a cold group are
joined with all of it, read group by group, and written behind it. What is hot lies in the arena, like the
rows of any join, and in the chunks of its stream. Whichever groups an attempt keeps hot, its results are the
same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import Any

import pyarrow as pa

from braided.engine.sides.side import Rows
from braided.engine.spill.files import described, latest
from braided.policies.arrays import Int64s
from braided.query.plan_tree import as_tuples, label, operators
from braided.spark.storage.chunks import Chunks
from braided.spark.storage.store import Meta
from braided.spark.wire import blobs


@dataclass(frozen=True, eq=False)
class ColdPiece:
    """Rows of one group and input, by number of chunk; they die when the watermark has passed `dies_us`."""

    chunks: list[int]
    rows: int
    dies_us: int
    size: int


def cold_pieces(meta: Meta) -> dict[str, list[ColdPiece]]:
    """What a bucket has in cold groups, by stream or intermediate."""
    by_input: dict[str, list[ColdPiece]] = {}
    tree: Any = as_tuples(meta.numbers.get("plan", []))
    for node, pieces in zip(operators(tree), meta.spilled.get("pieces", ()), strict=False):
        for _, _, place, piece in pieces:
            by_input.setdefault(label(node[place]), []).append(ColdPiece(*piece))
    return by_input


class ColdGroups:
    """Cold groups of one bucket: what `runtime.spilling` takes for a folder of files."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self.bytes = 0

    def write(self, parts: Iterable[tuple[Rows, Int64s, Int64s | None]]) -> list[list[ColdPiece]]:
        """Several inputs' rows, ordered by group: a piece for each group."""
        return [list(self._pieces(*part)) for part in parts]

    def _pieces(self, rows: Rows, bounds: Int64s, ends_us: Int64s | None) -> Iterator[ColdPiece]:
        batch = described(rows)
        for low, high in itertools.pairwise(bounds.tolist()):
            data = list(blobs.encoded(batch.slice(low, high - low), compressed=True))
            size = sum(map(len, data))
            self.bytes += size
            yield ColdPiece([self._chunks.put(d) for d in data], high - low, latest(ends_us, low, high), size)

    def read(self, pieces: Iterable[ColdPiece]) -> dict[ColdPiece, pa.RecordBatch]:
        """The rows of some pieces, as `described` made them; a damaged chunk raises."""
        return {piece: self._read(piece) for piece in pieces}

    def _read(self, piece: ColdPiece) -> pa.RecordBatch:
        batches = [self._chunks.load(number, "a cold group") for number in piece.chunks]
        return pa.concat_batches(batches) if len(batches) > 1 else batches[0]

    def drop(self, pieces: Iterable[ColdPiece]) -> None:
        """Pieces are needed no more."""
        for piece in pieces:
            self.bytes -= piece.size
            self._chunks.drop(piece.chunks)

    def place(self, piece: ColdPiece) -> list[Any]:
        """Where a piece lies, as plain numbers."""
        return list(astuple(piece))

    def piece_at(self, place: list[Any]) -> ColdPiece:
        """The piece that lies there."""
        piece = ColdPiece(*place)
        self.bytes += piece.size
        return piece

    def close(self) -> None:
        """Nothing is held open."""
