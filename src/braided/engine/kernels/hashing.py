"""64-bit hashes of keys.

`mix` (MurmurHash3's finaliser) is a bijection: two integers hash alike only if they are equal, so
keys of up to 64 bits need no check afterwards. Longer keys are hashed word by word, and whoever
emits a combination compares the true keys.

Bits are used from both ends: an index takes the highest, Spark's buckets the lowest.
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.argument_types import LONG, LONGS, RAW, READ_LONGS, READ_RAW
from braided.engine.kernels.pointers import inlined, kernel

_A = np.uint64(0xFF51AFD7ED558CCD)
_B = np.uint64(0xC4CEB9FE1A85EC53)
_A_INVERSE = np.uint64(pow(0xFF51AFD7ED558CCD, -1, 1 << 64))
_B_INVERSE = np.uint64(pow(0xC4CEB9FE1A85EC53, -1, 1 << 64))
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_8, _29, _33 = np.uint64(8), np.uint64(29), np.uint64(33)


@inlined
def _stir(x, a, b):
    x ^= x >> _33
    x *= a
    x ^= x >> _33
    x *= b
    x ^= x >> _33
    return x


@inlined
def mix(x):
    """Spread every bit of a 64-bit word; a bijection."""
    return _stir(x, _A, _B)


@inlined
def fold(h, word):
    """Add one more word to a running hash."""
    return mix((h ^ word) * _GOLDEN + (h >> _29))


@kernel((LONGS,), (READ_LONGS,))
def hash_words(words):
    """Hash 64-bit words, bijectively."""
    out = np.empty(words.shape[0], np.int64)
    for i in range(words.shape[0]):
        out[i] = np.int64(mix(np.uint64(words[i])))
    return out


@kernel((LONGS,))
def unhash_words(hashes):
    """Undo `hash_words`."""
    out = np.empty(hashes.shape[0], np.int64)
    for i in range(hashes.shape[0]):
        out[i] = np.int64(_stir(np.uint64(hashes[i]), _B_INVERSE, _A_INVERSE))
    return out


@inlined
def draw(lot, word):
    """Draw the lot of a row or combination, given an earlier lot and one more word of it."""
    return np.int64(fold(np.uint64(lot), np.uint64(word)))


@kernel((LONG, LONG))
def first_lot(seed, salt):
    """Return what all draws of one occasion begin with."""
    return np.int64(mix(np.uint64(seed) * _GOLDEN + np.uint64(salt)))


@kernel((LONGS, LONGS, LONG), (READ_LONGS, READ_LONGS, LONG))
def lots(hashes, times, start):
    """Draw a number for each row: the same for the same key, time and start."""
    out = np.empty(hashes.shape[0], np.int64)
    for i in range(hashes.shape[0]):
        out[i] = draw(draw(start, hashes[i]), times[i])
    return out


@kernel((LONGS, LONGS), (READ_LONGS, LONGS))
def fold_words(words, out):
    """Fold one more key column, given as 64-bit words, into running hashes."""
    for i in range(words.shape[0]):
        out[i] = np.int64(fold(np.uint64(out[i]), np.uint64(words[i])))


@inlined
def _word(data, at, size):
    """Up to eight bytes as one word; `size` is best a constant."""
    word = np.uint64(0)
    for b in range(size):
        word |= np.uint64(data[at + b]) << (np.uint64(b) * _8)
    return word


@kernel(*((ends, data, LONG) for ends in (LONGS, READ_LONGS) for data in (RAW, READ_RAW)))
def hash_bytes(offsets, data, seed):
    """Hash each byte string `data[offsets[i]:offsets[i + 1]]` to a word, equal for equal strings."""
    out = np.empty(offsets.shape[0] - 1, np.int64)
    for i in range(out.shape[0]):
        at, end = offsets[i], offsets[i + 1]
        h = np.uint64(seed) ^ (np.uint64(end - at) * _GOLDEN)
        while end - at >= 8:
            h = fold(h, _word(data, at, 8))
            at += 8
        if at < end:
            h = fold(h, _word(data, at, end - at))
        out[i] = np.int64(h)
    return out
