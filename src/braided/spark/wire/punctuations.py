"""Punctuations on their way to buckets: one that closes a key goes to its bucket, a range goes to all.

One with a null instead of a key closes nothing; it is counted all the same.

They travel as blobs beside a stream's rows, told from them by their schema's metadata, which also says how
many punctuations a bucket is to count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from braided.engine.intake import Intake
from braided.engine.sides.closed_keys import Keys

_COUNT = b"braided.punctuations"
_UPTO = "upto"


def keys(stored: pa.RecordBatch) -> pa.RecordBatch:
    """Punctuations of single keys, in stored columns, marked as what they are."""
    return stored.replace_schema_metadata({_COUNT: b"rows"})


def upto(largest: int | None, count: int) -> pa.RecordBatch:
    """Punctuations that close all keys up to one, given as its hash, or none; `count` of them are counted."""
    batch = pa.record_batch({_UPTO: pa.array([] if largest is None else [largest], pa.int64())})
    return batch.replace_schema_metadata({_COUNT: str(count).encode()})


def is_one(part: pa.RecordBatch) -> bool:
    """Whether these are punctuations."""
    return _COUNT in (part.schema.metadata or {})


def read(parts: Sequence[pa.RecordBatch], intake: Intake) -> dict[str, Any]:
    """What punctuations say, as fields of an `Arrival`."""
    if not parts:
        return {}
    ranges = [part for part in parts if _counted(part) is not None]
    single = [part for part in parts if _counted(part) is None]
    said: dict[str, Any] = {"punctuations": sum(_counted(part) or 0 for part in ranges)}
    if ranges:
        hashes = np.concatenate([part.column(0).to_numpy() for part in ranges])
        said["upto"] = intake.largest(Keys(hashes))
    if single:
        rows = pa.concat_batches([part.replace_schema_metadata() for part in single])
        said["punctuated"] = intake.stored_keys(rows)
        said["punctuations"] += rows.num_rows
    return said


def _counted(part: pa.RecordBatch) -> int | None:
    """How many a range is counted as; None of single keys."""
    said = (part.schema.metadata or {})[_COUNT]
    return None if said == b"rows" else int(said)
