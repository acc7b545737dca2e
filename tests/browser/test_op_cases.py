"""Every op case inside the worker: numpy in WebAssembly, and WGSL on SwiftShader."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.driver import Call, ask_worker

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("backend", ["cpu", "webgpu"])
def test_op_cases(harness: Any, backend: str) -> None:
    answer = ask_worker(harness, backend, [Call("run_op_cases")])
    print("boot", answer.boot_ms)
    (results,) = answer.values
    assert len(results) > 20
    bad = [
        f"{op}/{case}: {error or f'nmse {nmse} > {limit}'}"
        for op, case, nmse, limit, error in results
        if error or nmse is None or nmse > limit
    ]
    assert not bad, "\n".join(bad)
