"""Every op case on every backend of this machine, against the numpy reference."""

from __future__ import annotations

import pytest

from rushlight import _sync
from rushlight.backends.numpy_executor import NumpyExecutor
from rushlight.ops import Case, OpDef
from rushlight.selftest import all_cases, check_case
from tests.tools.backends import GPU_VARIANTS, gpu_executor

CASES = [pytest.param(op, case, id=f"{op.name}/{case.name}") for op, case in all_cases()]


@pytest.mark.parametrize(("op", "case"), CASES)
def test_numpy_runs_case(op: OpDef, case: Case) -> None:
    result = _sync.run(check_case(op, case, NumpyExecutor))
    assert result.ok and result.nmse == 0.0, result


@pytest.mark.parametrize("variant", GPU_VARIANTS)
@pytest.mark.parametrize(("op", "case"), CASES)
def test_native_webgpu_agrees(op: OpDef, case: Case, variant: str) -> None:
    result = _sync.run(check_case(op, case, gpu_executor, variant=variant))
    assert result.ok, result
