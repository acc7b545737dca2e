"""Every op case inside the worker: numpy and the CPU kernels, and WGSL on SwiftShader."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.driver import Call, ask_worker

pytestmark = pytest.mark.browser


TILES_OPS = ("rms_norm", "attention", "attention_step", "norm_glu_matmul", "joint_glu_matmul")
"""What the tiles family does most differently; all of it would take a software adapter minutes."""


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("numpy", {}),
        ("cpu", {"variant": "exact"}),
        ("webgpu", {}),
        ("webgpu", {"variant": "tiles", "only": TILES_OPS}),
    ],
    ids=["numpy", "cpu", "webgpu", "webgpu-tiles"],
)
def test_op_cases(harness: Any, backend: str, options: dict[str, Any]) -> None:
    answer = ask_worker(harness, backend, [Call("run_op_cases", options=options)])
    print("boot", answer.boot_ms)
    (results,) = answer.values
    assert len(results) > 20
    bad = [
        f"{op}/{case}: {error or f'nmse {nmse} > {limit}'}"
        for op, case, nmse, limit, error in results
        if error or nmse is None or nmse > limit
    ]
    assert not bad, "\n".join(bad)
