"""After the join: blobs become rows again."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from braided.spark.wire import blobs


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The result rows in the blobs; rows that only carry metrics are passed over."""
    for batch in batches:
        for blob in batch.column(0):
            if blob.is_valid:
                yield blobs.decode(blob.as_buffer())
