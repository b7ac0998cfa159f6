"""Arrow types that cannot be gathered by position are stored in a plainer form and turned back."""

from __future__ import annotations

import functools

import pyarrow as pa
import pyarrow.compute as pc

_OF_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def storable_type(type_: pa.DataType) -> pa.DataType:
    """Return the form a column of this type is stored in; usually the type itself.

    Views and run-end encoding cannot be gathered by position. Dictionaries of several batches cannot
    be put together without growing, so they are stored as plain values.
    """
    t = pa.types
    if type_ in _OF_VIEWS:
        return _OF_VIEWS[type_]
    if t.is_run_end_encoded(type_) or t.is_dictionary(type_):
        return storable_type(type_.value_type)
    if t.is_struct(type_):
        return pa.struct([f.with_type(storable_type(f.type)) for f in type_])
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        item = type_.value_field.with_type(storable_type(type_.value_type))
        if t.is_fixed_size_list(type_):
            return pa.list_(item, type_.list_size)
        return pa.large_list(item) if t.is_large_list(type_) else pa.list_(item)
    return type_


@functools.lru_cache(maxsize=1_000)
def check_storable(type_: pa.DataType) -> str | None:
    """Return why a column of this type cannot be stored and given back; None if it can."""
    try:
        stored = to_storable(pa.nulls(1, type_))
        from_storable(stored.take(pa.array([0])), type_)
    except pa.ArrowException as wrong:
        return str(wrong).splitlines()[0]
    return None


def to_storable(column: pa.Array) -> pa.Array:
    """Convert a column to its stored form."""
    if pa.types.is_run_end_encoded(column.type):
        return to_storable(pc.run_end_decode(column))
    if pa.types.is_dictionary(column.type):
        return to_storable(column.dictionary_decode())
    stored = storable_type(column.type)
    return column if stored == column.type else column.cast(stored)


def from_storable(column: pa.Array, type_: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Convert a stored column to the form it came in."""
    if column.type == type_:
        return column
    if pa.types.is_run_end_encoded(type_):
        plain = from_storable(column, type_.value_type)
        return pc.run_end_encode(plain, run_end_type=type_.run_end_type)
    if pa.types.is_dictionary(type_):
        return pa.chunked_array(_encoded(column, type_), type_)
    return column.cast(type_)


def _encoded(column: pa.Array, type_: pa.DataType) -> list[pa.Array]:
    """Dictionary-encoded, in as many pieces as the width of the type's indices asks for."""
    encoded = column.dictionary_encode()
    if len(encoded.dictionary) > 1 << (type_.index_type.bit_width - 1):
        half = len(column) // 2
        return [*_encoded(column.slice(0, half), type_), *_encoded(column.slice(half), type_)]
    values = from_storable(encoded.dictionary, type_.value_type)
    indices = encoded.indices.cast(type_.index_type)
    return [pa.DictionaryArray.from_arrays(indices, values, ordered=type_.ordered)]


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Make a batch without rows, of any schema (`empty_table` knows no unions)."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def no_results(schema: pa.Schema) -> pa.Table:
    """Make a table without rows, of any schema."""
    return pa.Table.from_batches([no_rows(schema)], schema)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Fit older rows to today's columns: new ones are null, gone ones are left out."""
    if batch.schema == schema:
        return batch
    arrays = [
        batch.column(f.name) if f.name in batch.schema.names else pa.nulls(batch.num_rows, f.type)
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
