"""A side outside its process: its mapped arrays, its chunks, and the few numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braided.engine.fields import load_fields, save_fields
from braided.engine.sides.columns import Array
from braided.engine.sides.payload import Chunk
from braided.engine.sides.side import SideState

_OF_COLUMNS = ("base", "first", "count")
_OF_SIDE = ("newest", "fell", "since_scan", "gone_rows")


def frozen(side: SideState) -> dict[str, int]:
    """Return the numbers that are not in the arrays or the payload, by name."""
    numbers = save_fields(side.columns, _OF_COLUMNS) | save_fields(side, _OF_SIDE)
    return numbers | {"scanned": side.index.scanned}


def arrays_of(side: SideState) -> dict[str, Array]:
    """Return the arrays that `thaw` takes, by name."""
    return {**side.columns.mapped, "head": side.index.head}


def adopt(side: SideState, arrays: Mapping[str, Array]) -> None:
    """Use these arrays from now on; they hold what the own ones held."""
    side.columns.adopt({name: array for name, array in arrays.items() if name != "head"})
    side.index.adopt(arrays["head"])


def thaw(
    side: SideState, numbers: Mapping[str, int], arrays: Mapping[str, Array], chunks: Sequence[Chunk]
) -> None:
    """Take over what another side (without a count window) left."""
    side.columns.resume(*(numbers[name] for name in _OF_COLUMNS))
    load_fields(side, _OF_SIDE, numbers)
    side.index.scanned = bool(numbers["scanned"])
    adopt(side, arrays)
    side.payload.chunks = tuple(chunks)
