"""What is on disk, from and to a checkpoint: rows with it, or only where they lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine.operators.operator import Operator
from braided.engine.sides.side import Rows
from braided.engine.spill.files import by_numbers, numbered
from braided.engine.spill.generations import Generation
from braided.engine.spill.spilling import Spilling
from braided.policies.flush.question import Merge
from braided.policies.flush.state_manager import owed_after_flush
from braided.query.errors import InvalidValue


def kept(spilling: Spilling) -> tuple[dict[str, Any], dict[str, list[pa.RecordBatch]]]:
    """Plain numbers, and the rows on disk by operator and input, each with its generation's number."""
    if spilling.memory.one_sided and any(spilling.generations):
        raise InvalidValue(
            f"snapshot: rows are on disk, and with flush={spilling.memory.flush!r} they cannot be saved; "
            "use flush='adaptive-global'"
        )
    said = {
        "tick": spilling.tick,
        "counts": spilling.statistics.kept()["counts"],
        "owed": [owed.tolist() for owed in spilling.owed],
    }
    parts: dict[str, list[pa.RecordBatch]] = {}
    for operator, generations in zip(spilling.tree.operators, spilling.generations, strict=True):
        for place in range(len(operator.node)):
            several = [(g.number, p) for _, g in generations for p in g.pieces[place]]
            if several:
                read = spilling.store.read(p for _, p in several)
                found = [numbered(read[piece], number) for number, piece in several]
                parts[f"{operator.number}/{place}"] = found
    return said, parts


def restore(
    spilling: Spilling, said: Mapping[str, Any], parts: Mapping[str, Sequence[pa.RecordBatch]]
) -> None:
    """Go on from what was kept, of the same plan; groups may be others."""
    if spilling.memory.one_sided and parts:
        raise InvalidValue(
            f"restore: rows are on disk, and flush={spilling.memory.flush!r} cannot tell which have met; "
            "use flush='adaptive-global'"
        )
    spilling.tick = said["tick"]
    spilling.statistics.restore(said)
    by_generation: dict[tuple[int, int], dict[int, Rows]] = {}
    for name, batches in parts.items():
        operator, place = map(int, name.split("/"))
        for number, rows in by_numbers(batches):
            by_generation.setdefault((number, operator), {})[place] = rows
    for (number, which), inputs in sorted(by_generation.items()):
        _put_back(spilling, spilling.tree.operators[which], number, inputs)
    _restore_owed(spilling, said["owed"])
    spilling.defers |= any(spilling.generations)


def numbers(spilling: Spilling) -> dict[str, Any]:
    """What is kept if rows are in a store of their own: numbers, where pieces lie, what is merged next.

    The generation of a group has a number where there may be several.
    """
    said = {
        "tick": spilling.tick,
        "lineage": spilling.memory.lineage,
        **spilling.statistics.kept(),
        "pieces": [
            [_group(group, g, numbered=spilling.defers) for group, g in generations]
            for generations in spilling.generations
        ],
    }
    if spilling.defers:
        said |= {"owed": [owed.tolist() for owed in spilling.owed], "next": spilling.next}
    return said


def restore_numbers(spilling: Spilling, said: Mapping[str, Any], piece: Callable[[Any], Any]) -> None:
    """Go on from these numbers; `piece` reads where one lies. Without `owed` all of a group has met."""
    spilling.tick = said["tick"]
    spilling.statistics.restore(said)
    for generations, groups in zip(spilling.generations, said["pieces"], strict=True):
        for group, inputs, *number in groups:
            pieces = tuple(tuple(piece(p) for p in of_input) for of_input in inputs)
            generations.put(group, Generation(number[0] if number else spilling.tick, pieces))
            spilling.store.bytes += sum(p.size for of_input in pieces for p in of_input)
    if "owed" in said:
        spilling.defers = True
        _restore_owed(spilling, said["owed"])
        spilling.next = [None if merge is None else Merge(*merge) for merge in said["next"]]


def _group(group: int, generation: Generation, *, numbered: bool) -> list[Any]:
    pieces = [[p.kept() for p in of_input] for of_input in generation.pieces]  # type: ignore[attr-defined]
    return [group, pieces, generation.number] if numbered else [group, pieces]


def _restore_owed(spilling: Spilling, owed: Sequence[Any]) -> None:
    for mine, was in zip(spilling.owed, owed, strict=True):
        mine[:] = was if len(was) == len(mine) else mine


def _put_back(spilling: Spilling, operator: Operator, number: int, inputs: Mapping[int, Rows]) -> None:
    """Write one generation's rows of an operator to disk."""
    pieces = [
        spilling.write_rows(child, inputs[place]) if place in inputs else {}
        for place, child in enumerate(operator.node)
    ]
    generations = spilling.generations[operator.number]
    before = generations.rows.astype(np.float64)
    generations.add(number, pieces)
    more = generations.rows - before
    spilling.owed[operator.number] += owed_after_flush(before, more, np.ones(more.shape[1]))
