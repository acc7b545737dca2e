"""What a decode step is said to cost, against the file and what the device was asked to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from rushlight import Model, _sync
from rushlight.bench_steps import step_costs_async

pytestmark = pytest.mark.gpu

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
N_TOKENS = 6


def test_counts_of_a_step_on_the_gpu() -> None:
    model = Model.load(GOLDEN / "llama-f32.gguf", "gpu", n_ctx=64)
    greedy, drawn = _sync.run(step_costs_async(model, N_TOKENS))
    tensors = model.file.tensors
    matrices = sum(t.n_bytes for name, t in tensors.items() if not name.startswith("token_embd"))
    embedding = tensors["token_embd.weight"]
    row = embedding.n_bytes // embedding.shape[0]
    is_tied = "output.weight" not in tensors
    for cost in (greedy, drawn):
        assert cost.submits == 1
        assert cost.weight_bytes == matrices + row + is_tied * embedding.n_bytes
        assert 0 < cost.python_ms < cost.ms and 0 < cost.calls_ms < cost.ms
    assert greedy.bytes_read == 4
    assert 4 < drawn.bytes_read <= 4096
    assert greedy.dispatches < drawn.dispatches <= 7 * model.config.n_layer + 8
    model.close()
