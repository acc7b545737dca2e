"""Quantisers for the block types that the `gguf` package reads but cannot write.

Plain round-to-nearest with one scale (and minimum) per sub-block: worse than llama.cpp's search,
but every field of a block takes many values, which is what the golden files need.
"""

from __future__ import annotations

import gguf
import numpy as np
from gguf import GGMLQuantizationType as QuantType

QK_K = 256


def _half_bytes(values: np.ndarray) -> np.ndarray:
    """float32 [n] as little-endian float16 bytes [n, 2]."""
    return values.astype("<f2").reshape(-1, 1).view(np.uint8)


def _safe_inverse(values: np.ndarray) -> np.ndarray:
    return np.where(values == 0, 0, 1 / np.where(values == 0, 1, values)).astype(np.float32)


def _pack_scales_and_mins(scales: np.ndarray, mins: np.ndarray) -> np.ndarray:
    """Eight 6-bit scales and mins, [n, 8] each, in the 12 bytes of Q4_K and Q5_K."""
    low = scales[:, :4] | (scales[:, 4:] >> 4) << 6
    mid = mins[:, :4] | (mins[:, 4:] >> 4) << 6
    high = (scales[:, 4:] & 0x0F) | (mins[:, 4:] & 0x0F) << 4
    return np.concatenate([low, mid, high], axis=-1).astype(np.uint8)


def _quantize_with_mins(blocks: np.ndarray, n_levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Header bytes [n, 16] and levels [n, 8, 32] of Q4_K (16 levels) or Q5_K (32 levels)."""
    x = blocks.reshape(-1, 8, 32)
    low = np.minimum(x.min(axis=-1), 0)
    scale = (np.maximum(x.max(axis=-1), 0) - low) / np.float32(n_levels - 1)
    d = (scale.max(axis=-1) / 63).astype(np.float16).astype(np.float32)
    d_min = ((-low).max(axis=-1) / 63).astype(np.float16).astype(np.float32)
    scales = np.rint(scale * _safe_inverse(d)[:, None]).clip(0, 63).astype(np.uint8)
    mins = np.rint(-low * _safe_inverse(d_min)[:, None]).clip(0, 63).astype(np.uint8)
    step = d[:, None] * scales
    offset = d_min[:, None] * mins
    levels = np.rint((x + offset[..., None]) * _safe_inverse(step)[..., None])
    header = [_half_bytes(d), _half_bytes(d_min), _pack_scales_and_mins(scales, mins)]
    return np.concatenate(header, axis=-1), levels.clip(0, n_levels - 1).astype(np.uint8)


def _pack_nibbles(levels: np.ndarray) -> np.ndarray:
    """Low 4 bits of [n, 8, 32]: sub-blocks 2i and 2i+1 share bytes."""
    low = levels & 0x0F
    return (low[:, 0::2] | low[:, 1::2] << 4).reshape(len(levels), 128)


def _quantize_q4_k(blocks: np.ndarray) -> np.ndarray:
    header, levels = _quantize_with_mins(blocks, 16)
    return np.concatenate([header, _pack_nibbles(levels)], axis=-1)


def _quantize_q5_k(blocks: np.ndarray) -> np.ndarray:
    header, levels = _quantize_with_mins(blocks, 32)
    shifts = np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    high = np.bitwise_or.reduce((levels >> 4) << shifts, axis=1)
    return np.concatenate([header, high, _pack_nibbles(levels)], axis=-1)


def _quantize_q6_k(blocks: np.ndarray) -> np.ndarray:
    x = blocks.reshape(-1, 16, 16)
    peak = np.take_along_axis(x, np.abs(x).argmax(axis=-1)[..., None], axis=-1)[..., 0]
    scale = peak / np.float32(-32)  # the value of largest magnitude lands on level -32
    d = (np.abs(scale).max(axis=-1) / 127).astype(np.float16).astype(np.float32)
    scales = np.rint(scale * _safe_inverse(d)[:, None]).clip(-128, 127).astype(np.int8)
    step = d[:, None] * scales
    levels = np.rint(x * _safe_inverse(step)[..., None]).clip(-32, 31) + 32
    v = levels.astype(np.uint8).reshape(-1, 2, 4, 32)
    low = (v & 0x0F)[:, :, :2] | (v & 0x0F)[:, :, 2:] << 4
    shifts = np.array([0, 2, 4, 6], dtype=np.uint8).reshape(1, 1, 4, 1)
    high = np.bitwise_or.reduce((v >> 4) << shifts, axis=2)
    n = len(v)
    parts = [low.reshape(n, 128), high.reshape(n, 64), scales.view(np.uint8), _half_bytes(d)]
    return np.concatenate(parts, axis=-1)


_OWN = {
    QuantType.Q4_K: _quantize_q4_k,
    QuantType.Q5_K: _quantize_q5_k,
    QuantType.Q6_K: _quantize_q6_k,
}


def quantize(weights: np.ndarray, quant_type: QuantType) -> np.ndarray:
    """float32 [n_rows, n_cols] as the bytes of `quant_type`, [n_rows, row bytes]."""
    if quant_type not in _OWN:
        return gguf.quants.quantize(weights, quant_type)
    rows = weights.reshape(-1, weights.shape[-1])
    packed = _OWN[quant_type](rows.reshape(-1, QK_K)).reshape(len(rows), -1)
    restored = gguf.quants.dequantize(packed, quant_type)
    error = float(np.sqrt(np.mean((restored - rows) ** 2)) / rows.std())
    if error > 0.12:
        raise AssertionError(f"{quant_type.name}: relative error {error:.3f} means a packing bug")
    return packed
