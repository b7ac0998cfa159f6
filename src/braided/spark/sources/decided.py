"""A heartbeat's offset in Spark's log: the names in it, and how it is found there."""

from __future__ import annotations

import contextlib
import json
from typing import Any

MARK = "braided"  # by which an offset of ours is known
DECIDED = "decided"


def beat_in(log: str) -> dict[str, Any]:
    """The heartbeat's offset in an entry of Spark's log of offsets; empty if there is none.

    Other sources' offsets are in it, too, and may be any JSON: a topic of Kafka can have our name. In Spark's
    second format a source's number, or its name, stands before each.

    >>> beat_in('v1\\n{}\\n{"braided": {"0": 7}}\\n{"braided": "4f", "beat": 0}')
    {'braided': '4f', 'beat': 0}
    >>> beat_in('v2\\n{}\\n0:{"logOffset":3}\\n1:{"braided": "4f", "beat": 0}')
    {'braided': '4f', 'beat': 0}
    """
    for line in log.splitlines():
        with contextlib.suppress(ValueError):
            offset = json.loads(line[line.find("{") :])
            if isinstance(offset, dict) and isinstance(offset.get(MARK), str) and "beat" in offset:
                return offset
    return {}
