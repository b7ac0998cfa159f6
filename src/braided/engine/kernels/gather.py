"""Collecting values at given positions out of several Arrow chunks, without joining them.

Chunk c holds positions `starts[c] <= p < starts[c + 1]`; `addresses[c]` is where its values begin.
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.pointers import (
    copy_bytes,
    inlined,
    kernel,
    load_int8,
    load_int16,
    load_int32,
    load_int64,
)


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


@inlined
def _begin(addresses, wide, c, i):
    """Where text i of a chunk begins; its offsets have 64 bits if `wide`, else 32."""
    return load_int64(addresses[c], i) if wide else load_int32(addresses[c], i)


@kernel
def text_offsets(addresses, wide, chunk, offset, out):
    """Where each text lies, put one after the other, from 0 on; how many bytes there are."""
    at = 0
    out[0] = 0
    for i in range(chunk.shape[0]):
        c, row = chunk[i], offset[i]
        at += _begin(addresses, wide, c, row + 1) - _begin(addresses, wide, c, row)
        out[i + 1] = at
    return at


@kernel
def gather_texts(addresses, texts, wide, chunk, offset, out):
    """Texts one after the other, to the address `out`; `texts` is where each chunk's bytes begin."""
    for i in range(chunk.shape[0]):
        c, row = chunk[i], offset[i]
        begin = _begin(addresses, wide, c, row)
        size = _begin(addresses, wide, c, row + 1) - begin
        copy_bytes(out, texts[c] + begin, size)
        out += size
