"""Everything between a model and the CPU kernels natively: op cases, threads, losses, a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from rushlight import Model, _sync
from rushlight.backends import simd_common
from rushlight.backends.simd_native import NativeCpuExecutor
from rushlight.backends.webgpu_common import RunCancelledError
from rushlight.kernels import kernel_table
from rushlight.ops import Case, OpDef
from rushlight.plan import cpu_lower
from rushlight.selftest import all_cases, check_case
from tests.tools.arch_files import model_bytes

INT8_NMSE = 3e-4
"""What activations of 8 bits per 32 values may cost a product; 2e-4 is the worst case's."""
CASES = [pytest.param(op, case, id=f"{op.name}/{case.name}") for op, case in all_cases()]
IDS = list(range(3, 40))


@pytest.mark.parametrize(("op", "case"), CASES)
def test_exact_kernels_agree(op: OpDef, case: Case) -> None:
    result = _sync.run(check_case(op, case, lambda: NativeCpuExecutor(2), "exact"))
    assert result.ok, result


@pytest.mark.parametrize(("op", "case"), [c for c in CASES if "matmul" in c.values[0].name])
def test_int8_products_are_near(op: OpDef, case: Case) -> None:
    result = _sync.run(check_case(op, case, lambda: NativeCpuExecutor(2), "int8"))
    assert not result.error and result.nmse <= INT8_NMSE, result


def load(n_threads: int, **options: Any) -> tuple[Model, NativeCpuExecutor]:
    executor = NativeCpuExecutor(n_threads)
    settings = {"kv_dtype": "f32", "variant": "exact", "n_batch": 64} | options
    return Model.load(model_bytes("phi3-long"), executor, **settings), executor  # type: ignore[arg-type]


@pytest.mark.parametrize("n_threads", [2, 3])
def test_more_threads_give_the_same_bits(n_threads: int) -> None:
    (alone, _), (several, _) = load(1), load(n_threads)
    assert np.array_equal(alone.logits(IDS), several.logits(IDS))
    alone.close()
    several.close()


def test_a_thread_that_dies_at_work_leaves_a_note_and_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simd_common, "STALL_MS", 300)
    model, executor = load(2)
    expected = model.logits(IDS)
    at = executor.host._control + kernel_table().control_at("fault")
    executor.host.memory[at : at + 4].view(np.uint32)[0] = 1
    for _ in range(200):  # until it has had a share
        assert np.array_equal(model.logits(IDS), expected)
        if executor.host.n_threads == 1:
            break
    assert executor.host.n_threads == 1
    assert "A thread was lost" in model.device.notes[-1]
    assert np.array_equal(model.logits(IDS), expected)
    model.close()


def test_a_stop_is_heard_within_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    model, executor = load(1)
    expected = model.argmax(IDS)
    for pacer in executor.host._pacers:
        monkeypatch.setattr(pacer, "end_of_submit", lambda start, stop: start + 1)

    async def stopped() -> None:
        running = asyncio.create_task(model.session().run(IDS, "argmax"))
        await asyncio.sleep(0)
        executor.cancel()
        await running

    with pytest.raises(RunCancelledError):
        asyncio.run(stopped())
    assert np.array_equal(model.argmax(IDS), expected)
    model.close()


@pytest.mark.parametrize("op", ["rms_norm", "glu", "attention_step", "matmul_add"])
def test_an_op_without_a_kernel_runs_in_numpy(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = load(1)
    expected = whole.logits(IDS)
    fewer: Mapping[str, Any] = {k: v for k, v in cpu_lower.LOWERINGS.items() if k != op}
    monkeypatch.setattr("rushlight.plan.cpu.LOWERINGS", fewer)
    monkeypatch.setattr(cpu_lower, "LOWERINGS", fewer)
    model, executor = load(2)
    assert executor.plan is not None and executor.plan.numpy_ops == (op,)
    assert op in model.device.kernels
    got = model.logits(IDS)
    assert np.abs(got - expected).max() <= 2e-4 * np.ptp(expected)
    whole.close()
    model.close()
