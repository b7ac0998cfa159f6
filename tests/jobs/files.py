"""Job files for tests: a right one, and ways to change it."""

from __future__ import annotations

from pathlib import Path

import pytest

from braided.jobs import Job, JobError, load

GOOD = """\
query:
  streams:
    orders: {key: order_id, time: placed_at, window: 2 hours, lateness: 1 minute}
    payments:
      key: order_id
      time: paid_at
      window: 1 hour
      lateness: 1 minute
  within:
    orders, payments: 30 minutes
sources:
  orders: {format: parquet, path: in/orders, schema: "order_id long, placed_at timestamp"}
  payments:
    format: csv
    path: in/payments
    schema: {order_id: long, paid_at: timestamp}
    options: {header: true}
sink: {format: parquet, path: out}
checkpoint: checkpoint
"""


def write(folder: Path, text: str, *changes: tuple[str, str]) -> Path:
    """The text as a file, with replacements that must apply."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "job.yaml"
    path.write_text(text)
    return path


def good(folder: Path, *changes: tuple[str, str], **environment: str) -> Job:
    """The right job with changes that leave it right."""
    return load(write(folder, GOOD, *changes), environment)


def said(folder: Path, *changes: tuple[str, str], text: str = GOOD, **environment: str) -> list[str]:
    """What is said against a changed job: a line a problem, without the folder's name."""
    with pytest.raises(JobError) as raised:
        load(write(folder, text, *changes), environment)
    return [line.replace(f"{folder}/", "") for line in raised.value.lines]
