"""The one saved form of an engine: plain numbers, and named parts that are Arrow rows.

`saving` makes it of an engine and brings an engine back to it. A snapshot writes it as one blob (`snapshot`);
a bucket on Spark writes its numbers as one small value and its parts as chunks. There is no other saved form.

A part is written whole (`Table`), or holds the rows of one input (`Held`): of these a writer may add what is
new and leave out what has died, so that saving a batch costs what the batch brought.

Numbers are plain JSON. Each feature has its own under `features`, by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from braided.engine.sides.side import Mark, Rows, SideState
from braided.policies.arrays import Bools, Int64s
from braided.query.errors import InvalidValue
from braided.query.plan_tree import Plan, label

FORMAT = 6
_LINKED = pa.field("linked", pa.bool_(), metadata={"braided": "linked"})  # a user's column has none


class Part(Protocol):
    """Rows under one name."""

    @property
    def schema(self) -> pa.Schema:
        """Their columns."""

    @property
    def batches(self) -> Sequence[pa.RecordBatch]:
        """All of them, read when they are asked for."""

    @property
    def gone(self) -> Bools | None:
        """Which of them have been forgotten by key; None: none."""


@dataclass(frozen=True)
class Table:
    """A part that is written whole."""

    schema: pa.Schema
    batches: Sequence[pa.RecordBatch]
    gone: Bools | None = None


@dataclass(frozen=True)
class Held:
    """The rows of one input: in its side, and waiting for it.

    `entered` arrived in the latest batch (None: what its side holds since then); `mark` is where the side
    stood before it (None: all of its rows are new). Rows that last no longer than `oldest_us`, or have an
    earlier time than `floors_us` in a column, by its place, may be left out.
    """

    side: SideState
    waiting: Sequence[Rows] = ()
    entered: Sequence[Rows] | None = None
    mark: Mark | None = None
    oldest_us: int = 0
    floors_us: Sequence[tuple[int, int]] = ()
    gone: None = None

    @property
    def schema(self) -> pa.Schema:
        """Stored columns, and behind them which rows have a key, where rows without one are stored."""
        schema = self.side.payload.schema
        return schema.append(_LINKED) if self.side.window is not None else schema

    @property
    def new(self) -> Sequence[Rows]:
        """What arrived in the latest batch."""
        if self.entered is not None:
            return self.entered
        return self.side.contents(self.mark.count if self.mark else 0)

    @property
    def batches(self) -> list[pa.RecordBatch]:
        """All rows that have not been forgotten."""
        pieces = [*self.side.contents(), *self.waiting]
        if self.side.window is None:
            return [rows.batch for rows in pieces]
        return [
            pa.RecordBatch.from_arrays([*rows.batch.columns, pa.array(_linked(rows))], schema=self.schema)
            for rows in pieces
        ]


@dataclass
class EngineState:
    """Numbers and parts."""

    numbers: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)

    def part(self, name: str) -> Part:
        """A part that must be there."""
        if name not in self.parts:
            raise InvalidValue(f"this saved state is damaged: its part {name!r} is missing")
        return self.parts[name]

    def feature(self, name: str) -> dict[str, Any]:
        """A feature's numbers; nothing if it was not there."""
        numbers: dict[str, Any] = self.numbers.get("features", {}).get(name, {})
        return numbers

    def put_feature(self, name: str, numbers: Mapping[str, Any]) -> None:
        """Save a feature's numbers."""
        self.numbers.setdefault("features", {})[name] = dict(numbers)


def rows_of(node: Plan) -> str:
    """The part with the rows of a stream or an intermediate."""
    return f"{'stream' if isinstance(node, str) else 'intermediate'}/{label(node)}/rows"


def linked_rows(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Bools | None]:
    """Stored columns, and which rows have a key if that was written behind them."""
    last = batch.num_columns - 1
    if last < 0 or batch.schema.field(last).metadata != _LINKED.metadata:
        return batch, None
    linked: Bools = batch.column(last).to_numpy(zero_copy_only=False)
    return batch.select(list(range(last))), linked


def put_arrays(state: EngineState, prefix: str, arrays: Mapping[str, Int64s]) -> None:
    """Save arrays of numbers as one part."""
    lists = pa.array(list(arrays.values()), pa.large_list(pa.int64()))
    batch = pa.record_batch([pa.array(list(arrays), pa.string()), lists], names=["name", "numbers"])
    state.parts[prefix] = Table(batch.schema, [batch])


def get_arrays(state: EngineState, prefix: str) -> dict[str, Int64s]:
    """Return what `put_arrays` saved."""
    return {
        name: np.array(numbers.values.to_numpy())
        for batch in state.part(prefix).batches
        for name, numbers in zip(batch.column(0).to_pylist(), batch.column(1), strict=True)
    }


def _linked(rows: Rows) -> Bools:
    return np.ones(len(rows), np.bool_) if rows.linked is None else rows.linked
