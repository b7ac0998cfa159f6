"""Collecting fixed-width values at given positions out of several Arrow chunks, without joining them.

Chunk c holds positions `starts[c] <= p < starts[c + 1]`; `addresses[c]` is where its values begin.
"""

from __future__ import annotations

import numpy as np

from braided.kernels.memory import kernel, load_int8, load_int16, load_int32, load_int64


@kernel
def locate(starts, positions, chunk, offset):
    """Which chunk each position lies in, and where in it."""
    last = starts.shape[0] - 1
    for i in range(positions.shape[0]):
        p = positions[i]
        low, high = 0, last
        while high - low > 1:
            middle = (low + high) // 2
            if starts[middle] <= p:
                low = middle
            else:
                high = middle
        chunk[i] = low
        offset[i] = p - starts[low]


@kernel
def gather_8_bytes(addresses, chunk, offset, words, out):
    """Values of `words` 64-bit words each."""
    for i in range(chunk.shape[0]):
        for w in range(words):
            out[i * words + w] = load_int64(addresses[chunk[i]], offset[i] * words + w)


@kernel
def gather_4_bytes(addresses, chunk, offset, out):
    """32-bit values."""
    for i in range(chunk.shape[0]):
        out[i] = np.int32(load_int32(addresses[chunk[i]], offset[i]))


@kernel
def gather_2_bytes(addresses, chunk, offset, out):
    """16-bit values."""
    for i in range(chunk.shape[0]):
        out[i] = np.int16(load_int16(addresses[chunk[i]], offset[i]))


@kernel
def gather_1_byte(addresses, chunk, offset, out):
    """8-bit values."""
    for i in range(chunk.shape[0]):
        out[i] = np.int8(load_int8(addresses[chunk[i]], offset[i]))


@kernel
def gather_bits(addresses, first_bits, chunk, offset, out):
    """Bits, one byte each; a chunk without bits (address 0) counts as all set."""
    for i in range(chunk.shape[0]):
        c = chunk[i]
        if addresses[c] == 0:
            out[i] = 1
        else:
            bit = first_bits[c] + offset[i]
            out[i] = (load_int8(addresses[c], bit >> 3) >> (bit & 7)) & 1
