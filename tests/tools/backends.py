"""The GPU backend of the machine that runs the tests, made once."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from rushlight.backends.base import Executor
from rushlight.backends.webgpu_common import WebGpuExecutor
from rushlight.errors import NoAdapterError

GPU_VARIANTS = ("rows", "tiles")


def gpu_executor() -> Executor:
    """A native WebGPU executor on any adapter; skips (a failure under CI) when there is none."""
    from rushlight.backends.webgpu_native import NativeExecutor

    try:
        return NativeExecutor(allow_software=True)
    except NoAdapterError as error:
        pytest.skip(f"no GPU adapter: {error.message}")


def floor_executor() -> WebGpuExecutor:
    """An executor on one device that all callers share, at the WebGPU floor.

    Kernels are compiled once, however many models use them: compiling is what takes a software
    adapter its time. Closing the executor leaves the device open.
    """
    return WebGpuExecutor(_floor_device().fork())


@cache
def _floor_device() -> Any:
    from rushlight.backends.webgpu_native import NativeDevice

    try:
        return NativeDevice(allow_software=True, floor=True)
    except NoAdapterError as error:
        pytest.skip(f"no GPU adapter: {error.message}")
