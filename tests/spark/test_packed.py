"""The rows that travel between tasks: written once, read back the same from Arrow and from pandas."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from braided.spark.wire.packed import Emitted, Packed, packed_frames, packed_rows, schema, to_arrow

CONTROL = Packed(
    3, 1, 0, 5, rows_in=7, null_keys=2, null_times=1, punctuations=4, newest_us=1_700_000_000_123_457,
    rows_before=1, rows_upto=3, rows_total=9, dropped=3, began_us=1_700_000_000_000_001,
    leaves_us=[None, 1_700_000_000_123_457, 0],
)  # fmt: skip
BLOB = Packed(3, -1, 0, 6, blob=b"\x00rows", closing=True)


def test_packed_rows_come_back_as_they_were_sent() -> None:
    for rows in ([CONTROL, BLOB], [CONTROL], [BLOB], [CONTROL._replace(leaves_us=[4, 5])]):
        batch = to_arrow(rows)
        assert batch.schema == schema(Packed)
        assert packed_rows([batch, batch.slice(0, 0)]) == rows
        assert packed_frames([batch.to_pandas(), batch.slice(0, 0).to_pandas()]) == rows
    assert packed_rows([]) == packed_frames([]) == []


def test_every_column_has_a_type_that_spark_knows() -> None:
    for row in (Packed, Emitted):
        assert schema(row).names == list(row._fields)
        assert from_arrow_schema(schema(row)).names == list(row._fields)
    assert schema(Emitted).field("leaves_us").type == pa.list_(pa.int64())
    assert to_arrow([Emitted(b"x"), Emitted(report="{}")]).to_pylist()[0]["late"] is False
