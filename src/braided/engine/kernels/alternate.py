"""Letting the rows of several buffers take turns one by one.

Each buffer's rows have keys that never fall; the next row is the one with the smallest key among the
buffers' first remaining rows, the earlier stream's if keys are equal. The result is written as segments
for `kernels.probe`: runs of rows of one stream, with what has been taken of every stream before them.

    keys of stream 0: 1 4       of stream 1: 2 3      segments: 0 (1), 1 (2, 3), 0 (4)
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.argument_types import LONGS, TABLE
from braided.engine.kernels.pointers import kernel
from braided.engine.kernels.tables import DRIVER, SEEN, START, STOP


@kernel((LONGS, LONGS, LONGS, LONGS, TABLE))
def alternate(keys, limits, taken, stops, segments):
    """Fill `segments` from where `taken` (positions per stream) stands; return how many.

    `keys` holds all streams' keys one after the other; stream s has those before `limits[s]`, the last of
    them belongs to position stops[s] - 1.
    """
    streams = taken.shape[0]
    n = 0
    while n < segments.shape[0]:
        best, least = -1, np.int64(0)
        for s in range(streams):
            if taken[s] < stops[s]:
                key = keys[limits[s] - (stops[s] - taken[s])]
                if best < 0 or key < least:
                    best, least = s, key
        if best < 0:
            break
        segments[n, DRIVER], segments[n, START] = best, taken[best]
        segments[n, SEEN:] = taken
        going = True
        while going:
            taken[best] += 1
            going = taken[best] < stops[best]
            if going:
                key = keys[limits[best] - (stops[best] - taken[best])]
                for s in range(streams):
                    if s != best and taken[s] < stops[s]:
                        other = keys[limits[s] - (stops[s] - taken[s])]
                        going &= (key < other) | ((key == other) & (best < s))
        segments[n, STOP] = taken[best]
        n += 1
    return n
