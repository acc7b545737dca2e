"""Unpackers of the K types: blocks of 256 values in sub-blocks with small integer scales.

Every function unpacks blocks [n, type_size] into ``out`` [n, 256], with the operations of the
``gguf`` package in their order, so that the values are the same bits.
"""

from __future__ import annotations

import numpy as np

from .quant_fields import BITS, F32, NIBBLES, PAIRS, U8, bit_pairs, f16


def q2_k(blocks: U8, out: F32) -> None:
    """Q2_K: 2-bit values; a 4-bit scale and a 4-bit minimum per 16."""
    values = out.reshape(len(blocks), 16, 16)
    scales = (blocks[:, :16] & np.uint8(15)).astype(np.float32)
    mins = (blocks[:, :16] >> np.uint8(4)).astype(np.float32)
    np.multiply(bit_pairs(blocks[:, 16:80]), (f16(blocks, 80) * scales)[:, :, None], out=values)
    np.subtract(values, (f16(blocks, 82) * mins)[:, :, None], out=values)


def q3_k(blocks: U8, out: F32) -> None:
    """Q3_K: 3-bit values, the third bit apart and inverted; a 6-bit scale per 16.

    Twelve bytes hold the sixteen scales: nibbles of the first eight, low halves first, and above
    them 2-bit numbers of the last four, lowest bits first.
    """
    n = len(blocks)
    low = (blocks[:, 96:104].reshape(n, 1, 8) >> NIBBLES[0]) & np.uint8(15)
    high = (blocks[:, 104:108].reshape(n, 1, 4) >> PAIRS[0]) & np.uint8(3)
    scales = low.reshape(n, 16) | (high.reshape(n, 16) << np.uint8(4))
    d = f16(blocks, 108) * (scales.astype(np.float32) - np.float32(32))
    values = out.reshape(n, 16, 16)
    third = (blocks[:, :32].reshape(n, 1, 1, 32) >> BITS) & np.uint8(1)
    q = bit_pairs(blocks[:, 32:96]) | (third.reshape(n, 16, 16) << np.uint8(2))
    np.subtract(q, np.float32(4), out=values)
    np.multiply(values, d[:, :, None], out=values)


def _k_scales(blocks: U8) -> tuple[F32, F32]:
    """Scales and minimums [n, 8, 1] of a Q4_K or Q5_K block: d * scale, dmin * min.

    Twelve bytes hold eight 6-bit scales and eight 6-bit minimums; the upper two bits of the
    last four of each sit in the top bits of the first eight bytes.
    """
    first, second, third = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    top = np.uint8(0x30)
    scales = np.concatenate([first & 63, (third & 15) | ((first >> 2) & top)], axis=1)
    mins = np.concatenate([second & 63, (third >> 4) | ((second >> 2) & top)], axis=1)
    d = f16(blocks, 0) * scales.astype(np.float32)
    dmin = f16(blocks, 2) * mins.astype(np.float32)
    return d[:, :, None], dmin[:, :, None]


def q4_k(blocks: U8, out: F32) -> None:
    """Q4_K: 4-bit values; a 6-bit scale and minimum per 32."""
    n = len(blocks)
    d, dmin = _k_scales(blocks)
    q = (blocks[:, 16:].reshape(n, 4, 1, 32) >> NIBBLES) & np.uint8(15)
    values = out.reshape(n, 8, 32)
    np.multiply(q.reshape(n, 8, 32), d, out=values)
    np.subtract(values, dmin, out=values)


def q5_k(blocks: U8, out: F32) -> None:
    """Q5_K: Q4_K with a fifth bit apart."""
    n = len(blocks)
    d, dmin = _k_scales(blocks)
    q = ((blocks[:, 48:].reshape(n, 4, 1, 32) >> NIBBLES) & np.uint8(15)).reshape(n, 8, 32)
    high = (blocks[:, 16:48].reshape(n, 1, 1, 32) >> BITS) & np.uint8(1)
    q |= high.reshape(n, 8, 32) << np.uint8(4)
    values = out.reshape(n, 8, 32)
    np.multiply(q, d, out=values)
    np.subtract(values, dmin, out=values)


def q6_k(blocks: U8, out: F32) -> None:
    """Q6_K: 6-bit values; an 8-bit scale per 16."""
    n = len(blocks)
    low = (blocks[:, :128].reshape(n, 2, 1, 64) >> NIBBLES) & np.uint8(15)
    high = (blocks[:, 128:192].reshape(n, 2, 1, 32) >> PAIRS) & np.uint8(3)
    q = low.reshape(n, 8, 32) | (high.reshape(n, 8, 32) << np.uint8(4))
    scales = blocks[:, 192:208].view(np.int8).astype(np.float32)
    d = (f16(blocks, 208) * scales)[:, :, None]
    values = out.reshape(n, 16, 16)
    np.subtract(q.reshape(n, 16, 16), np.float32(32), out=values)
    np.multiply(values, d, out=values)
