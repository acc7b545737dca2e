"""Each CPU kernel alone against the numpy references: odd sizes, both builds, 1 to 3 threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.tools import kernel_cases_attention, kernel_cases_rows  # noqa: F401
from tests.tools.kernel_bench import KernelBench
from tests.tools.kernel_cases import CASES, ONE_OF_EACH, Made, check


def make(bench: KernelBench, name: str) -> Made:
    """A case in a bench, ready to run."""
    made = CASES[name](bench, np.random.default_rng(sum(name.encode())))
    bench.plan(made.calls)
    return made


@pytest.fixture(params=["simd-1", "simd-3", "relaxed-2"])
def bench(request: pytest.FixtureRequest) -> Iterator[KernelBench]:
    build, n_threads = request.param.split("-")
    made = KernelBench(build, int(n_threads))
    yield made
    made.close()


@pytest.mark.parametrize("name", CASES)
def test_kernel_agrees_with_its_reference(bench: KernelBench, name: str) -> None:
    made = make(bench, name)
    bench.run(**made.step)
    check(bench, made)


@pytest.mark.parametrize("build", ["simd", "relaxed"])
@pytest.mark.parametrize("name", sorted(ONE_OF_EACH))
def test_kernel_agrees_in_node(name: str, build: str, tmp_path: Path) -> None:
    bench = KernelBench(build)
    made = make(bench, name)
    bench.run_in_node(tmp_path, **made.step)
    check(bench, made)
