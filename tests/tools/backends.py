"""The GPU backend of the machine that runs the tests, made once."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from rushlight.backends.base import Executor
from rushlight.backends.webgpu_common import WebGpuExecutor
from rushlight.errors import NoAdapterError
from rushlight.plan.variant import BY_NAME, VARIANTS

GPU_VARIANTS = tuple(BY_NAME)
EXACT_VARIANTS = tuple(variant.name for variant in VARIANTS if variant.is_exact)
MOST_PIPELINES = 100
"""Kept of the shared device's kernels: a software adapter's take a megabyte or two each."""


def gpu_executor(variant: str = "") -> Executor:
    """A native WebGPU executor on any adapter; skips (a failure under CI) when there is none.

    With a variant it also skips, and that is no failure, where the adapter lacks a feature of it.
    """
    from rushlight.backends.webgpu_native import NativeExecutor

    try:
        executor = NativeExecutor(allow_software=True)
    except NoAdapterError as error:
        pytest.skip(f"no GPU adapter: {error.message}")
    try:
        _skip_without(executor.device, variant)
    except BaseException:
        executor.close()
        raise
    return executor


def shared_executor(variant: str = "") -> WebGpuExecutor:
    """As ``gpu_executor``, on one device that all callers share.

    Kernels are compiled once, however many models use them: compiling is what takes a software
    adapter its time. Closing the executor leaves the device open.
    """
    executor = _shared(floor=False)
    _skip_without(executor.device, variant)
    return executor


def floor_executor() -> WebGpuExecutor:
    """As ``shared_executor``, at the WebGPU floor."""
    return _shared(floor=True)


def _shared(*, floor: bool) -> WebGpuExecutor:
    from rushlight.backends.webgpu_native import NativeDevice

    opened = _opened(floor=floor)
    if len(opened.pipelines) > MOST_PIPELINES:
        opened.pipelines.clear()
    return WebGpuExecutor(NativeDevice(shared=opened))


@cache
def _opened(*, floor: bool) -> Any:
    from rushlight.backends.wgpu_adapter import open_device

    try:
        return open_device(allow_software=True, floor=floor)
    except NoAdapterError as error:
        pytest.skip(f"no GPU adapter: {error.message}")


def _skip_without(device: Any, variant: str) -> None:
    needed = BY_NAME[variant].features if variant else ()
    if lacking := set(needed) - device.features:
        pytest.skip(f"adapter lacks {', '.join(sorted(lacking))}")
