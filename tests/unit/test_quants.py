"""Storage types against the gguf package, bit for bit, and the planes of the GPU copy."""

from __future__ import annotations

import itertools
import tracemalloc

import gguf
import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize as reference

from rushlight.errors import UnsupportedTypeError
from rushlight.gguf import quants
from rushlight.gguf.quants import QUANT_BY_ID, QUANTS

RUNNABLE = ["F32", "F16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "BF16"]
#: Byte offsets of half-precision fields in a block.
HALVES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}
#: +0, -0, least and greatest subnormals of both signs, 1, -1, greatest finite, infinities.
SPECIAL = [0, 0x8000, 1, 0x8001, 0x3FF, 0x83FF, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00]


def expected(data: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return reference(data, gguf.GGMLQuantizationType[name])


def assert_same_bits(actual: np.ndarray, wanted: np.ndarray) -> None:
    assert actual.dtype == np.float32
    assert actual.shape == wanted.shape
    same = actual.view("u4") == wanted.view("u4")
    assert (same | (np.isnan(actual) & np.isnan(wanted))).all()


def test_every_known_type_has_the_sizes_of_the_gguf_package() -> None:
    for kind, (block_size, type_size) in GGML_QUANT_SIZES.items():
        fmt = QUANTS[kind.name]
        assert (fmt.id, fmt.block_size, fmt.type_size) == (int(kind), block_size, type_size)
        assert QUANT_BY_ID[int(kind)] is fmt
    assert quants.runnable_names() == RUNNABLE


@pytest.mark.parametrize("name", RUNNABLE)
def test_random_bytes(name: str) -> None:
    fmt = QUANTS[name]
    rng = np.random.default_rng(fmt.id)
    data = rng.integers(0, 256, (7, 4 * fmt.type_size), np.uint8)
    assert_same_bits(quants.dequantize(data, fmt), expected(data, name))


@pytest.mark.parametrize("name", HALVES)
def test_special_scales(name: str) -> None:
    fmt = QUANTS[name]
    rng = np.random.default_rng(fmt.id + 100)
    pairs = [(a, b) for a in SPECIAL for b in SPECIAL]
    data = rng.integers(0, 256, (len(pairs), fmt.type_size), np.uint8)
    for i, offset in enumerate(HALVES[name]):
        column = np.array([pair[i] for pair in pairs], "<u2")
        data[:, offset : offset + 2] = column.view(np.uint8).reshape(-1, 2)
    assert_same_bits(quants.dequantize(data, fmt), expected(data, name))


@pytest.mark.parametrize("name", RUNNABLE)
def test_chunks_do_not_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fmt = QUANTS[name]
    if fmt.block_size == 1:
        n_blocks = quants.CHUNK_VALUES + 3
    else:
        n_blocks = quants.CHUNK_VALUES // fmt.block_size + 3
    data = np.random.default_rng(3).integers(0, 256, (n_blocks, fmt.type_size), np.uint8)
    whole = quants.dequantize(data, fmt)
    tail = quants.dequantize(data[-5:], fmt)
    assert_same_bits(whole[-5:], tail)


@pytest.mark.parametrize("name", RUNNABLE)
def test_leading_dimensions_read_only_and_strided_input(name: str) -> None:
    fmt = QUANTS[name]
    raw = np.random.default_rng(4).integers(0, 256, 2 * 6 * 2 * fmt.type_size, np.uint8)
    data = np.frombuffer(raw.tobytes(), np.uint8).reshape(2, 6, 2 * fmt.type_size)
    every_second = data[:, ::2]
    values = quants.dequantize(every_second, fmt)
    assert values.shape == (2, 3, 2 * fmt.block_size)
    assert_same_bits(values, expected(np.ascontiguousarray(every_second), name))


@pytest.mark.parametrize("name", RUNNABLE)
def test_no_rows(name: str) -> None:
    fmt = QUANTS[name]
    empty = np.zeros((0, fmt.type_size), np.uint8)
    assert quants.dequantize(empty, fmt).shape == (0, fmt.block_size)


@pytest.mark.parametrize("name", RUNNABLE)
def test_temporaries_stay_small(name: str) -> None:
    fmt = QUANTS[name]
    data = np.zeros((1 << 20) // fmt.block_size * fmt.type_size, np.uint8)
    tracemalloc.start()
    values = quants.dequantize(data, fmt)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < values.nbytes + (4 << 20)


def test_named_only_type_is_refused_by_name() -> None:
    assert QUANTS["IQ2_S"].dequantize is None
    with pytest.raises(UnsupportedTypeError, match="IQ2_S"):
        quants.dequantize(np.zeros(82, np.uint8), QUANTS["IQ2_S"])


@pytest.mark.parametrize("name", RUNNABLE)
def test_planes_partition_the_block(name: str) -> None:
    fmt = QUANTS[name]
    covered = sorted((p.offset, p.offset + p.n_bytes) for p in fmt.planes)
    assert covered[0][0] == 0
    assert covered[-1][1] == fmt.type_size
    assert all(a[1] == b[0] for a, b in itertools.pairwise(covered))
    sizes = [p.n_bytes for p in fmt.planes]
    assert sizes == sorted(sizes, reverse=True)
    # Pieces of 8 blocks are whole 16-byte units, as piecewise upload relies on.
    assert all(8 * n % 16 == 0 for n in sizes)


@pytest.mark.parametrize("name", RUNNABLE)
@pytest.mark.parametrize("n_blocks", [0, 1, 2, 5, 64])
def test_repack_gathers_each_plane(name: str, n_blocks: int) -> None:
    fmt = QUANTS[name]
    raw = np.random.default_rng(5).integers(0, 256, n_blocks * fmt.type_size, np.uint8)
    packed = quants.repack(raw, fmt)
    spans, total = quants.plane_layout(fmt, n_blocks)
    assert packed.size == total
    assert total % 16 == 0
    pieces = quants.split_planes(raw, fmt)
    rebuilt = np.zeros((n_blocks, fmt.type_size), np.uint8)
    for plane, (start, n_bytes), piece in zip(fmt.planes, spans, pieces, strict=True):
        assert start % 16 == 0
        stored = packed[start : start + n_bytes]
        assert (stored == piece).all()
        rebuilt[:, plane.offset : plane.offset + plane.n_bytes] = stored.reshape(
            n_blocks, plane.n_bytes
        )
    assert (rebuilt.reshape(-1) == raw).all()
