"""Record batches as bytes: one Arrow IPC stream each, of bounded size."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from braided.spark.plan import BLOB_BYTES

# blobs are small: to hand one to a thread and back takes longer than the work
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


def encode(batch: pa.RecordBatch, *, compressed: bool = False) -> bytes:
    """One record batch as an IPC stream; compressed where it is kept, not where it only travels."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED if compressed else None) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def encoded(batch: pa.RecordBatch, *, compressed: bool = False) -> Iterator[bytes]:
    """The batch as bytes, in pieces of bounded size."""
    return (encode(piece, compressed=compressed) for piece in bounded(batch))


def decode(blob: bytes | memoryview) -> pa.RecordBatch:
    """The record batch in an IPC stream."""
    with pa.ipc.open_stream(pa.py_buffer(blob), options=_READ) as reader:
        return reader.read_next_batch()


def bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of at most `BLOB_BYTES` each (but one row at least)."""
    if not batch.num_rows:
        return
    pieces = 1 + batch.nbytes // BLOB_BYTES
    rows = max(1, -(-batch.num_rows // pieces))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
