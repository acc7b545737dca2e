"""The GPU backend of the machine that runs the tests, made once."""

from __future__ import annotations

import pytest

from rushlight.backends.base import Executor
from rushlight.errors import NoAdapterError

GPU_VARIANTS = ("rows", "tiles")


def gpu_executor() -> Executor:
    """A native WebGPU executor on any adapter; skips (a failure under CI) when there is none."""
    from rushlight.backends.webgpu_native import NativeExecutor

    try:
        return NativeExecutor(allow_software=True)
    except NoAdapterError as error:
        pytest.skip(f"no GPU adapter: {error.message}")
