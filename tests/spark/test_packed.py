"""The rows that travel between tasks: written once, read back the same from Arrow and from pandas."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema

from braided.spark.plan import BLOB_BYTES
from braided.spark.wire.packed import (
    Emitted,
    Packed,
    emitted_rows,
    encoded,
    gathered,
    packed_frames,
    packed_rows,
    schema,
    to_arrow,
)

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
        assert packed_frames(3, [batch.to_pandas(), batch.slice(0, 0).to_pandas()]) == rows
    assert packed_rows([]) == packed_frames(3, []) == []


def test_emitted_rows_come_back_too_but_for_reports() -> None:
    rows = [Emitted(b"x", late=True), Emitted(b"y" * 99), Emitted(leaves_us=[None, 7])]
    batch = to_arrow([*rows, Emitted(report="{}")])
    assert list(emitted_rows([batch])) == [*rows, Emitted()]
    assert batch.column("report").to_pylist() == [None, None, None, "{}"]
    assert [len(group) for group in gathered(rows)] == [3]
    large = Emitted(bytes(BLOB_BYTES))
    assert [len(group) for group in gathered([rows[0], large, *rows])] == [2, 3]


def test_blobs_lie_where_arrow_likes_them() -> None:
    for row in (BLOB, CONTROL._replace(blob=b"\x00rows"), Emitted(b"\x00rows")):
        assert encoded(row).index(b"\x00rows") % 64 == 0


def test_every_column_has_a_type_that_spark_knows() -> None:
    for kind in (Packed, Emitted):
        assert from_arrow_schema(schema(kind)).names == schema(kind).names
