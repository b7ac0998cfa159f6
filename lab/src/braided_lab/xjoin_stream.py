"""All that XJoin keeps of one stream: what is in memory, what is on disk, and how keys are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from braided.engine.sides.keys import KeyFormat, key_format
from braided.engine.sides.payload import owned
from braided.engine.sides.side import Rows, SideState
from braided.engine.sides.storable import check_storable, no_rows, storable_type
from braided.policies.arrays import Int64s
from braided.query.errors import InvalidType, UnknownName, did_you_mean
from braided_lab.xjoin_disk import DiskPortion
from braided_lab.xjoin_memory import MemoryPortions, Portion


def key_of(schemas: tuple[pa.Schema, pa.Schema], key: str) -> KeyFormat:
    """How the key is read in both streams; one that is no integer raises."""
    for schema in schemas:
        if key not in schema.names:
            raise UnknownName(f"XJoin: no column {key!r} for the key; {did_you_mean(key, schema.names)}")
        if not pa.types.is_integer(schema.field(key).type):
            raise InvalidType(f"XJoin: key {key!r} must be an integer; got {schema.field(key).type}")
    return key_format([[(key, schema.field(key).type) for schema in schemas]])


class XStream:
    """One stream's rows: memory portions, and a disk portion for each partition."""

    def __init__(self, name: str, schema: pa.Schema, key: str, keys: KeyFormat, partitions: int) -> None:
        _check_types(name, schema)
        self.name, self.schema = name, schema
        self._key, self._keys = schema.names.index(key), keys
        self._partitions = partitions
        self.memory = MemoryPortions(name, schema, partitions)
        self.disk: list[DiskPortion] = []  # until something is flushed

    def accept(self, batch: pa.RecordBatch | None) -> pa.RecordBatch:
        """The rows that have a key; a batch of another schema raises."""
        if batch is None:
            return no_rows(self.schema)
        if batch.schema.names != self.schema.names or batch.schema.types != self.schema.types:
            raise InvalidType(f"XJoin: {self.name} must have the schema\n{self.schema}\ngot\n{batch.schema}")
        key = batch.column(self._key)
        return batch.filter(key.is_valid()) if key.null_count else batch

    def enter(self, batch: pa.RecordBatch, start: int, rows: int, clock: int) -> int:
        """Store a part of a batch, arriving from `clock` on; the position of its first row."""
        mark = self.memory.side.reserve(rows)
        if rows:
            part = batch if rows == batch.num_rows else owned(batch.slice(start, rows))
            self.memory.append(self._rows(part, np.arange(clock, clock + rows)))
        return mark.count

    def flush(self, partition: int, now: int, folder: Path) -> None:
        """Move a partition's rows from memory to disk."""
        if not self.disk:
            paths = [folder / f"{self.name}-{p}.arrows" for p in range(self._partitions)]
            self.disk = [DiskPortion(path, self.schema) for path in paths]
        self.disk[partition].write(*self.memory.depart(partition), departed=now)

    def on_disk(self, partition: int, *, indexed: bool) -> Portion:
        """A partition's rows on disk, read to probe and, if indexed, to be probed."""
        side = SideState(self.name, self.schema, scanned=not indexed)
        if not self.disk or not self.disk[partition].rows:
            return Portion(side, np.empty(0, np.int64))
        batch, stamps = self.disk[partition].read()
        side.append(self._rows(batch, stamps.arrived))
        return Portion(side, stamps.departed)

    def _rows(self, batch: pa.RecordBatch, arrived: Int64s) -> Rows:
        return Rows(batch, self._keys.hashes([batch.column(self._key)], batch.num_rows), arrived)


def _check_types(name: str, schema: pa.Schema) -> None:
    for field in schema:
        if storable_type(field.type) != field.type or check_storable(field.type):
            raise InvalidType(f"XJoin: {name} column {field.name!r} has type {field.type}; cast it")
