"""The types that kernels are called with: numbers, and arrays that lie in one piece.

Arrow hands some of its buffers out read-only, which to Numba is a type of its own.
"""

from __future__ import annotations

from numba import types

BYTE, LONG, FLAG = types.int8, types.int64, types.boolean
BYTES, SHORTS, INTS, LONGS = BYTE[::1], types.int16[::1], types.int32[::1], LONG[::1]
FLAGS, INT_TABLE, TABLE, CUBE = FLAG[::1], types.int32[:, ::1], LONG[:, ::1], LONG[:, :, ::1]
RAW = types.uint8[::1]
READ_LONGS, READ_RAW = (types.Array(t, 1, "C", readonly=True) for t in (LONG, types.uint8))
