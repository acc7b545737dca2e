"""GGML storage types: how values are packed into blocks, and how to unpack them.

One row per type names its id, the values in a block (``block_size``) and the bytes of a block
(``type_size``). Types that can be run also have a numpy ``dequantize`` (bit-identical to the
``gguf`` package) and the ``planes`` that a block is split into for the GPU copy.

Planes exist because most blocks are not a whole number of 32-bit words (a Q8_0 block is 34
bytes): gathering the same field of every block gives arrays that a shader reads by whole words.
The largest plane comes first, so it sits at the buffer's own alignment. The codebook of an IQ type
follows the planes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedTypeError
from . import quants_iq as iq
from . import quants_k as k
from .quant_fields import F16, F32, U8, BlockUnpacker, f16, low_high_nibbles
from .quant_tables import grid_bytes

#: Planes of a repacked tensor start at multiples of this (a vec4<u32>).
PLANE_ALIGNMENT = 16
#: Values unpacked at a time: temporaries stay in the cache and far below 64 MiB.
CHUNK_VALUES = 1 << 17


@dataclass(frozen=True, slots=True)
class Plane:
    """A byte range of every block that is stored contiguously in the GPU copy."""

    name: str
    offset: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class QuantFormat:
    """A storage type: its place in the GGML list, its block, and how to read it.

    ``dequantize`` turns uint8 [..., n_bytes] into float32 [..., n_values]; it is None where the
    type is known by name but cannot be run here. The result may be a view for F32. ``grid``
    names the codebook of an IQ type.
    """

    name: str
    id: int
    block_size: int
    type_size: int
    dequantize: Callable[[U8], F32] | None = None
    planes: tuple[Plane, ...] = ()
    grid: str = ""

    @property
    def table(self) -> bytes:
        """What the GPU copy holds after the planes: the codebook, whole units of 16 bytes."""
        return grid_bytes(self.grid) if self.grid else b""

    @property
    def is_runnable(self) -> bool:
        """Whether the values can be read here."""
        return self.dequantize is not None

    def row_bytes(self, n_cols: int) -> int:
        """Bytes of a row of ``n_cols`` values (a multiple of ``block_size``)."""
        return n_cols // self.block_size * self.type_size


def _fifth_bits(qh: U8) -> U8:
    """Bit i of a block's little-endian mask as 16 or 0, [n, 32]."""
    bits: U8 = np.unpackbits(qh, axis=1, bitorder="little")
    return bits << np.uint8(4)


def _q4_0(blocks: U8, out: F32) -> None:
    np.subtract(low_high_nibbles(blocks[:, 2:]), np.float32(8), out=out)
    np.multiply(out, f16(blocks, 0), out=out)


def _q4_1(blocks: U8, out: F32) -> None:
    np.multiply(low_high_nibbles(blocks[:, 4:]), f16(blocks, 0), out=out)
    np.add(out, f16(blocks, 2), out=out)


def _q5_0(blocks: U8, out: F32) -> None:
    q = low_high_nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    np.subtract(q, np.float32(16), out=out)
    np.multiply(out, f16(blocks, 0), out=out)


def _q5_1(blocks: U8, out: F32) -> None:
    q = low_high_nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    np.multiply(q, f16(blocks, 0), out=out)
    np.add(out, f16(blocks, 2), out=out)


def _q8_0(blocks: U8, out: F32) -> None:
    np.copyto(out, blocks[:, 2:].view(np.int8))
    np.multiply(out, f16(blocks, 0), out=out)


def _bf16(blocks: U8, out: F32) -> None:
    bits = blocks.view("<u2").astype(np.uint32)
    bits <<= np.uint32(16)
    out[...] = bits.view(np.float32)


def _in_chunks(unpack: BlockUnpacker, block_size: int, type_size: int) -> Callable[[U8], F32]:
    """A dequantize function that unpacks a bounded number of blocks at a time."""
    step = CHUNK_VALUES // block_size

    def dequantize(data: U8) -> F32:
        data = np.ascontiguousarray(data).view(np.uint8)
        blocks = data.reshape(-1, type_size)
        out = np.empty((len(blocks), block_size), np.float32)
        # Scales come from the file: infinities and their products are values, not mistakes.
        with np.errstate(invalid="ignore", over="ignore"):
            for start in range(0, len(blocks), step):
                unpack(blocks[start : start + step], out[start : start + step])
        return out.reshape(*data.shape[:-1], data.shape[-1] // type_size * block_size)

    return dequantize


def _f32_view(data: U8) -> F32:
    values: F32 = np.ascontiguousarray(data).view("<f4")
    return values


def _f16_values(data: U8) -> F32:
    values: F32 = np.ascontiguousarray(data).view(F16).astype(np.float32)
    return values


def _runnable(
    name: str,
    type_id: int,
    block_size: int,
    type_size: int,
    unpack: BlockUnpacker,
    *planes: tuple[str, int, int],
    grid: str = "",
) -> QuantFormat:
    fields = tuple(Plane(*plane) for plane in planes or (("raw", 0, type_size),))
    dequantize = _in_chunks(unpack, block_size, type_size)
    return QuantFormat(name, type_id, block_size, type_size, dequantize, fields, grid)


# fmt: off
_FORMATS = (
    QuantFormat("F32", 0, 1, 4, _f32_view, (Plane("raw", 0, 4),)),
    QuantFormat("F16", 1, 1, 2, _f16_values, (Plane("raw", 0, 2),)),
    _runnable("Q4_0", 2, 32, 18, _q4_0, ("qs", 2, 16), ("d", 0, 2)),
    _runnable("Q4_1", 3, 32, 20, _q4_1, ("qs", 4, 16), ("dm", 0, 4)),
    _runnable("Q5_0", 6, 32, 22, _q5_0, ("qs", 6, 16), ("qh", 2, 4), ("d", 0, 2)),
    _runnable("Q5_1", 7, 32, 24, _q5_1, ("qs", 8, 16), ("qh", 4, 4), ("dm", 0, 4)),
    _runnable("Q8_0", 8, 32, 34, _q8_0, ("qs", 2, 32), ("d", 0, 2)),
    QuantFormat("Q8_1", 9, 32, 40),
    _runnable("Q2_K", 10, 256, 84, k.q2_k, ("qs", 16, 64), ("scales", 0, 16), ("dm", 80, 4)),
    _runnable("Q3_K", 11, 256, 110, k.q3_k,
              ("qs", 32, 64), ("qh", 0, 32), ("scales", 96, 12), ("d", 108, 2)),
    _runnable("Q4_K", 12, 256, 144, k.q4_k),
    _runnable("Q5_K", 13, 256, 176, k.q5_k),
    _runnable("Q6_K", 14, 256, 210, k.q6_k,
              ("ql", 0, 128), ("qh", 128, 64), ("scales", 192, 16), ("d", 208, 2)),
    QuantFormat("Q8_K", 15, 256, 292),
    _runnable("IQ2_XXS", 16, 256, 66, iq.iq2_xxs, ("qs", 2, 64), ("d", 0, 2), grid="IQ2_XXS"),
    _runnable("IQ2_XS", 17, 256, 74, iq.iq2_xs,
              ("qs", 2, 64), ("scales", 66, 8), ("d", 0, 2), grid="IQ2_XS"),
    _runnable("IQ3_XXS", 18, 256, 98, iq.iq3_xxs,
              ("qs", 2, 64), ("scales", 66, 32), ("d", 0, 2), grid="IQ3_XXS"),
    _runnable("IQ1_S", 19, 256, 50, iq.iq1_s,
              ("qs", 2, 32), ("qh", 34, 16), ("d", 0, 2), grid="IQ1_S"),
    _runnable("IQ4_NL", 20, 32, 18, iq.iq4_nl, ("qs", 2, 16), ("d", 0, 2)),
    _runnable("IQ3_S", 21, 256, 110, iq.iq3_s,
              ("qs", 2, 64), ("signs", 74, 32), ("qh", 66, 8), ("scales", 106, 4), ("d", 0, 2),
              grid="IQ3_S"),
    _runnable("IQ2_S", 22, 256, 82, iq.iq2_s,
              ("qs", 2, 32), ("signs", 34, 32), ("qh", 66, 8), ("scales", 74, 8), ("d", 0, 2),
              grid="IQ2_S"),
    _runnable("IQ4_XS", 23, 256, 136, iq.iq4_xs, ("qs", 8, 128), ("head", 0, 8)),
    QuantFormat("I8", 24, 1, 1),
    QuantFormat("I16", 25, 1, 2),
    QuantFormat("I32", 26, 1, 4),
    QuantFormat("I64", 27, 1, 8),
    QuantFormat("F64", 28, 1, 8),
    _runnable("IQ1_M", 29, 256, 56, iq.iq1_m,
              ("qs", 0, 32), ("qh", 32, 16), ("scales", 48, 8), grid="IQ1_M"),
    _runnable("BF16", 30, 1, 2, _bf16),
    _runnable("TQ1_0", 34, 256, 54, iq.tq1_0, ("qs", 0, 48), ("qh", 48, 4), ("d", 52, 2)),
    _runnable("TQ2_0", 35, 256, 66, iq.tq2_0, ("qs", 0, 64), ("d", 64, 2)),
    _runnable("MXFP4", 39, 32, 17, iq.mxfp4, ("qs", 1, 16), ("e", 0, 1)),
    QuantFormat("NVFP4", 40, 64, 36),
    QuantFormat("Q1_0", 41, 128, 18),
)
# fmt: on

#: Every GGML type by name, and by its id in the file.
QUANTS: dict[str, QuantFormat] = {fmt.name: fmt for fmt in _FORMATS}
QUANT_BY_ID: dict[int, QuantFormat] = {fmt.id: fmt for fmt in _FORMATS}


def dequantize(data: NDArray[Any], fmt: QuantFormat) -> F32:
    """Values of packed rows: uint8 [..., n_bytes] to float32 [..., n_values].

    Raises UnsupportedTypeError for a type that is known by name only.
    """
    if fmt.dequantize is None:
        raise UnsupportedTypeError(
            f"The type {fmt.name} cannot be read here.",
            hint=f"Use a file of one of these types: {', '.join(runnable_names())}.",
        )
    return fmt.dequantize(data)


def runnable_names() -> list[str]:
    """Names of the types whose values can be read, in the order of their ids."""
    return [fmt.name for fmt in _FORMATS if fmt.is_runnable]


def plane_layout(fmt: QuantFormat, n_blocks: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """Where each plane of ``n_blocks`` repacked blocks lies: ((offset, n_bytes), ...), total.

    Offsets and the total are multiples of 16 bytes. The total includes the type's table, which
    comes last.
    """
    spans: list[tuple[int, int]] = []
    end = 0
    for plane in fmt.planes:
        n_bytes = plane.n_bytes * n_blocks
        spans.append((end, n_bytes))
        end += -(-n_bytes // PLANE_ALIGNMENT) * PLANE_ALIGNMENT
    return tuple(spans), end + len(fmt.table)


def split_planes(raw: U8, fmt: QuantFormat) -> tuple[U8, ...]:
    """The planes of consecutive blocks, each contiguous; views where there is only one plane.

    Chunks of a multiple of 16 blocks make pieces of whole 16-byte units for every type, so a
    tensor can be repacked and uploaded piecewise.
    """
    assert fmt.planes, f"{fmt.name} has no planes"
    blocks = raw.reshape(-1, fmt.type_size)
    return tuple(
        np.ascontiguousarray(blocks[:, p.offset : p.offset + p.n_bytes]).reshape(-1)
        for p in fmt.planes
    )


def repack(raw: U8, fmt: QuantFormat) -> U8:
    """Blocks [n_blocks * type_size] as consecutive planes, laid out as ``plane_layout`` says,
    and the type's table."""
    flat = np.ascontiguousarray(raw).reshape(-1).view(np.uint8)
    spans, total = plane_layout(fmt, flat.size // fmt.type_size)
    out = np.zeros(total, np.uint8)
    blocks = flat.reshape(-1, fmt.type_size)
    for plane, (start, n_bytes) in zip(fmt.planes, spans, strict=True):
        target = out[start : start + n_bytes].reshape(-1, plane.n_bytes)
        target[...] = blocks[:, plane.offset : plane.offset + plane.n_bytes]
    out[total - len(fmt.table) :] = np.frombuffer(fmt.table, np.uint8)
    return out
