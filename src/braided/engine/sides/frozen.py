"""A side outside its process: its mapped arrays, its chunks, and the few numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from braided.engine.sides.columns import Array
from braided.engine.sides.payload import Chunk
from braided.engine.sides.side import SideState


@dataclass(frozen=True)
class Frozen:
    """The few numbers of a side that lie outside its arrays."""

    base: int
    first: int
    count: int
    newest: int
    fell: int
    since_scan: int
    scanned: bool
    gone_rows: int


def frozen(side: SideState) -> Frozen:
    """Return what is not in the arrays or the payload."""
    c = side.columns
    numbers = c.base, c.first, c.count, side.newest, side.fell, side.since_scan
    return Frozen(*numbers, side.index.scanned, side.gone_rows)


def arrays_of(side: SideState) -> dict[str, Array]:
    """Return the arrays that `thaw` takes, by name."""
    return {**side.columns.mapped, "head": side.index.head}


def adopt(side: SideState, arrays: Mapping[str, Array]) -> None:
    """Use these arrays from now on; they hold what the own ones held."""
    side.columns.adopt({name: array for name, array in arrays.items() if name != "head"})
    side.index.adopt(arrays["head"])


def thaw(side: SideState, numbers: Frozen, arrays: Mapping[str, Array], chunks: Sequence[Chunk]) -> None:
    """Take over what another side (without a count window) left."""
    side.columns.resume(numbers.base, numbers.first, numbers.count)
    side.newest, side.fell, side.since_scan = numbers.newest, numbers.fell, numbers.since_scan
    side.index.scanned, side.gone_rows = numbers.scanned, numbers.gone_rows
    adopt(side, arrays)
    side.payload.undo(tuple(chunks))
