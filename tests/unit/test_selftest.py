"""How a case is compared with its reference."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from rushlight import selftest
from rushlight.backends.numpy_executor import NumpyExecutor
from rushlight.ops import OPS


def test_the_reference_runs_once_for_all_variants_of_a_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_made = 0

    def reference() -> NumpyExecutor:
        nonlocal n_made
        n_made += 1
        return NumpyExecutor()

    monkeypatch.setattr(selftest, "_references", {})
    monkeypatch.setattr(selftest, "NumpyExecutor", reference)
    op = OPS["scale"]
    case = op.cases[0]
    for _ in range(3):
        assert asyncio.run(selftest.check_case(op, case, NumpyExecutor)).ok
    assert n_made == 1
    other = replace(case, attrs={"factor": -7.0})
    assert asyncio.run(selftest.check_case(op, other, NumpyExecutor)).ok
    assert n_made == 2
