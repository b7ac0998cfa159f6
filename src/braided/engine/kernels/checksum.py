"""Checksums of memory, at about the speed at which it is read.

Four lanes take a word each in turn, by the step of xxHash64. Every step is a bijection of its lane, and so is
what joins the lanes, so a change inside one word always changes the result; other damage leaves it as it was
about once in 2^64. It is no signature: whoever may write the memory may write a checksum that fits.
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.argument_types import LONG
from braided.engine.kernels.hashing import mix
from braided.engine.kernels.pointers import inlined, kernel, load_int8, load_int64

_A, _B = np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x9E3779B185EBCA87)
_LEFT, _RIGHT = np.uint64(31), np.uint64(33)
_BLOCK = 32  # bytes that the lanes take together


@inlined
def _step(lane, word):
    lane += np.uint64(word) * _A
    return ((lane << _LEFT) | (lane >> _RIGHT)) * _B


@kernel((LONG, LONG))
def checksum(address, size):
    """Return the checksum of `size` bytes from an address on."""
    a = b = c = d = np.uint64(size)
    blocks = size // _BLOCK
    for block in range(blocks):
        at = 4 * block
        a = _step(a, load_int64(address, at))
        b = _step(b, load_int64(address, at + 1))
        c = _step(c, load_int64(address, at + 2))
        d = _step(d, load_int64(address, at + 3))
    for at in range(blocks * _BLOCK, size):
        a = _step(a, load_int8(address, at))
    return np.int64(mix(mix(mix(mix(a) ^ b) ^ c) ^ d))
