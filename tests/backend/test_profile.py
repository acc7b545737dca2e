"""Every kernel is timed: a GPU's dispatches, with timestamps and without, and the CPU's calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from rushlight import Model
from rushlight.bench import BenchOptions, profile
from rushlight.errors import InvalidInputError
from tests.tools.backends import gpu_executor

OPTIONS = BenchOptions(prefill=(8,), n_decode=2)


@pytest.mark.parametrize("device", ["gpu", "floor"])
def test_every_dispatch_is_timed(data_dir: Path, device: str) -> None:
    gpu_executor().close()  # skips where there is no adapter
    model = Model.load(data_dir / "golden" / "llama-f32.gguf", device, n_ctx=32)
    try:
        before = model.executor.stats.dispatches
        found = profile(model, OPTIONS)
        n_dispatches = model.executor.stats.dispatches - before
        rows = found.rows()
        assert found.has_timestamps == (device == "gpu" and has_timestamps(model))
        # The warm-up ran the prompt and one token, unprofiled.
        decode = sum(row.calls for row in rows if row.plan == "decode")
        prefill = sum(row.calls for row in rows if row.plan != "decode")
        assert 2 * prefill + decode + decode // 2 == n_dispatches
        assert sum(row.ms for row in rows) > 0
        weights = sum(row.n_bytes for row in rows if row.kernel.startswith("matvec"))
        assert weights > 1000
        assert model.argmax([1, 2, 3]).shape == (3,)  # at full speed again
    finally:
        model.close()


def has_timestamps(model: Model) -> bool:
    return "timestamp-query" in model.executor.device.features


def test_every_cpu_call_is_timed(data_dir: Path) -> None:
    model = Model.load(data_dir / "golden" / "llama-f32.gguf", "cpu", n_ctx=32)
    try:
        plan = model.executor.plan
        found = profile(model, OPTIONS)
        rows = found.rows()
        first, stop = plan.tails["argmax"]
        n_calls = plan.body_stop + stop - first
        assert sum(row.calls for row in rows if row.plan == "prefill") == n_calls
        assert sum(row.calls for row in rows if row.plan == "decode") == 2 * n_calls
        assert sum(row.ms for row in rows) > 0
        weights = sum(row.n_bytes for row in rows if row.kernel.startswith("matmul"))
        assert weights > 3 * model.executor.stats.memory_bytes["weight"] / 2
        assert any("blk.*.attn_q" in row.kernel for row in rows) and "GB/s" in found.text()
        submits = model.executor.stats.submits
        assert model.argmax([1, 2, 3]).shape == (3,)
        assert model.executor.stats.submits == submits + 1  # at full speed again
    finally:
        model.close()


def test_numpy_has_no_kernels(data_dir: Path) -> None:
    model = Model.load(data_dir / "golden" / "llama-f32.gguf", "numpy", n_ctx=32)
    with pytest.raises(InvalidInputError, match="no kernels"):
        profile(model, OPTIONS)
