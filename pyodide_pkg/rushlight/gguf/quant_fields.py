"""Fields of packed blocks: the few shapes of bit packing that the storage types share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
#: Unpacks blocks [n, type_size] into out [n, block_size].
BlockUnpacker = Callable[[U8, F32], None]

F16 = np.dtype("<f2")
NIBBLES = np.array([0, 4], np.uint8).reshape(1, 1, 2, 1)
PAIRS = np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
BITS = np.arange(8, dtype=np.uint8).reshape(1, 1, 8, 1)


def f16(blocks: U8, offset: int) -> F32:
    """The half-precision field at ``offset`` of every block, as [n, 1]."""
    field: F32 = blocks[:, offset : offset + 2].view(F16).astype(np.float32)
    return field


def words(blocks: U8, start: int, stop: int, dtype: str) -> NDArray[np.integer]:
    """Bytes ``start..stop`` of every block as little-endian numbers, [n, count]."""
    return np.ascontiguousarray(blocks[:, start:stop]).view(dtype)


def low_high_nibbles(qs: U8) -> U8:
    """Nibbles [n, 32] of 16 bytes: all low halves, then all high halves."""
    nibbles: U8 = (qs[:, None, :] >> NIBBLES[0]) & np.uint8(15)
    return nibbles.reshape(len(qs), 32)


def nibble_pairs(data: U8) -> U8:
    """Nibbles [n, 2 * n_bytes] of bytes, each byte's low half before its high half."""
    pairs: U8 = (data[:, :, None] >> NIBBLES.reshape(1, 1, 2)) & np.uint8(15)
    return pairs.reshape(len(data), -1)


def bit_pairs(qs: U8) -> U8:
    """2-bit numbers of 64 bytes, [n, 16, 16]: 32 bytes at a time, lowest bits first."""
    pairs: U8 = (qs.reshape(len(qs), 2, 1, 32) >> PAIRS) & np.uint8(3)
    return pairs.reshape(len(qs), 16, 16)
