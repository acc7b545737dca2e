"""A model whose output is NaN ends with one error on every backend, greedy or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight import EngineError, Model
from tests.tools.backends import GPU_VARIANTS, gpu_executor
from tests.unit.gguf_bytes import unpack_gguf, write_gguf

GOLDEN = Path(__file__).parent.parent / "data" / "golden"


def with_nans() -> bytes:
    metadata, tensors = unpack_gguf(GOLDEN / "llama-f32.gguf")
    data, shape, kind = tensors["blk.1.ffn_down.weight"]
    nans = np.full(len(data) // 4, np.nan, np.float32).tobytes()
    tensors["blk.1.ffn_down.weight"] = (nans, shape, kind)
    return write_gguf(None, metadata, tensors)


@pytest.mark.parametrize("temperature", [0, 0.8])
@pytest.mark.parametrize("device", ["numpy", *GPU_VARIANTS])
def test_nan_output_is_an_error(device: str, temperature: float) -> None:
    options: dict[str, Any] = {}
    if device != "numpy":
        gpu_executor(device).close()  # skips, with the reason, when there is no adapter
        options = {"variant": device}
    model = Model.load(with_nans(), "numpy" if device == "numpy" else "gpu", **options)
    try:
        with pytest.raises(EngineError) as refused:
            model.generate([1, 2, 3], max_tokens=4, temperature=temperature, seed=1).text()
        assert refused.value.code == "bad_logits"
    finally:
        model.close()
