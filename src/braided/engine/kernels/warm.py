"""Compiling all kernels before they are needed.

Numba keeps compiled code beside the source, or in `NUMBA_CACHE_DIR`, or, where neither can be
written, in the user's cache directory; if none can be written, kernels are compiled in memory.
"""

from __future__ import annotations

import time

import numpy as np

from braided.engine.kernels import (
    alternate,
    checksum,
    closing,
    counting,
    gather,
    hashing,
    index,
    probe,
    tables,
)


def warm_up() -> float:
    """Compile every kernel, or load it from the cache; the seconds it took.

    Run it once when a machine or image is set up, so that no job waits for compilation.
    """
    began = time.perf_counter()
    _hashing()
    _index_and_counting()
    _probe()
    _gather()
    _closing()
    checksum.checksum(_longs(0).ctypes.data, 0)
    return time.perf_counter() - began


def _longs(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def _frozen(values: np.ndarray) -> np.ndarray:
    """The same, read-only, as Arrow hands its buffers out: to Numba another type."""
    values.flags.writeable = False
    return values


def _hashing() -> None:
    out, raw = _longs(0), np.zeros(1, np.uint8)
    for words, where, data in (
        (_longs(1), _longs(0, 1), raw),
        (_frozen(_longs(1)), _frozen(_longs(0, 1)), _frozen(raw.copy())),
    ):
        hashing.hash_words(words, out)
        hashing.lots(words, words, hashing.first_lot(0, 0), out)
        hashing.fold_words(words, out)
        hashing.hash_bytes(where, data, 0, out)
        hashing.hash_bytes(_longs(0, 1), data, 0, out)


def _index_and_counting() -> None:
    hashes, times, link, head = _longs(1), _longs(1), _ints(-1), np.full(64, -1, np.int32)
    ranks, leaves = np.zeros((1, counting.RANK_COLUMNS), np.int64), _longs(1)
    index.insert(hashes, link, head, 58, 0, 0, 1)
    counting.count_in_stream(times, ranks, leaves, 0, 0, 0, 1, 1, 0)
    counting.count_in_key(hashes, hashes, times, link, ranks, leaves, 0, 0, 0, 1, 1)
    counting.inside_window(_ints(0), times, leaves, 0, np.ones(1, np.bool_))
    index.undo(hashes, link, head, 58, 0, 0, 1)
    index.unlink(hashes, link, head, 58, 0, 0, np.zeros(1, np.bool_), _longs(0))
    index.expired_prefix(times, 0)
    index.last_fall(times, 0)
    index.last_fall(_frozen(_longs(1)), 0)


def _probe() -> None:
    sides, square = np.zeros((2, tables.SIDE_COLUMNS), np.int64), np.zeros((2, 2), np.int64)
    no_segments = np.zeros((0, tables.SEEN + 2), np.int64)
    probe.enumerate_combinations(
        sides,
        square,
        square,
        no_segments,
        _longs(0, 0, 0),
        np.zeros((2, tables.level_rows(2), 1), np.int64),
        _longs(0, 0),
        square,
        np.zeros((2, 2, tables.TALLY_COLUMNS), np.int64),
        np.zeros((2, 1), np.int32),
    )
    probe.count_matches(sides, 0, 1, square, _longs()[:0], _longs()[:0])
    alternate.alternate(_longs(), _longs(0, 0), _longs(0, 0), _longs(0, 0), no_segments)


def _gather() -> None:
    values = _longs(1)
    addresses, chunk, offset = _longs(values.ctypes.data), _ints(0), _ints(0)
    gather.locate(_longs(0, 1 << 62), _ints(0), chunk, offset)
    gather.gather_8_bytes(addresses, chunk, offset, 1, _longs(0))
    gather.gather_4_bytes(addresses, chunk, offset, _ints(0))
    gather.gather_2_bytes(addresses, chunk, offset, np.zeros(1, np.int16))
    gather.gather_1_byte(addresses, chunk, offset, np.zeros(1, np.int8))
    gather.gather_bits(_longs(0), _longs(0), chunk, offset, np.zeros(1, np.uint8))
    texts, wide = np.zeros(1, np.int8), _longs(0, 0)
    for places, is_wide in ((_ints(0, 0), False), (wide, True)):
        addresses = _longs(places.ctypes.data)
        gather.text_offsets(addresses, is_wide, chunk, offset, places)
        gather.gather_texts(addresses, _longs(texts.ctypes.data), is_wide, chunk, offset, texts.ctypes.data)


def _closing() -> None:
    hashes, link, head, out = _longs(1), _ints(-1), np.full(64, -1, np.int32), np.zeros(1, np.bool_)
    gone = np.zeros(1, np.bool_)
    closing.first_ones(hashes, hashes, head.copy(), 58, out)
    closing.held(hashes, hashes, gone, link, head, 58, 0, 0, hashes, hashes, out)
    closing.rows_of(hashes, hashes, gone, link, head, 58, 0, 0, hashes, hashes, _longs(0))
    closing.in_intervals(hashes, hashes, hashes, out)
    closing.in_pairs(hashes, hashes, hashes, hashes, out)
    table = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(64, np.int8)
    closing.set_states(*table, 58, hashes, hashes, np.int8(closing.CLOSED))
    closing.states_of(*table, 58, hashes, hashes, np.zeros(1, np.int8))
    closing.move(*table, *(np.zeros_like(part) for part in table), 58)
