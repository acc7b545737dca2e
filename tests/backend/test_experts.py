"""What the expert kernels read, counted as they run; stacks that do not fit one binding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rushlight import Model, _sync
from rushlight.backends import stored_stack
from rushlight.backends.base import LoadOptions
from rushlight.backends.numpy_executor import NumpyExecutor
from rushlight.gguf.reader import read_header
from rushlight.gguf.source import BytesSource, SyncAsAsync
from rushlight.graph.builder import GraphBuilder
from rushlight.graph.ir import Graph
from rushlight.ops import OPS
from rushlight.plan.webgpu import DeviceLimits, plan_model
from tests.tools.arch_files import model_bytes
from tests.tools.backends import gpu_executor
from tests.tools.counted_replay import CountedReplay
from tests.unit.gguf_bytes import write_gguf

N_EXPERT, N_USED, N_EMBD, N_FF, N_VOCAB = 9, 2, 128, 128, 150
N_TOKENS = 128
BROKEN_TOKEN = N_VOCAB - 1
"""A token whose embedding is not a number."""
FAMILIES = ("rows", "tiles")
STACKS = {
    "gate": (N_EXPERT, N_FF, N_EMBD),
    "up": (N_EXPERT, N_FF, N_EMBD),
    "down": (N_EXPERT, N_EMBD, N_FF),
}


@pytest.fixture(scope="module")
def layer() -> tuple[Graph, bytes]:
    """One feed-forward layer with experts, and its file."""
    rng = np.random.default_rng(5)
    shapes: dict[str, tuple[int, ...]] = {**STACKS} | {
        "table": (N_VOCAB, N_EMBD),
        "router": (N_EXPERT, N_EMBD),
    }
    tensors = {
        name: (rng.standard_normal(shape).astype("<f4").tobytes(), shape, "F32")
        for name, shape in shapes.items()
    }
    broken = np.frombuffer(tensors["table"][0], "<f4").reshape(shapes["table"]).copy()
    broken[BROKEN_TOKEN] = np.nan
    tensors["table"] = (broken.tobytes(), shapes["table"], "F32")
    g = GraphBuilder("experts", shapes)
    x = g.embed("table")
    logits = g.node("matmul", {"x": x, "weight": g.weight("router")})
    g.node("expert_route", {"logits": logits}, n_used=N_USED, gating="softmax")
    routed = dict(g.last_node.outputs)

    def product(value: str, stack: str) -> str:
        inputs = {"x": value, "experts": routed["experts"], "weight": g.weight(stack)}
        return g.node("expert_matmul", inputs)

    h = g.node("glu", {"gate": product(x, "gate"), "up": product(x, "up")}, activation="silu")
    y = g.node("expert_sum", {"x": product(h, "down"), "shares": routed["shares"]})
    graph = g.build(logits=g.select_outputs(g.add(x, y)))
    return graph, write_gguf(None, {"general.architecture": "experts"}, tensors)


def replay(layer: tuple[Graph, bytes], variant: Any, limit: int = 128 << 20) -> CountedReplay:
    gpu_executor().close()  # skip here, with the reason, when there is no adapter
    graph, data = layer
    model = plan_model(
        graph,
        read_header(BytesSource(data, "experts")),
        n_ctx=N_TOKENS,
        n_batch=N_TOKENS,
        limits=DeviceLimits(limit),
        variant=variant,
        read_tensor=lambda name: np.zeros(0, np.float32),
    )
    return CountedReplay(model, data)


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[np.ndarray]]:
    """The experts that the reference chooses, run by run."""
    found: list[np.ndarray] = []
    op = OPS["expert_route"]

    def route(*args: Any, **attrs: Any) -> Any:
        result = op.reference(*args, **attrs)
        found.append(result[0])
        return result

    monkeypatch.setitem(OPS, "expert_route", replace(op, reference=route))
    yield found


def reference(layer: tuple[Graph, bytes], tokens: list[int]) -> np.ndarray:
    graph, data = layer
    source = BytesSource(data, "experts")
    executor = NumpyExecutor()
    _sync.run(
        executor.load(
            graph, read_header(source), [SyncAsAsync(source)], LoadOptions(N_TOKENS), print
        )
    )
    rows = range(len(tokens))
    result = _sync.run(executor.forward(executor.new_state(), tokens, 0, rows, "logits"))
    assert result is not None
    return np.asarray(result)


def prompt(n: int) -> list[int]:
    return [int(t) for t in np.random.default_rng(n).integers(0, BROKEN_TOKEN, n)]


@pytest.mark.gpu
@pytest.mark.parametrize("variant", FAMILIES)
def test_a_decoded_token_reads_the_chosen_experts_once_and_no_other(
    layer: Any, chosen: list[np.ndarray], variant: str
) -> None:
    device = replay(layer, variant)
    for token in (3, 77):
        expected = reference(layer, [token])
        got = device.run(device.model.plans["decode"], [token], "logits").view("<f4")
        np.testing.assert_allclose(got[:N_EMBD], expected[0], rtol=1e-3, atol=1e-3)
        for name, (n_expert, n_rows, n_cols) in STACKS.items():
            groups = n_expert * n_rows * n_cols // 16
            loads = device.loads()[name][:groups].reshape(n_expert, -1)
            wanted = np.isin(np.arange(n_expert), chosen[-1])
            assert (loads[wanted] == 1).all() and (loads[~wanted] == 0).all(), name
    device.close()


@pytest.mark.gpu
def test_a_chunk_of_128_tokens_reads_a_row_of_an_expert_at_most_once(
    layer: Any, chosen: list[np.ndarray]
) -> None:
    device, tokens = replay(layer, "tiles"), prompt(N_TOKENS)
    tokens[:60] = [tokens[0]] * 60  # more than half a tile for two experts
    expected = reference(layer, tokens)
    plan = device.model.plans[f"prefill_{N_TOKENS}"]
    got = device.run(plan, tokens, "logits").view("<f4").reshape(-1, N_EMBD)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
    for name, (n_expert, n_rows, n_cols) in STACKS.items():
        groups = n_expert * n_rows * n_cols // 16
        loads = device.loads()[name][:groups].reshape(n_expert, -1)
        wanted = np.isin(np.arange(n_expert), chosen[-1])
        assert (loads[wanted] == 1).all() and (loads[~wanted] == 0).all(), name
    device.close()


EXPERT_BYTES = N_FF * N_EMBD * 4


@pytest.mark.gpu
@pytest.mark.parametrize("variant", FAMILIES)
@pytest.mark.parametrize(
    ("limit", "n_chunks"), [(4 * EXPERT_BYTES, 3), (EXPERT_BYTES // 2 + 999, 18)]
)
def test_stacks_over_the_binding_limit_are_cut_by_experts_or_by_rows(
    layer: Any, variant: str, limit: int, n_chunks: int
) -> None:
    """An expert's rows are cut only where a single expert is too large."""
    device = replay(layer, variant, limit)
    parts = [up.slot for up in device.model.uploads if up.tensor == "gate"]
    assert len(parts) == n_chunks
    for n in (1, 21):
        tokens = prompt(n)
        plan = device.model.plans["decode" if n == 1 else "prefill_64"]
        got = device.run(plan, tokens, "logits").view("<f4").reshape(-1, N_EMBD)[:n]
        np.testing.assert_allclose(got, reference(layer, tokens), rtol=1e-3, atol=1e-3)
    device.close()


@pytest.mark.gpu
@pytest.mark.parametrize("variant", FAMILIES)
def test_a_token_without_numbers_takes_experts_that_exist_and_spoils_no_other(
    layer: Any, variant: str
) -> None:
    device, tokens = replay(layer, variant), prompt(9)
    expected = reference(layer, tokens)
    tokens[4] = BROKEN_TOKEN
    got = device.run(device.model.plans["prefill_16"], tokens, "logits").view("<f4")
    rows = got.reshape(-1, N_EMBD)[:9]
    assert np.isnan(rows[4]).all()
    others = [0, 1, 2, 3, 5, 6, 7, 8]
    np.testing.assert_allclose(rows[others], expected[others], rtol=1e-3, atol=1e-3)
    n_groups = N_EXPERT * N_FF * N_EMBD // 16
    assert not device.loads()["gate"][n_groups:].any()
    got = device.run(device.model.plans["decode"], [BROKEN_TOKEN], "logits").view("<f4")
    assert np.isnan(got[:N_EMBD]).all()
    device.close()


@pytest.mark.parametrize("kind", ["f32", "quant"])
def test_stacks_that_stay_as_stored_give_the_same_bits(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [5, 9, 30, 41, 7, 66, 12]
    logits, held = [], []
    for most in (stored_stack.STACK_BYTES, 100):
        monkeypatch.setattr(stored_stack, "STACK_BYTES", most)
        executor = NumpyExecutor()
        model = Model.load(model_bytes("gpt-oss", kind), executor, n_ctx=64)
        logits.append(model.logits(ids))
        held.append(executor.stats.memory_bytes["weight"])
        model.close()
    np.testing.assert_array_equal(logits[0], logits[1])
    assert held[1] < held[0] if kind == "quant" else held[1] == held[0]
