"""Every storage type on a device gives the very bits that numpy does, for any block."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight import _sync
from rushlight.gguf.quants import QUANTS, dequantize
from rushlight.gguf.reader import GgufFile, TensorInfo
from rushlight.graph.builder import GraphBuilder
from rushlight.plan.weights import WeightStore
from rushlight.selftest import CaseModel, n_scales, put_scales, run_case
from rushlight.shaders import shader_root
from tests.tools.backends import gpu_executor

TYPES = sorted(
    path.stem.upper()
    for path in (shader_root() / "quants").glob("*.wgsl")
    if not path.stem.endswith("_tail")
)
N_ROWS, N_COLS = 61, 512


def random_blocks(name: str, rng: np.random.Generator) -> np.ndarray:
    """Any bits at all, but finite numbers; scales include the subnormal ones."""
    fmt = QUANTS[name]
    if name == "F32":
        return rng.standard_normal(N_ROWS * N_COLS).astype(np.float32).view(np.uint8)
    blocks = rng.integers(0, 256, (N_ROWS * N_COLS // fmt.block_size, fmt.type_size), np.uint8)
    if name == "MXFP4":
        blocks[:, 0] = rng.integers(2, 250, len(blocks))  # below: subnormal, see the next test
        return blocks.reshape(-1)
    is_plain = name in ("F16", "BF16")
    assert is_plain or n_scales(fmt), f"say where the float16 fields of {name} are"
    for field in range(1 if is_plain else n_scales(fmt)):
        halves = rng.integers(0, 0x7800 if name != "BF16" else 0x7000, len(blocks), np.uint16)
        if name == "BF16":
            halves |= 0x0080  # float32 has no subnormals on every device
        halves |= rng.integers(0, 2, len(blocks), np.uint16) << 15
        if is_plain:
            blocks[...] = halves.view(np.uint8).reshape(-1, 2)
        else:
            put_scales(blocks, fmt, field, halves)
    return blocks.reshape(-1)


def on_device(
    name: str, data: np.ndarray, max_bytes: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a table as the device (with bindings so small) and as numpy give them."""
    fmt = QUANTS[name]
    info = TensorInfo("table", (N_ROWS, N_COLS), fmt, 0, data.size)
    g = GraphBuilder("case", {"table": info.shape})
    graph = g.build(logits=g.select_outputs(g.embed("table")))
    file = GgufFile(3, {}, {"table": info}, 0, data.size)
    model = CaseModel(graph, file, data.tobytes(), N_ROWS, 0, tuple(range(N_ROWS)))
    executor = gpu_executor()
    if max_bytes:
        executor.device.limits["max-storage-buffer-binding-size"] = max_bytes  # type: ignore
    got = _sync.run(run_case(model, executor, "logits", "rows"))
    return got, dequantize(data.reshape(N_ROWS, -1), fmt)


@pytest.mark.parametrize("name", TYPES)
def test_values_are_the_same_bits(name: str) -> None:
    got, expected = on_device(name, random_blocks(name, np.random.default_rng(7)))
    same = got.view(np.uint32) == expected.view(np.uint32)
    zero = (got == 0) & (expected == 0)  # a product with 0 may differ in the sign of zero
    assert (same | zero).all(), np.argwhere(~(same | zero))[:5]


def test_the_least_factors_of_mxfp4() -> None:
    fmt = QUANTS["MXFP4"]
    blocks = np.random.default_rng(8).integers(
        0, 256, (N_ROWS * N_COLS // fmt.block_size, fmt.type_size), np.uint8
    )
    blocks[:, 0] = np.arange(len(blocks)) % 4
    got, expected = on_device("MXFP4", blocks.reshape(-1))
    normal = np.abs(expected) >= np.finfo(np.float32).tiny
    assert (got[normal].view(np.uint32) == expected[normal].view(np.uint32)).all()
    # What float32 holds only as a subnormal number may be flushed.
    assert ((got == expected) | (got == 0))[~normal].all()


@pytest.mark.parametrize("name", ["IQ1_S", "IQ3_S", "MXFP4"])
def test_every_chunk_has_the_codebook(name: str) -> None:
    data = random_blocks(name, np.random.default_rng(9))
    table = len(QUANTS[name].table)
    limit = 10 * QUANTS[name].row_bytes(N_COLS) * 4 + table
    info = TensorInfo("table", (N_ROWS, N_COLS), QUANTS[name], 0, data.size)
    file = GgufFile(3, {}, {"table": info}, 0, data.size)
    store = WeightStore(file, lambda name: np.zeros(1, np.float32), limit)
    chunks = store.matrix("table")
    assert len(chunks) == 2
    for chunk, upload in zip(chunks, store.uploads, strict=True):
        assert store.slots[chunk.binding.slot].n_bytes <= limit
        assert upload.table == QUANTS[name].table
        assert chunk.overrides().get("W_table", 0) == (upload.table_at // 4 if table else 0)
        assert upload.table_at + table == store.slots[chunk.binding.slot].n_bytes
    got, expected = on_device(name, data, limit)
    assert (got == expected).all()
