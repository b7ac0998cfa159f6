"""64-bit hashes of keys.

`mix` (MurmurHash3's finaliser) is a bijection: two integers hash alike only if they are equal, so
keys of up to 64 bits need no check afterwards. Longer keys are hashed word by word, and whoever
emits a combination compares the true keys.

Bits are used from both ends: an index takes the highest, Spark's buckets the lowest.
"""

from __future__ import annotations

import numpy as np

from braided.engine.kernels.pointers import inlined, kernel

_A = np.uint64(0xFF51AFD7ED558CCD)
_B = np.uint64(0xC4CEB9FE1A85EC53)
_A_INVERSE = np.uint64(pow(0xFF51AFD7ED558CCD, -1, 1 << 64))
_B_INVERSE = np.uint64(pow(0xC4CEB9FE1A85EC53, -1, 1 << 64))
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_33 = np.uint64(33)
_29 = np.uint64(29)
_8 = np.uint64(8)


@inlined
def mix(x):
    """A bijection of 64-bit words that spreads every bit."""
    x ^= x >> _33
    x *= _A
    x ^= x >> _33
    x *= _B
    x ^= x >> _33
    return x


@inlined
def fold(h, word):
    """Add one more word to a running hash."""
    return mix((h ^ word) * _GOLDEN + (h >> _29))


@kernel
def hash_words(words, out):
    """Bijective hashes of 64-bit words."""
    for i in range(words.shape[0]):
        out[i] = np.int64(mix(np.uint64(words[i])))


@inlined
def unmix(x):
    """What `mix` made this of."""
    x ^= x >> _33
    x *= _B_INVERSE
    x ^= x >> _33
    x *= _A_INVERSE
    x ^= x >> _33
    return x


@kernel
def unhash_words(hashes, out):
    """The words that `hash_words` made these of."""
    for i in range(hashes.shape[0]):
        out[i] = np.int64(unmix(np.uint64(hashes[i])))


@inlined
def draw(lot, word):
    """The lot of a row or combination, given an earlier lot and one more word of it."""
    return np.int64(fold(np.uint64(lot), np.uint64(word)))


@kernel
def first_lot(seed, salt):
    """What all draws of one occasion begin with."""
    return np.int64(mix(np.uint64(seed) * _GOLDEN + np.uint64(salt)))


@kernel
def lots(hashes, times, start, out):
    """A number for each row to draw by: the same for the same key, time and start."""
    for i in range(out.shape[0]):
        out[i] = draw(draw(start, hashes[i]), times[i])


@kernel
def fold_words(words, out):
    """Fold one more key column, given as 64-bit words, into running hashes."""
    for i in range(words.shape[0]):
        out[i] = np.int64(fold(np.uint64(out[i]), np.uint64(words[i])))


@kernel
def hash_bytes(offsets, data, seed, out):
    """One word per byte string `data[offsets[i]:offsets[i + 1]]`, equal for equal strings."""
    for i in range(out.shape[0]):
        at, end = offsets[i], offsets[i + 1]
        h = np.uint64(seed) ^ (np.uint64(end - at) * _GOLDEN)
        while end - at >= 8:
            word = np.uint64(0)
            for b in range(8):
                word |= np.uint64(data[at + b]) << (np.uint64(b) * _8)
            h = fold(h, word)
            at += 8
        if at < end:
            word = np.uint64(0)
            for b in range(end - at):
                word |= np.uint64(data[at + b]) << (np.uint64(b) * _8)
            h = fold(h, word)
        out[i] = np.int64(h)
