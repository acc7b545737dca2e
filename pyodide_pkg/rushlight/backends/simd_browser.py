"""The CPU kernels in a page: memory, module and threads are JavaScript's, see ``worker/cpu.js``.

Weights go from their source into the kernels' memory without entering Python's heap; a step is
one small array there, two integers, and one small array back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyodide.ffi import to_js

from ..errors import NoKernelsError, OutOfDeviceMemoryError
from ..gguf.reader import GgufFile
from ..gguf.source import AsyncSource
from ..graph.ir import Graph
from ..kernels import kernel_table
from ..plan.cpu_program import KernelUpload, MemoryLayout
from .base import DeviceInfo, Progress, ProgressFn
from .simd_common import SimdExecutor
from .webgpu_browser import js_errors, js_sources, proxied

_page_cpu: Any = None


def use_cpu(cpu: Any) -> None:
    """Name the page's ``CpuDevice`` (from ``worker/cpu.js``); None if the kernels do not load."""
    global _page_cpu
    _page_cpu = cpu


def has_kernels() -> bool:
    """Whether the page has loaded the kernels."""
    return _page_cpu is not None


class CpuRoom:
    """A ``fit.Room``: the kernels' memory, which ends where the browser's addresses do."""

    def __init__(self) -> None:
        self.most_bytes = int(_page_cpu.maxBytes)

    async def takes(self, n_bytes: int) -> bool:
        """Whether the browser reserves so much more memory now."""
        return bool(_page_cpu.takes(n_bytes))


def require_room_for_weights(graph: Graph, file: GgufFile) -> None:
    """Raise ``OutOfDeviceMemoryError`` if the weights alone are more than the memory can hold."""
    n_bytes, most = (
        sum(file.tensors[name].n_bytes for name in graph.weights),
        int(_page_cpu.maxBytes),
    )
    if n_bytes > most:
        raise OutOfDeviceMemoryError(
            f"The weights take {n_bytes / 1e9:.2f} GB; on the CPU a page's memory ends at"
            f" {most / 1e9:.2f} GB.",
            hint="Use a smaller model or a smaller quantisation of it, or run it on a GPU.",
        )


class BrowserHost:
    """A ``KernelHost``: the page's kernels with one model's memory and pool."""

    def __init__(self, cpu: Any, n_threads: int = 0) -> None:
        self._cpu = cpu
        self._model = cpu.newModel(n_threads)
        self.build = str(cpu.build)
        words = "relaxed SIMD" if self.build == "relaxed" else "SIMD"
        self.info = DeviceInfo("cpu", f"WebAssembly {words}")
        self.notes = tuple(map(str, self._model.notes))
        self.max_bytes = int(cpu.maxBytes)
        self.spare_bytes = 0
        """What the memory must be able to grow by beyond what was asked; tests make it large."""

    @property
    def n_threads(self) -> int:
        """Threads that work on a range; one after a pool was lost."""
        return int(self._model.nThreads)

    @property
    def kernel_ms(self) -> float:
        """Time spent in the kernels so far."""
        return float(self._model.kernelMs)

    def _look_at_notes(self, n_notes: int) -> None:
        if n_notes != len(self.notes):
            self.notes = tuple(map(str, self._model.notes))

    async def create(self, n_bytes: int, n_bytes_more: int) -> None:
        """Make the memory and the module over it; with 64-bit addresses where it must be."""
        with js_errors():
            await self._model.create(n_bytes, n_bytes_more + self.spare_bytes)
        model = self._model
        self._write, self._run, self._run_now = model.write, model.run, model.runNow
        self.read_int = model.readInt

    async def start(self, layout: MemoryLayout, n_calls: int) -> None:
        """Start the other threads, and wait until each runs."""
        words = [
            layout.control + kernel_table().control_at(name) for name in ("n_threads", "stopping")
        ]
        with js_errors():
            stacks = to_js(layout.stacks)
            n_notes = await self._model.start(n_calls, layout.control, *words, stacks)
        self._look_at_notes(n_notes)

    def write(self, address: int, data: NDArray[Any] | bytes) -> None:
        """Copy bytes into the memory."""
        self._write(address, to_js(data if isinstance(data, bytes) else data.tobytes()))

    def read(self, address: int, n_bytes: int) -> NDArray[np.uint8]:
        """A copy of bytes of the memory."""
        return np.frombuffer(self._model.read(address, n_bytes).to_bytes(), np.uint8)

    async def upload(
        self, uploads: Sequence[KernelUpload], sources: Sequence[AsyncSource], progress: ProgressFn
    ) -> None:
        """Stream every weight to its address, in JavaScript."""

        def written(done: int, total: int) -> None:
            progress(Progress("weights", "Reading the weights", done, total))

        parts = await js_sources(sources if uploads else (), self._cpu.bytesSource)
        with js_errors(), proxied(written) as on_progress:
            await self._model.writeWeights(parts, json.dumps(uploads), on_progress)

    def grow(self, n_bytes: int) -> int:
        """The address of so many more bytes, zero."""
        with js_errors():
            return int(self._model.grow(n_bytes))

    async def run(self, first: int, stop: int, n_tokens: int) -> None:
        """Run a range of the program; see ``KernelHost.run``. Messages of the page are let in,
        between short steps now and then."""
        if n_tokens == 1 and self._run_now(first, stop):
            return
        with js_errors():
            n_notes = await self._run(first, stop, n_tokens)
        self._look_at_notes(n_notes)

    def cancel(self) -> None:
        """Make the run under way stop after its present range."""
        self._model.cancel()

    @property
    def is_wide(self) -> bool:
        """Whether addresses have 64 bits."""
        return bool(self._model.memory.isWide)

    def end_thread(self, index: int) -> None:
        """End a thread as a browser might; for tests."""
        self._model.endThread(index)

    def close(self) -> None:
        """Stop the threads and give the memory back."""
        self._model.destroy()


class BrowserCpuExecutor(SimdExecutor):
    """The CPU kernels of this page; ``n_threads`` 0: as many as suit the machine."""

    def __init__(self, n_threads: int = 0) -> None:
        if _page_cpu is None:
            raise NoKernelsError("This page has no CPU kernels.", hint="Use numpy instead.")
        super().__init__(BrowserHost(_page_cpu, n_threads))
