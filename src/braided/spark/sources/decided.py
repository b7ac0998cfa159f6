"""A heartbeat's offset in Spark's log: the names in it, and how it is found there."""

from __future__ import annotations

import contextlib
import json
from typing import Any

MARK = "braided"  # by which an offset of ours is known
DECIDED = "decided"


def beat_in(log: str) -> dict[str, Any]:
    """The heartbeat's offset in an entry of Spark's log of offsets; empty if there is none.

    Other sources' offsets are in it, too, and may be any JSON: a topic of Kafka can have our name.

    >>> beat_in('v1\\n{}\\n{"braided": {"0": 7}}\\n{"braided": "4f", "beat": 0, "decided": "{}"}')["decided"]
    '{}'
    """
    for line in log.splitlines():
        with contextlib.suppress(ValueError):
            offset = json.loads(line)
            if isinstance(offset, dict) and isinstance(offset.get(MARK), str) and "beat" in offset:
                return offset
    return {}
