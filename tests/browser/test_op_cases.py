"""Every op case inside the worker: numpy and the CPU kernels, and WGSL on SwiftShader."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.driver import Call, ask_worker

pytestmark = pytest.mark.browser


TILES_OPS = ("rms_norm", "attention", "attention_step", "norm_glu_matmul", "joint_glu_matmul")
"""What the tiles family does most differently; all of it would take a software adapter minutes."""
SUBGROUPS_OPS = ("rms_norm", "sandwich_norm", "norm_qkv_matmul", "norm_glu_matmul")
"""Every way that lanes add up what they found."""
INT8_CASES = ("Q8_0-2x33x32", "F32-33x130x160", "Q4_K-7x64x256", "Q8_0-65x129x1152")


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("numpy", {}),
        ("cpu", {"variant": "exact"}),
        ("webgpu", {}),
        ("webgpu", {"variant": "tiles", "only": TILES_OPS}),
        ("webgpu", {"variant": "subgroups", "only": SUBGROUPS_OPS}),
        ("webgpu", {"variant": "tiles_int8", "only": ("matmul",), "cases": INT8_CASES}),
    ],
    ids=["numpy", "cpu", "webgpu", "webgpu-tiles", "webgpu-subgroups", "webgpu-tiles_int8"],
)
def test_op_cases(harness: Any, backend: str, options: dict[str, Any]) -> None:
    answer = ask_worker(harness, backend, [Call("run_op_cases", options=options)])
    print("boot", answer.boot_ms)
    (results,) = answer.values
    assert len(results) >= len(options.get("cases", range(16)))
    bad = [
        f"{op}/{case}: {error or f'nmse {nmse} > {limit}'}"
        for op, case, nmse, limit, error in results
        if error or nmse is None or nmse > limit
    ]
    assert not bad, "\n".join(bad)
