"""Collecting values at given positions out of several Arrow chunks, without joining them.

Chunk c holds the positions from `starts[c]` on, up to the next chunk's; its values begin at `addresses[c]`.
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.argument_types import BYTES, INTS, LONG, LONGS, SHORTS
from braided.engine.kernels.index import at_most
from braided.engine.kernels.pointers import copy_bytes, kernel, load_int8, load_like


@kernel((LONGS, INTS))
def locate(starts, positions):
    """Find the chunk that each position lies in, and where in it."""
    chunk = np.empty(positions.shape[0], np.int32)
    offset = np.empty(positions.shape[0], np.int32)
    later = starts[1:]
    for i in range(positions.shape[0]):
        chunk[i] = at_most(later, positions[i])
        offset[i] = positions[i] - starts[chunk[i]]
    return chunk, offset


@kernel(*((LONGS, INTS, INTS, LONG, words) for words in (BYTES, SHORTS, INTS, LONGS)))
def gather_values(addresses, chunk, offset, words, out):
    """Gather values of `words` words each; a word is as wide as those of `out`."""
    for i in range(chunk.shape[0]):
        for w in range(words):
            out[i * words + w] = load_like(out, addresses[chunk[i]], offset[i] * words + w)


@kernel((LONGS, LONGS, INTS, INTS, BYTES))
def gather_bits(addresses, first_bits, chunk, offset, out):
    """Gather bits, one byte each; a chunk without bits (address 0) counts as all set."""
    for i in range(chunk.shape[0]):
        c = chunk[i]
        if addresses[c] == 0:
            out[i] = 1
        else:
            bit = first_bits[c] + offset[i]
            out[i] = (load_int8(addresses[c], bit >> 3) >> (bit & 7)) & 1


@kernel(*((LONGS, INTS, INTS, ends) for ends in (INTS, LONGS)))
def text_offsets(addresses, chunk, offset, out):
    """Find where each text lies, put one after the other, from 0 on; return how many bytes there are.

    The chunks' offsets, at `addresses`, are as wide as those of `out`.
    """
    at = 0
    out[0] = 0
    for i in range(chunk.shape[0]):
        address, row = addresses[chunk[i]], offset[i]
        at += load_like(out, address, row + 1) - load_like(out, address, row)
        out[i + 1] = at
    return at


@kernel(*((LONGS, LONGS, INTS, INTS, ends, LONG) for ends in (INTS, LONGS)))
def gather_texts(addresses, texts, chunk, offset, ends, out):
    """Copy texts to where `text_offsets` puts them, from address `out` on; chunks' bytes begin at `texts`."""
    for i in range(chunk.shape[0]):
        begin = load_like(ends, addresses[chunk[i]], offset[i])
        copy_bytes(out + ends[i], texts[chunk[i]] + begin, ends[i + 1] - ends[i])
