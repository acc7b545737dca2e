"""The native WebGPU executor replays a hand-written plan."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from rushlight.backends import webgpu_common
from rushlight.backends.base import LoadOptions
from rushlight.errors import DeviceError, ShaderCompileError
from rushlight.gguf.source import BytesSource, SyncAsAsync
from rushlight.graph.ir import Graph
from tests.unit.tiny_program import (
    N_CTX,
    SOURCES,
    expected_logits,
    tiny_program,
    weight_file,
)

pytest.importorskip("wgpu")
from rushlight.backends.webgpu_native import NativeExecutor

pytestmark = pytest.mark.gpu
EMPTY = Graph("tiny", (), {}, {}, {})
"""The plan is written by hand, so no graph says what it does."""


async def compile_tiny(*_):
    return tiny_program()


@pytest.fixture(scope="module", params=[False, True], ids=["adapter", "floor"])
def executor(request):
    executor = NativeExecutor(floor=request.param, compile_program=compile_tiny)
    load(executor)
    yield executor
    executor.close()
    executor.close()


def load(executor):
    source = SyncAsAsync(BytesSource(weight_file()[0]))
    seen = []
    asyncio.run(executor.load(EMPTY, None, [source], LoadOptions(n_ctx=N_CTX), seen.append))
    assert [p.step for p in seen][-1] == "ready"


def forward(executor, state, tokens, position, rows, want):
    return asyncio.run(executor.forward(state, tokens, position, rows, want))


def test_prefill_gives_logits_of_the_wanted_rows(executor):
    tokens = list(range(3, 15))
    got = forward(executor, executor.new_state(), tokens, 0, [0, 5, 11], "logits")
    np.testing.assert_array_equal(got, expected_logits(tokens, [0, 5, 11]))


def test_more_rows_than_the_head_holds(executor):
    tokens, rows = list(range(40)), list(range(0, 40, 3))
    got = forward(executor, executor.new_state(), tokens, 0, rows, "logits")
    np.testing.assert_array_equal(got, expected_logits(tokens, rows))


def test_decode_is_one_submit_and_continues_the_state(executor):
    state = executor.new_state()
    assert forward(executor, state, [7, 8, 9], 0, [], "none") is None
    before = executor.stats.submits
    got = forward(executor, state, [5], 3, [0], "argmax")
    assert executor.stats.submits == before + 1
    assert got.dtype == np.int32
    assert got[0] == expected_logits([7, 8, 9, 5], [3])[0].argmax()


def test_states_do_not_share_their_history(executor):
    one, two = executor.new_state(), executor.new_state()
    forward(executor, one, [1, 2], 0, [], "none")
    forward(executor, two, [100, 200], 0, [], "none")
    got = forward(executor, one, [3], 2, [0], "logits")
    np.testing.assert_array_equal(got, expected_logits([1, 2, 3], [2]))


def test_rewound_positions_are_overwritten(executor):
    state = executor.new_state()
    forward(executor, state, [1, 2, 3, 4], 0, [], "none")
    assert executor.rewind(state, 2) == 2
    got = forward(executor, state, [9], 2, [0], "logits")
    np.testing.assert_array_equal(got, expected_logits([1, 2, 9], [2]))


def test_cancel_ends_a_chunk_between_submits(executor, monkeypatch):
    monkeypatch.setattr(webgpu_common, "SUBMIT_TARGET_MS", 0.0)

    async def main():
        state = executor.new_state()
        chunk = asyncio.create_task(executor.forward(state, list(range(20)), 0, [1], "logits"))
        await asyncio.sleep(0)
        executor.cancel()
        with pytest.raises(webgpu_common.RunCancelledError):
            await chunk

    asyncio.run(main())


def test_a_chunk_too_large_is_refused(executor):
    with pytest.raises(Exception, match="257 tokens"):
        forward(executor, executor.new_state(), [1] * 257, 0, [0], "argmax")


def test_a_rejected_kernel_names_our_file_and_line(monkeypatch):
    monkeypatch.setitem(SOURCES, "sum", SOURCES["sum"].replace("var total = 0u", "var total = q"))
    executor = NativeExecutor(compile_program=compile_tiny)
    with pytest.raises(ShaderCompileError, match=r"sum\.wgsl:7"):
        load(executor)
    executor.close()


def test_a_slot_above_the_limit_is_refused_by_name(executor):
    with pytest.raises(DeviceError, match=r"kv\.0 needs a buffer"):
        executor.device._buffer("kv.0", 1 << 41, 128)
