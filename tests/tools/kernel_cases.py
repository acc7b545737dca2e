"""What a case of a CPU kernel is, and the register of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernel_bench import Call, KernelBench

Array = NDArray[Any]
Outputs = list[tuple[int, Array]]
"""Places of results and what must lie there."""


@dataclass(frozen=True)
class Made:
    """A program, its step, its results, and how far they may be off."""

    calls: list[Call]
    expected: Outputs
    step: dict[str, int]
    nmse: float = 1e-12


Case = Callable[[KernelBench, Any], Made]
CASES: dict[str, Case] = {}
ONE_OF_EACH: set[str] = set()
"""A case per kernel, for node."""


def cases(**named: tuple[Any, ...]) -> Callable[[Callable[..., Made]], None]:
    """Register a function once per set of arguments."""

    def add(make: Callable[..., Made]) -> None:
        for name, args in named.items():
            label = f"{make.__name__}-{name}"
            CASES[label] = lambda bench, rng, args=args: make(bench, rng, *args)
        ONE_OF_EACH.add(label)

    return add


def normal(rng: Any, *shape: int) -> Array:
    return np.asarray(rng.standard_normal(shape), np.float32)


def check(bench: KernelBench, made: Made) -> None:
    """Compare every result with what was expected: float32 within the case's bound, NaN for NaN."""
    for place, expected in made.expected:
        dtype = np.float32 if expected.dtype == np.float64 else expected.dtype
        got = bench.get(place, expected.shape, dtype)
        if made.nmse == 0 or dtype != np.float32:
            assert np.array_equal(got, expected, equal_nan=got.dtype.kind == "f")
            continue
        assert np.array_equal(np.isnan(got), np.isnan(expected))
        error = np.square(np.nan_to_num(got.astype(np.float64) - expected)).sum()
        assert error <= made.nmse * np.square(np.nan_to_num(expected.astype(np.float64))).sum()
