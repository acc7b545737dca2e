"""Models on devices that grant little, and with weights that are no numbers: right, or an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight import EngineError, Model, _sync
from tests.tools.backends import gpu_executor
from tests.unit.gguf_bytes import unpack_gguf, write_gguf

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
LARGEST = "max-storage-buffer-binding-size"


@pytest.mark.gpu
@pytest.mark.parametrize("variant", ["rows", "tiles"])
@pytest.mark.parametrize(
    ("name", "limit"), [("gemma3-linear-q8q4", 20 << 10), ("llama-kquants", 48 << 10)]
)
def test_tables_in_many_parts_say_the_same(name: str, limit: int, variant: str) -> None:
    """Bindings so small that the table, its head and some layers are cut into parts."""
    with np.load(GOLDEN / f"{name}.npz") as golden:
        ids, expected = golden["p1_ids"].tolist(), golden["p1_greedy"].tolist()
    executor: Any = gpu_executor(variant)
    executor.device.limits = {**executor.device.limits, LARGEST: limit}
    n_ctx = len(ids) + len(expected) + 1
    model = _sync.run(
        Model.load_async(
            GOLDEN / f"{name}.gguf", executor, n_ctx=n_ctx, kv_dtype="f32", variant=variant
        )
    )
    try:
        plan = executor.program.model_plan
        tables = [up for up in plan.uploads if up.tensor == "token_embd.weight"]
        assert len(tables) > 1
        weights = [slot for slot in plan.slots.values() if slot.kind == "weight"]
        assert max(slot.n_bytes for slot in weights) <= limit
        made = model.generate(ids, max_tokens=len(expected), temperature=0, ignore_eos=True)
        made.text()
        assert list(made.ids) == expected
    finally:
        model.close()


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("device", ["numpy", "cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_weights_beyond_all_numbers_end_in_one_error(device: str, value: float) -> None:
    metadata, tensors = unpack_gguf((GOLDEN / "llama-f32.gguf").read_bytes())
    data, shape, kind = tensors["blk.1.ffn_down.weight"]
    tensors["blk.1.ffn_down.weight"] = (
        np.full(len(data) // 4, value, np.float32).tobytes(),
        shape,
        kind,
    )
    if device == "gpu":
        gpu_executor().close()  # skips, with the reason, when there is no adapter
    model = Model.load(write_gguf(None, metadata, tensors), device)
    try:
        with pytest.raises(EngineError) as refused:
            model.generate([1, 2, 3], max_tokens=4, temperature=0).text()
        assert refused.value.code == "bad_logits"
        assert refused.value.hint
    finally:
        model.close()
