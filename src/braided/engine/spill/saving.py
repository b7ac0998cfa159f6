"""What is on disk, saved: rows with it, or only where they lie, if their store lasts as long as the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from braided.engine.operators.operator import Operator
from braided.engine.sides.side import Rows
from braided.engine.spill.disk import Disk
from braided.engine.spill.files import LastingStore, by_numbers, numbered
from braided.engine.spill.generations import Generations, Stored
from braided.engine.state import EngineState, Table
from braided.query.errors import InvalidValue
from braided.query.memory import Memory

_PREFIX = "spill/"


def save(disk: Disk, state: EngineState) -> dict[str, Any]:
    """Plain numbers, and by operator and input the rows on disk, each with its generation's number."""
    if disk.memory.one_sided and any(disk.generations):
        raise InvalidValue(
            f"snapshot: rows are on disk, and with flush={disk.memory.flush!r} they cannot be saved; "
            "use flush='adaptive-global'"
        )
    numbers = {
        "tick": disk.tick,
        "lineage": disk.memory.lineage,
        "groups": 1 << disk.bits,
        "on_disk": any(disk.generations),
        "owed": disk.owed.tolist(),
        **disk.statistics.save(),
    }
    if isinstance(disk.store, LastingStore):
        numbers["began"] = disk.statistics.began
        numbers["pieces"] = [_places(disk.store, generations) for generations in disk.generations]
        return numbers
    for number, generations in enumerate(disk.generations):
        for place in range(len(generations.rows)):
            here = [s for _, s in generations if s.place == place]
            read = disk.store.read(s.piece for s in here)
            batches = [numbered(read[s.piece], s.number) for s in here]
            if batches:
                state.parts[f"{_PREFIX}{number}/{place}"] = Table(batches[0].schema, batches)
    return numbers


def load(disk: Disk, operators: Sequence[Operator], state: EngineState, numbers: Mapping[str, Any]) -> None:
    """Go on from what was saved with the same plan; rows that were saved may be put into other groups."""
    parts = {name: part for name, part in state.parts.items() if name.startswith(_PREFIX)}
    if disk.memory.one_sided and parts:
        raise InvalidValue(
            f"restore: rows are on disk, and flush={disk.memory.flush!r} cannot tell which have met; "
            "use flush='adaptive-global'"
        )
    disk.tick = numbers["tick"]
    disk.statistics.load(numbers)
    store: Any = disk.store
    for generations, groups in zip(disk.generations, numbers.get("pieces", ()), strict=False):
        for group, inputs, number in groups:
            for place, pieces in enumerate(inputs):
                for piece in pieces:
                    generations.put(group, Stored(number, place, store.found(piece)))
    by_generation: dict[tuple[int, int], dict[int, Rows]] = {}
    for name, part in parts.items():
        which, place = map(int, name.removeprefix(_PREFIX).split("/"))
        for number, rows in by_numbers(part.batches):
            by_generation.setdefault((number, which), {})[place] = rows
    for (number, which), of_inputs in sorted(by_generation.items()):
        operator = operators[which]
        pieces = disk.write_rows(operator, map(of_inputs.get, range(len(operator.node))))
        disk.add(which, number, pieces)
    owed = np.array(numbers["owed"])
    if owed.shape == disk.owed.shape:
        disk.owed = owed


def check(numbers: Mapping[str, Any], memory: Memory | None, *, same_plan: bool) -> None:
    """Raise if rows that are not in memory cannot be used as the join is asked for now."""
    if not numbers.get("on_disk"):
        return
    if memory is None or not same_plan:
        raise InvalidValue(
            "this state has rows on disk that owe results, or groups of keys that are not in memory: go on "
            "with the plan and a memory budget as when it was saved (the limit may differ), or start afresh"
        )
    if "pieces" in numbers and numbers["groups"] != 1 << memory.group_bits:
        raise InvalidValue(
            "this state was saved with another number of groups; go on with "
            f"bd.Memory(groups={numbers['groups']}), or start afresh"
        )


def _places(store: LastingStore, generations: Generations) -> list[list[Any]]:
    """By group and generation: where its pieces lie, by input."""
    places: dict[tuple[int, int], list[list[Any]]] = {}
    for group, stored in generations:
        inputs = places.setdefault((group, stored.number), [[] for _ in generations.rows])
        inputs[stored.place].append(store.place(stored.piece))
    return [[group, inputs, number] for (group, number), inputs in places.items()]
