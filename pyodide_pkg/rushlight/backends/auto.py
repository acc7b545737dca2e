"""The only place that asks where the engine is running and which device to use."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from ..errors import NoAdapterError, check_choice
from .base import Executor

IN_BROWSER = sys.platform == "emscripten"
DEVICES = ("auto", "gpu", "floor", "cpu", "numpy")


def create_executor(device: str = "auto") -> Executor:
    """An executor for a device name, with every fall-back written in its notes.

    "auto" takes a hardware GPU, else the CPU: a software adapter is slower than numpy. "gpu"
    takes any adapter and raises ``NoAdapterError`` when there is none. "floor" is "gpu" with no
    more than every WebGPU device grants, natively: a check that nothing depends on more.
    """
    check_choice("device", device, DEVICES)
    if device in ("cpu", "numpy"):
        return _numpy_executor()
    if device == "floor":
        return _native_gpu(floor=True)(True)
    create = _browser_gpu() if IN_BROWSER else _native_gpu()
    if device == "gpu":
        return create(True)
    try:
        return create(False)
    except NoAdapterError as error:
        return _numpy_executor(f"Running on the CPU: {error.message}")


def _numpy_executor(*notes: str) -> Executor:
    from .numpy_executor import NumpyExecutor

    return NumpyExecutor(notes)


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
