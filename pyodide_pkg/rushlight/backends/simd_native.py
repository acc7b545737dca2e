"""The CPU kernels natively: wasmtime, one store per thread over one shared memory."""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import platform
import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import NoKernelsError, OutOfDeviceMemoryError
from ..gguf.source import AsyncSource
from ..kernels import BUILDS, kernel_root, kernel_table
from ..plan.cpu_program import KernelUpload, MemoryLayout
from .base import DeviceInfo, Progress, ProgressFn
from .file_store import cache_dir
from .simd_common import SimdExecutor
from .webgpu_common import Pacer, RunCancelledError

PAGE_BYTES = 1 << 16
MAX_PAGES = (1 << 16) - 1
PIECE_BYTES = 16 << 20
MAX_THREADS = 64
JOIN_SECONDS = 2.0
MADV_HUGEPAGE = 14


def default_threads() -> int:
    """Threads unless told otherwise: two logical processors are mostly one core, and one core is
    one thread."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return n if n <= 2 else min(8, -(-n // 2))


class NativeKernels:
    """A ``KernelHost`` under wasmtime."""

    max_bytes = MAX_PAGES * PAGE_BYTES

    def __init__(self, n_threads: int = 0) -> None:
        self.n_threads = min(n_threads or default_threads(), MAX_THREADS)
        self.notes: tuple[str, ...] = ()
        self.kernel_ms = 0.0
        self._wasmtime, self._engine, self._module, build = _load_module()
        name = f"wasmtime {version('wasmtime')}, {build} SIMD"
        self.info = DeviceInfo("cpu", name)
        self._memory: Any = None
        self._bytes: NDArray[np.uint8] | None = None
        self._members: list[threading.Thread] = []
        self._lost: list[str] = []
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._control = 0
        self._is_cancelled = False

    # ----- memory

    async def create(self, n_bytes: int, n_bytes_more: int) -> None:
        """Make the shared memory and this thread's instance."""
        w = self._wasmtime
        pages = -(-n_bytes // PAGE_BYTES)
        limits = w.Limits(pages, MAX_PAGES)
        try:
            self._memory = _shared_memory(w)(self._engine, w.MemoryType(limits, shared=True))
        except w.WasmtimeError as error:
            raise OutOfDeviceMemoryError(
                f"There is no memory of {n_bytes} bytes for this model: {error}",
                hint="Close other programs, or use a smaller model.",
            ) from error
        self._view()
        self._store, self._exports = self._instance()

    def _instance(self) -> tuple[Any, Any]:
        store = self._wasmtime.Store(self._engine)
        instance = self._wasmtime.Instance(store, self._module, [self._memory])
        return store, instance.exports(store)

    def _view(self) -> None:
        """Look at the memory as bytes; it never moves, but its length grows."""
        data = ctypes.cast(self._memory.data_ptr(), ctypes.c_void_p).value
        assert data is not None
        buffer: Any = (ctypes.c_ubyte * self._memory.data_len()).from_address(data)
        buffer.owner = self._memory  # alive as long as anyone looks at it
        self._bytes = np.frombuffer(buffer, np.uint8)
        _ask_for_large_pages(data, self._memory.data_len())

    @property
    def memory(self) -> NDArray[np.uint8]:
        """The kernels' memory, without a copy."""
        if self._bytes is None:
            raise NoKernelsError("The model is closed.", hint="Load it again.")
        return self._bytes

    def write(self, address: int, data: NDArray[Any] | bytes) -> None:
        """Copy bytes into the memory."""
        raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
        raw = raw.reshape(-1).view(np.uint8)
        self.memory[address : address + raw.size] = raw

    def read_int(self, address: int) -> int:
        """The signed integer of 32 bits at an address."""
        return int(self.read(address, 4).view(np.int32)[0])

    def read(self, address: int, n_bytes: int) -> NDArray[np.uint8]:
        """A view, good until the next run."""
        return self.memory[address : address + n_bytes]

    async def upload(
        self, uploads: Sequence[KernelUpload], sources: Sequence[AsyncSource], progress: ProgressFn
    ) -> None:
        """Read the weights to where they belong, by bounded pieces."""
        total, done = sum(u.n_bytes for u in uploads), 0
        for upload in uploads:
            for start in range(0, upload.n_bytes, PIECE_BYTES):
                n = min(PIECE_BYTES, upload.n_bytes - start)
                raw = await sources[upload.part].read(upload.offset + start, n)
                self.memory[upload.address + start :][:n] = np.frombuffer(raw, np.uint8)
                done += n
                progress(Progress("weights", "Reading the weights", done, total))
            await asyncio.sleep(0)

    def grow(self, n_bytes: int) -> int:
        """More memory behind what there is."""
        try:
            start = self._memory.grow(-(-n_bytes // PAGE_BYTES)) * PAGE_BYTES
        except self._wasmtime.WasmtimeError as error:
            raise OutOfDeviceMemoryError(
                f"There is no more memory: {n_bytes} bytes for one more session.",
                hint="Close other sessions, or use a smaller context.",
            ) from error
        self._view()
        return int(start)

    # ----- threads

    async def start(self, layout: MemoryLayout, n_calls: int) -> None:
        """Start the pool; each member sleeps until there is something to run."""
        self._control = layout.control
        self._pacers = (Pacer(n_calls), Pacer(n_calls))
        self._finalizer = weakref.finalize(self, _stop, self.memory, layout.control, self._members)
        for index, stack in enumerate(layout.stacks, 1):
            args = (index, *self._instance(), layout.control, stack, self._lost)
            member = threading.Thread(target=_work, args=args, daemon=True)
            self._members.append(member)
            member.start()

    async def run(self, first: int, stop: int, n_tokens: int) -> None:
        """Run a range of the program in pieces of bounded time; see ``KernelHost.run``."""
        self._is_cancelled = False
        pacer = self._pacers[n_tokens > 1]
        run, start = self._exports["run"], first
        while True:
            end = min(stop, pacer.end_of_submit(first, stop))
            if self._lost and self.n_threads > 1:
                self._drop_pool(self._lost[0])
            began = perf_counter()
            if run(self._store, self._control, first, end):
                self._drop_pool("it stopped in the middle of its work")
                first = start  # the range may have overwritten what it began with
                continue
            elapsed_ms = (perf_counter() - began) * 1e3
            self.kernel_ms += elapsed_ms
            pacer.measured(first, end, elapsed_ms)
            first = end
            if first >= stop:
                return
            await asyncio.sleep(0)
            if self._is_cancelled:
                raise RunCancelledError("Stopped.")

    def _drop_pool(self, why: str) -> None:
        """Go on with one thread."""
        _stop(self.memory, self._control, self._members)
        self.n_threads = 1
        at = self._control + kernel_table().control_at("n_threads")
        self.memory[at : at + 4].view(np.uint32)[0] = 1
        self.notes += (f"A thread was lost ({why}): the CPU goes on with one.",)

    def cancel(self) -> None:
        """Make the run under way stop after its present range."""
        self._is_cancelled = True

    def close(self) -> None:
        """Stop the threads and give the memory back; a second call does nothing."""
        if self._finalizer is not None:
            self._finalizer()
        self._bytes = self._memory = self._exports = self._store = None


def _work(index: int, store: Any, exports: Any, control: int, stack: int, lost: list[str]) -> None:
    """A pool member's life. What kills it is noted; the engine's thread finds out."""
    try:
        exports["__stack_pointer"].set_value(store, stack)
        exports["pool_loop"](store, control, index)
    except Exception as error:
        lost.append(str(error).splitlines()[0])


def _stop(memory: NDArray[np.uint8], control: int, members: list[threading.Thread]) -> None:
    """Tell the pool to leave and wait for it: members look at the word at least every 0.1 s."""
    at = control + kernel_table().control_at("stopping")
    memory[at : at + 4].view(np.uint32)[0] = 1
    for member in members:
        if member is not threading.current_thread():
            member.join(JOIN_SECONDS)
    members.clear()


def _ask_for_large_pages(address: int, n_bytes: int) -> None:
    """Have Linux map the memory by pages of 2 MiB where it can: weights are read in one long
    sweep a token, and small pages cost a fifth of that. Elsewhere, and where it refuses, nothing
    changes.
    """
    if sys.platform == "linux":
        length, advice = ctypes.c_size_t(n_bytes), ctypes.c_int(MADV_HUGEPAGE)
        ctypes.CDLL(None).madvise(ctypes.c_void_p(address), length, advice)


def _shared_memory(wasmtime: Any) -> Any:
    """wasmtime's class of that name, put right: version 50 gives an import a pointer too many."""
    from wasmtime import _ffi as ffi

    class SharedMemory(wasmtime.SharedMemory):  # type: ignore[misc]
        def _as_extern(self) -> Any:
            union = ffi.wasmtime_extern_union(sharedmemory=self.ptr())
            return ffi.wasmtime_extern_t(ffi.WASMTIME_EXTERN_SHAREDMEMORY, union)

    return SharedMemory


def _load_module() -> tuple[Any, Any, Any, str]:
    """wasmtime, its engine, the compiled kernels and the build's name."""
    try:
        import wasmtime
    except ImportError as error:
        raise NoKernelsError(
            "The CPU kernels need the package wasmtime.",
            hint="Install it: pip install 'rushlight[native]'.",
        ) from error
    config = wasmtime.Config()
    config.wasm_threads = True
    config.shared_memory = True
    config.wasm_simd = True
    config.wasm_relaxed_simd = True
    engine = wasmtime.Engine(config)
    build, file = next(iter(BUILDS.items()))
    wasm = (kernel_root() / file).read_bytes()
    return wasmtime, engine, _compiled(wasmtime, engine, wasm), build


def _compiled(wasmtime: Any, engine: Any, wasm: bytes) -> Any:
    """The module, from the cache folder where this machine has compiled it before.

    Only files of the person's own cache are trusted: what is read is machine code.
    """
    key = hashlib.sha256(wasm)
    key.update(f"{version('wasmtime')} {platform.machine()} {platform.processor()}".encode())
    path = cache_dir() / "kernels" / f"{key.hexdigest()[:32]}.cwasm"
    with suppress(OSError, wasmtime.WasmtimeError):
        return wasmtime.Module.deserialize(engine, path.read_bytes())
    module = wasmtime.Module(engine, wasm)
    with suppress(OSError):
        _write(path, module.serialize())
    return module


def _write(path: Path, data: bytes | bytearray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(data)
    part.replace(path)


class NativeCpuExecutor(SimdExecutor):
    """The kernels under wasmtime; ``n_threads`` 0: as many as suit the machine."""

    def __init__(self, n_threads: int = 0) -> None:
        super().__init__(NativeKernels(n_threads))
