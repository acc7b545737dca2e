"""Every op case inside the worker: numpy and the CPU kernels, and WGSL on SwiftShader."""

from __future__ import annotations

from typing import Any

import pytest

from rushlight.backends.variant_trials import distinct_trials
from rushlight.ops import OPS
from rushlight.plan.variant import BY_NAME
from tests.browser.driver import Call, ask_worker

pytestmark = pytest.mark.browser

FLOOR = ("rows",)
"""What runs on a device without any feature."""
BEST = ("tiles", "subgroups")
"""What SwiftShader's features allow, in float32; every case whose kernels differ."""
INT8_CASES = ("Q8_0-2x33x32", "F32-33x130x160", "Q4_K-7x64x256", "Q8_0-65x129x1152")


@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("numpy", {}),
        ("cpu", {}),
        ("webgpu", {"variants": FLOOR}),
        ("webgpu", {"variants": BEST}),
        ("webgpu", {"variants": ("tiles_int8",), "cases": INT8_CASES}),
    ],
    ids=["numpy", "cpu", "webgpu-floor", "webgpu-best", "webgpu-int8"],
)
def test_op_cases(harness: Any, backend: str, options: dict[str, Any]) -> None:
    answer = ask_worker(harness, backend, [Call("run_op_cases", options=options)])
    print("boot", answer.boot_ms)
    (results,) = answer.values
    assert len(results) == n_expected(backend, options)
    bad = [
        f"{variant} {op}/{case}: {error or f'nmse {nmse} > {limit}'}"
        for variant, op, case, nmse, limit, error in results
        if error or nmse is None or nmse > limit
    ]
    assert not bad, "\n".join(bad)


def n_expected(backend: str, options: dict[str, Any]) -> int:
    if backend != "webgpu":
        return sum(len(op.cases) for op in OPS.values())
    if "cases" in options:
        return len(options["cases"])
    return sum(1 for _ in distinct_trials(BY_NAME[name] for name in options["variants"]))
