"""Every op case inside the worker: numpy in WebAssembly, and WGSL on SwiftShader."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("backend", ["cpu", "webgpu"])
def test_op_cases(harness: Any, backend: str) -> None:
    answer = harness("opCases", backend=backend, only="")
    assert "error" not in answer, answer
    envelope = answer["value"]
    assert envelope["ok"], envelope
    print("boot", envelope["stepMs"])
    assert len(envelope["value"]) > 20
    bad = [
        f"{op}/{case}: {error or f'nmse {nmse} > {limit}'}"
        for op, case, nmse, limit, error in envelope["value"]
        if error or nmse is None or nmse > limit
    ]
    assert not bad, "\n".join(bad)
