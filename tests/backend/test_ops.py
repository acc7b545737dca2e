"""Every op case on every backend of this machine, against the numpy reference."""

from __future__ import annotations

import pytest

from rushlight import _sync
from rushlight.backends.numpy_executor import NumpyExecutor
from rushlight.backends.variant_trials import distinct_trials
from rushlight.ops import Case, OpDef
from rushlight.plan.variant import VARIANTS
from rushlight.selftest import all_cases, check_case
from tests.tools.backends import shared_executor

CASES = [pytest.param(op, case, id=f"{op.name}/{case.name}") for op, case in all_cases()]
VARIANT_CASES = [
    pytest.param(variant.name, trial.op, trial.case, id=f"{trial.name}-{variant.name}")
    for variant, trial in distinct_trials(VARIANTS)
]


@pytest.mark.parametrize(("op", "case"), CASES)
def test_numpy_runs_case(op: OpDef, case: Case) -> None:
    result = _sync.run(check_case(op, case, NumpyExecutor))
    assert result.ok and result.nmse == 0.0, result


@pytest.mark.parametrize(("variant", "op", "case"), VARIANT_CASES)
def test_native_webgpu_agrees(variant: str, op: OpDef, case: Case) -> None:
    result = _sync.run(check_case(op, case, lambda: shared_executor(variant), variant=variant))
    assert result.ok, result
