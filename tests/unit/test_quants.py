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
from rushlight.gguf import quant_tables, quants
from rushlight.gguf.quants import QUANT_BY_ID, QUANTS
from rushlight.selftest import n_scales, put_scales

RUNNABLE = [
    "F32", "F16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
    "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "IQ1_M", "BF16",
    "TQ1_0", "TQ2_0", "MXFP4",
]  # fmt: skip
WITH_SCALES = [name for name in RUNNABLE if n_scales(QUANTS[name])]
GRIDS = [name for name in RUNNABLE if QUANTS[name].grid]
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


@pytest.mark.parametrize("name", WITH_SCALES)
def test_special_scales(name: str) -> None:
    fmt = QUANTS[name]
    rng = np.random.default_rng(fmt.id + 100)
    pairs = [(a, b) for a in SPECIAL for b in SPECIAL]
    data = rng.integers(0, 256, (len(pairs), fmt.type_size), np.uint8)
    for i in range(n_scales(fmt)):
        put_scales(data, fmt, i, np.array([pair[i] for pair in pairs], "<u2"))
    assert_same_bits(quants.dequantize(data, fmt), expected(data, name))


def test_every_exponent_of_mxfp4() -> None:
    data = np.random.default_rng(6).integers(0, 256, (256, 17), np.uint8)
    data[:, 0] = np.arange(256)
    assert_same_bits(quants.dequantize(data, QUANTS["MXFP4"]), expected(data, "MXFP4"))


@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_is_that_of_the_gguf_package(name: str) -> None:
    theirs = getattr(gguf.quants, name)
    theirs.init_grid()
    vectors = theirs.grid.reshape(theirs.grid_shape)
    codes = quant_tables.grid_codes(name, vectors.shape[1])
    assert (np.array(theirs.grid_map)[codes] == vectors).all()
    table = QUANTS[name].table
    assert len(table) == 2 * len(vectors)
    assert len(table) % quants.PLANE_ALIGNMENT == 0
    width = 16 // vectors.shape[1]
    words = np.frombuffer(table, "<u2")
    for j in range(vectors.shape[1]):
        assert ((words >> (j * width)) % (1 << width) == codes[:, j]).all()


def test_grids_are_small() -> None:
    assert sum(map(len, quant_tables._GRIDS.values())) < 6000


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
    assert QUANTS["NVFP4"].dequantize is None
    with pytest.raises(UnsupportedTypeError, match="NVFP4"):
        quants.dequantize(np.zeros(36, np.uint8), QUANTS["NVFP4"])


@pytest.mark.parametrize("name", RUNNABLE)
def test_planes_partition_the_block(name: str) -> None:
    fmt = QUANTS[name]
    covered = sorted((p.offset, p.offset + p.n_bytes) for p in fmt.planes)
    assert covered[0][0] == 0
    assert covered[-1][1] == fmt.type_size
    assert all(a[1] == b[0] for a, b in itertools.pairwise(covered))
    sizes = [p.n_bytes for p in fmt.planes]
    assert sizes == sorted(sizes, reverse=True)


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
    assert packed[total - len(fmt.table) :].tobytes() == fmt.table
    assert (rebuilt.reshape(-1) == raw).all()
