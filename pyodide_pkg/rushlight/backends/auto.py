"""The only place that asks where the engine is running and which device to use."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import NoAdapterError, NoKernelsError, check_choice
from .base import Executor

if TYPE_CHECKING:
    from .simd_common import SimdExecutor

IN_BROWSER = sys.platform == "emscripten"
DEVICES = ("auto", "gpu", "floor", "cpu", "numpy")


def create_executor(device: str = "auto", n_threads: int = 0) -> Executor:
    """An executor for a device name, with every fall-back written in its notes.

    "auto" takes a hardware GPU, else the CPU: a software adapter is slower. "gpu" takes any
    adapter and raises ``NoAdapterError`` when there is none. "floor" is "gpu" with no more than
    every WebGPU device grants, natively: a check that nothing depends on more. "cpu" is the SIMD
    kernels on ``n_threads`` (0: as many as suit the machine), or numpy where they do not load;
    "numpy" the plain reference.
    """
    check_choice("device", device, DEVICES)
    if device == "numpy":
        return _numpy_executor()
    if device == "cpu":
        return _cpu_executor(n_threads)
    if device == "floor":
        return _native_gpu(floor=True)(True)
    create = _browser_gpu() if IN_BROWSER else _native_gpu()
    if device == "gpu":
        return create(True)
    try:
        return create(False)
    except NoAdapterError as error:
        return _cpu_executor(n_threads, f"Running on the CPU: {error.message}")


def _cpu_executor(n_threads: int, *notes: str) -> Executor:
    try:
        executor = (_browser_cpu() if IN_BROWSER else _native_cpu())(n_threads)
    except NoKernelsError as error:
        return _numpy_executor(*notes, f"Running in numpy, slowly: {error}")
    executor.own_notes = notes
    return executor


def _numpy_executor(*notes: str) -> Executor:
    from .numpy_executor import NumpyExecutor

    return NumpyExecutor(notes)


def _native_cpu() -> Callable[[int], SimdExecutor]:
    from .simd_native import NativeCpuExecutor

    return NativeCpuExecutor


def _browser_cpu() -> Callable[[int], SimdExecutor]:
    from .simd_browser import BrowserCpuExecutor

    return BrowserCpuExecutor


def _native_gpu(*, floor: bool = False) -> Callable[[bool], Executor]:
    from .webgpu_native import NativeExecutor

    return lambda software: NativeExecutor(allow_software=software, floor=floor)


def _browser_gpu() -> Callable[[bool], Executor]:
    from .webgpu_browser import BrowserExecutor

    return lambda software: BrowserExecutor()


def is_in_event_loop() -> bool:
    """Whether an event loop runs in this thread; in a browser one always does."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return IN_BROWSER
    return True


async def breathe() -> None:
    """Let the page's events in (a stop button, for one); free of cost outside a browser."""
    if IN_BROWSER:
        await asyncio.sleep(0)
