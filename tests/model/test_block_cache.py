"""Keys and values kept in blocks of 8 bits: rounded as in GGUF, close to the reference."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from rushlight import Model, _sync
from rushlight.errors import InvalidInputError
from rushlight.ops.kv_cache import KV_FORMATS
from tests.model.test_models import GOLDEN, prompts
from tests.tools.backends import gpu_executor

WHOLE = ("gemma3-linear-q8q4", "llama-kquants", "llama3-rope-q8_0", "qwen2-q5", "qwen3-q8_0")
TOLERANCE = 2e-2
"""Of a row's range, from logits with exact keys and values; these tiny models amplify."""
SAME_TOLERANCE = 2e-3
"""The same, between backends that all round so: a value between two codes gets either."""


@cache
def load(name: str, device: str) -> Model:
    device, _, variant = device.partition("-")
    executor: Any = gpu_executor(variant) if device == "gpu" else device
    options: dict[str, Any] = {"variant": variant or "auto", "n_batch": 8, "n_ctx": 256}
    return Model.load(GOLDEN / f"{name}.gguf", executor, kv_dtype="q8_0", **options)


def test_blocks_are_those_of_gguf() -> None:
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((9, 96)) * 10.0 ** np.arange(-4, 5)[:, None]).astype(np.float32)
    x[4, :32] = 0
    cache_format = KV_FORMATS["q8_0"]
    packed = quants.quantize(x, GGMLQuantizationType.Q8_0)
    expected = quants.dequantize(packed, GGMLQuantizationType.Q8_0)
    assert np.array_equal(cache_format.decode(cache_format.encode(x)), expected)
    assert cache_format.row_bytes(96) == 3 * 36


@pytest.mark.parametrize("device", ["numpy", "cpu-exact", "gpu-rows", "gpu-tiles"])
@pytest.mark.parametrize("name", WHOLE)
def test_logits_stay_close_and_backends_agree(name: str, device: str) -> None:
    model, numpy = load(name, device), load(name, "numpy")
    for prompt in prompts(name):
        ids, rows, span = prompt["ids"].tolist(), prompt["rows"], prompt["range"]
        logits, expected = model.logits(ids), numpy.logits(ids)
        off = np.abs(logits[rows] - prompt["logits"]).max(axis=-1)
        assert (off <= TOLERANCE * span[rows]).all(), (off / span[rows]).max()
        off = np.abs(logits - expected).max(axis=-1)
        assert (off <= SAME_TOLERANCE * span).all(), (off / span).max()
        # Token by token a position reads the same cache as in a chunk.
        session = model.session()
        _sync.run(session.run(ids[:-1], "none"))
        last = _sync.run(session.run(ids[-1:], "logits"))
        assert last is not None
        assert np.abs(last[0] - logits[-1]).max() <= SAME_TOLERANCE * span[-1]


def test_what_it_takes_is_said() -> None:
    half = Model.load(GOLDEN / "qwen3-q8_0.gguf", "cpu", kv_dtype="f16", n_ctx=256)
    blocks = load("qwen3-q8_0", "cpu-exact")
    taken = [model.executor.stats.memory_bytes["state"] for model in (half, blocks)]
    assert taken[1] * 32 == taken[0] * 18  # 36 bytes for 32 values
    half.close()


@pytest.mark.parametrize("name", ["llama-f32", "qwen3-f16"])
def test_heads_that_are_no_whole_blocks_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="blocks of 32 values; this model's heads have"):
        Model.load(GOLDEN / f"{name}.gguf", "numpy", kv_dtype="q8_0")
