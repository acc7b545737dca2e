"""Unpackers of the codebook, ternary and microscaling types.

Every function unpacks blocks [n, type_size] into ``out`` [n, block_size], with the operations of
the ``gguf`` package in their order, so that the values are the same bits.

IQ1 to IQ3 store indices into a grid of short vectors (``quant_tables``), with signs apart. IQ2_XXS,
IQ2_XS and IQ3_XXS store seven signs of eight; the last makes the number of minus signs even.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from .quant_fields import (
    F16,
    F32,
    NIBBLES,
    U8,
    bit_pairs,
    f16,
    low_high_nibbles,
    nibble_pairs,
    words,
)
from .quant_tables import IQ4_VALUES, MXFP4_VALUES, grid_codes

U16 = NDArray[np.uint16]
_HALF = np.float32(0.5)
_EIGHT_BITS = np.arange(8, dtype=np.uint8)
_SEVENS = np.array([0, 7, 14, 21], np.uint32)
_THREES = np.array([0, 3, 6, 9], np.uint16)
_POWERS_OF_3 = np.array([1, 3, 9, 27, 81], np.uint8).reshape(1, 5, 1)


@cache
def _grid(name: str, n_values: int, worth: tuple[int, ...]) -> F32:
    """Vectors of a grid, [n_words, n_values], their codes replaced by what they are worth."""
    return np.array(worth, np.float32)[grid_codes(name, n_values)]


def _iq1_grid() -> F32:
    return _grid("IQ1_S", 8, (-1, 0, 1))


def _iq2_grid(name: str) -> F32:
    return _grid(name, 8, (8, 25, 43))


def _iq3_xxs_grid() -> F32:
    return _grid("IQ3_XXS", 4, (4, 12, 20, 28, 36, 44, 52, 62))


def _iq3_s_grid() -> F32:
    return _grid("IQ3_S", 4, (1, 3, 5, 7, 9, 11, 13, 15))


@cache
def _even_signs() -> U8:
    """Sign masks of eight values by their first seven bits: the number of ones is even."""
    masks: U8 = np.arange(128, dtype=np.uint8)
    odd = np.unpackbits(masks[:, None], axis=1).sum(axis=1, dtype=np.uint8) & np.uint8(1)
    masks |= odd << np.uint8(7)
    return masks


def _negate(out: F32, masks: U8) -> None:
    """Flip the sign of value 8 i + j where bit j of mask i is set; zeros too."""
    minus = ((masks[:, :, None] >> _EIGHT_BITS) & np.uint8(1)).reshape(out.shape)
    np.multiply(out, np.float32(1) - np.float32(2) * minus.astype(np.float32), out=out)


def _scaled_grid(out: F32, scales: F32, grid: F32, index: NDArray[np.integer]) -> None:
    """``scales * grid[index]`` for scales [n, n_scales] and index [n, n_vectors]."""
    n, n_scales = scales.shape
    values = out.reshape(n, n_scales, -1)
    np.multiply(grid[index].reshape(values.shape), scales[:, :, None], out=values)


def _wide(low: U8, high: NDArray[np.integer]) -> U16:
    """Indices of more than 8 bits."""
    return low.astype(np.uint16) | (high.astype(np.uint16) << np.uint16(8))


def iq2_xxs(blocks: U8, out: F32) -> None:
    """IQ2_XXS: per 32 values four 8-bit indices, four 7-bit sign masks and a 4-bit scale."""
    pairs = words(blocks, 2, 66, "<u4").reshape(len(blocks), 8, 2)
    index = np.ascontiguousarray(pairs[:, :, 0]).view(np.uint8)
    second = pairs[:, :, 1]
    scales = f16(blocks, 0) * (_HALF + (second >> 28).astype(np.float32)) * np.float32(0.25)
    _scaled_grid(out, scales, _iq2_grid("IQ2_XXS"), index)
    signs = (second[:, :, None] >> _SEVENS) & np.uint32(127)
    _negate(out, _even_signs()[signs.reshape(len(blocks), 32)])


def iq2_xs(blocks: U8, out: F32) -> None:
    """IQ2_XS: per 8 values a 9-bit index and a 7-bit sign mask; a 4-bit scale per 16."""
    qs = words(blocks, 2, 66, "<u2")
    scales = nibble_pairs(blocks[:, 66:]).astype(np.float32)
    scales = f16(blocks, 0) * (_HALF + scales) * np.float32(0.25)
    _scaled_grid(out, scales, _iq2_grid("IQ2_XS"), qs & 511)
    _negate(out, _even_signs()[qs >> 9])


def iq2_s(blocks: U8, out: F32) -> None:
    """IQ2_S: per 8 values a 10-bit index, its top bits apart, and 8 signs; a scale per 16."""
    n = len(blocks)
    high = (blocks[:, 66:74, None] >> np.array([0, 2, 4, 6], np.uint8)) & np.uint8(3)
    scales = nibble_pairs(blocks[:, 74:]).astype(np.float32)
    scales = f16(blocks, 0) * (_HALF + scales) * np.float32(0.25)
    _scaled_grid(out, scales, _iq2_grid("IQ2_S"), _wide(blocks[:, 2:34], high.reshape(n, 32)))
    _negate(out, blocks[:, 34:66])


def iq3_xxs(blocks: U8, out: F32) -> None:
    """IQ3_XXS: per 4 values an 8-bit index; per 32 four 7-bit sign masks and a 4-bit scale."""
    second = words(blocks, 66, 98, "<u4")
    scales = f16(blocks, 0) * (_HALF + (second >> 28).astype(np.float32)) * _HALF
    _scaled_grid(out, scales, _iq3_xxs_grid(), blocks[:, 2:66])
    signs = (second[:, :, None] >> _SEVENS) & np.uint32(127)
    _negate(out, _even_signs()[signs.reshape(len(blocks), 32)])


def iq3_s(blocks: U8, out: F32) -> None:
    """IQ3_S: per 4 values a 9-bit index, its top bit apart, and signs; a 4-bit scale per 32."""
    high = np.unpackbits(blocks[:, 66:74], axis=1, bitorder="little")
    scales = f16(blocks, 0) * (np.uint8(1) + np.uint8(2) * nibble_pairs(blocks[:, 106:]))
    _scaled_grid(out, scales, _iq3_s_grid(), _wide(blocks[:, 2:66], high))
    _negate(out, blocks[:, 74:106])


def _iq1(out: F32, scales: F32, index: U16, is_low: NDArray[np.bool_]) -> None:
    """``scales * (grid[index] ± 1/8)``, minus where ``is_low`` [n, 32 or 8]."""
    n, n_scales = scales.shape
    shift = np.where(is_low, np.float32(-0.125), np.float32(0.125))
    values = _iq1_grid()[index].reshape(n, is_low.shape[1], -1)
    values += shift[:, :, None]
    by_scale = out.reshape(n, n_scales, -1)
    np.multiply(values.reshape(by_scale.shape), scales[:, :, None], out=by_scale)


def iq1_s(blocks: U8, out: F32) -> None:
    """IQ1_S: per 8 values an 11-bit index; per 32 a 3-bit scale and the sign of the shift."""
    n = len(blocks)
    qh = words(blocks, 34, 50, "<u2")
    high = ((qh[:, :, None] >> _THREES) & np.uint16(7)).reshape(n, 32)
    scales = f16(blocks, 0) * (2 * ((qh >> 12) & 7) + 1).astype(np.float32)
    _iq1(out, scales, _wide(blocks[:, 2:34], high), qh >= 0x8000)


def iq1_m(blocks: U8, out: F32) -> None:
    """IQ1_M: as IQ1_S with a scale per 16 and a shift per 8.

    The half-precision scale is scattered: its four nibbles are the tops of the four scale words.
    """
    n = len(blocks)
    packed = words(blocks, 48, 56, "<u2")
    tops = (packed & np.uint16(0xF000)) >> np.array([12, 8, 4, 0], np.uint16)
    d = np.bitwise_or.reduce(tops, axis=1).astype("<u2").view(F16).astype(np.float32)
    scales = ((packed[:, :, None] >> _THREES) & np.uint16(7)).reshape(n, 16)
    qh = nibble_pairs(blocks[:, 32:48])
    index = _wide(blocks[:, :32], qh & np.uint8(7))
    _iq1(out, d[:, None] * (2 * scales + 1).astype(np.float32), index, qh >= 8)


@cache
def _worth(values: tuple[int, ...]) -> F32:
    return np.array(values, np.float32)


def iq4_nl(blocks: U8, out: F32) -> None:
    """IQ4_NL: 4-bit codes of uneven steps, a scale per 32."""
    np.multiply(_worth(IQ4_VALUES)[low_high_nibbles(blocks[:, 2:])], f16(blocks, 0), out=out)


def iq4_xs(blocks: U8, out: F32) -> None:
    """IQ4_XS: the codes of IQ4_NL, 256 to a block, a 6-bit scale per 32."""
    n = len(blocks)
    high = (words(blocks, 2, 4, "<u2") >> (2 * np.arange(8, dtype=np.uint16))) & np.uint16(3)
    scales = nibble_pairs(blocks[:, 4:8]) | (high.astype(np.uint8) << np.uint8(4))
    d = f16(blocks, 0) * (scales.astype(np.float32) - np.float32(32))
    codes = (blocks[:, 8:].reshape(n, 8, 1, 16) >> NIBBLES) & np.uint8(15)
    values = out.reshape(n, 8, 32)
    np.multiply(_worth(IQ4_VALUES)[codes.reshape(n, 8, 32)], d[:, :, None], out=values)


def mxfp4(blocks: U8, out: F32) -> None:
    """MXFP4: E2M1 codes and one power of two per 32 values, 2 ** (e - 127).

    The codes count halves, so the factor is 2 ** (e - 128): subnormal for e < 2.
    """
    e = blocks[:, :1].astype(np.uint32)
    bits = np.where(e < 2, np.uint32(0x200000) << np.minimum(e, 1), (e - 1) << np.uint32(23))
    codes = low_high_nibbles(blocks[:, 1:])
    np.multiply(_worth(MXFP4_VALUES)[codes], bits.astype(np.uint32).view(np.float32), out=out)


def tq1_0(blocks: U8, out: F32) -> None:
    """TQ1_0: five ternary digits in a byte, as a fraction of 256; the last four bytes hold four.

    Digit p of a byte b is the first ternary digit of b * 3**p mod 256.
    """
    n = len(blocks)
    runs = ((0, 32, 5, 0), (32, 48, 5, 160), (48, 52, 4, 240))
    d = f16(blocks, 52)
    for start, stop, n_digits, first in runs:
        rest = blocks[:, None, start:stop] * _POWERS_OF_3[:, :n_digits]
        digits = (rest.astype(np.uint16) * np.uint16(3)) >> np.uint16(8)
        values = out[:, first : first + digits[0].size]
        np.subtract(digits.reshape(n, -1), np.float32(1), out=values)
        np.multiply(values, d, out=values)


def tq2_0(blocks: U8, out: F32) -> None:
    """TQ2_0: 2-bit values less one, a scale per 256."""
    np.subtract(bit_pairs(blocks[:, :64]).reshape(out.shape), np.float32(1), out=out)
    np.multiply(out, f16(blocks, 64), out=out)
