"""Arrow types that cannot be gathered by position are stored in a plainer form and turned back."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def storable_type(type_: pa.DataType) -> pa.DataType:
    """The form a column of this type is stored in; usually the type itself."""
    t = pa.types
    if t.is_string_view(type_):
        return pa.large_string()
    if t.is_binary_view(type_):
        return pa.large_binary()
    if t.is_run_end_encoded(type_):
        return storable_type(type_.value_type)
    if t.is_struct(type_):
        return pa.struct([f.with_type(storable_type(f.type)) for f in type_])
    if t.is_list(type_):
        return pa.list_(type_.value_field.with_type(storable_type(type_.value_type)))
    if t.is_large_list(type_):
        return pa.large_list(type_.value_field.with_type(storable_type(type_.value_type)))
    return type_


def to_storable(column: pa.Array) -> pa.Array:
    """The column in its stored form."""
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    stored = storable_type(column.type)
    return column if stored == column.type else column.cast(stored)


def from_storable(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """A stored column in the form it came in."""
    if column.type == type_:
        return column
    if pa.types.is_run_end_encoded(type_):
        plain = from_storable(column, type_.value_type)
        return pc.run_end_encode(plain, run_end_type=type_.run_end_type)
    return column.cast(type_)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows, of any schema (`empty_table` knows no unions)."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def no_results(schema: pa.Schema) -> pa.Table:
    """A table without rows, of any schema."""
    return pa.Table.from_batches([no_rows(schema)], schema)
