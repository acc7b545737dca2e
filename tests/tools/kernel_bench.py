"""Kernels outside a model: arrays in, `run`, arrays out; under wasmtime or in node."""

from __future__ import annotations

import ctypes
import json
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import wasmtime
from numpy.typing import NDArray
from wasmtime import _ffi as ffi

from rushlight.kernels import BUILDS, CALL_BYTES, PLACE_BYTES, SYNC_BYTES, kernel_root, kernel_table

PAGE = 1 << 16
MAX_PAGES = (1 << 16) - 1
STALL_MS = 10_000
NODE_RUN = Path(__file__).with_name("kernel_bench.mjs")
Call = tuple[str, Mapping[str, Any]]


@cache
def _engine() -> wasmtime.Engine:
    config = wasmtime.Config()
    config.wasm_threads = True
    config.shared_memory = True
    config.wasm_relaxed_simd = True
    return wasmtime.Engine(config)


@cache
def _module(build: str) -> wasmtime.Module:
    return wasmtime.Module.from_file(_engine(), str(kernel_root() / BUILDS[build]))


class _SharedMemory(wasmtime.SharedMemory):
    """A shared memory that can be imported: wasmtime-py 50 passes a pointer too many."""

    def _as_extern(self) -> Any:
        union = ffi.wasmtime_extern_union(sharedmemory=self.ptr())
        return ffi.wasmtime_extern_t(ffi.WASMTIME_EXTERN_SHAREDMEMORY, union)


class KernelBench:
    """A memory with the kernels beside it, and ``n_threads`` threads that run calls."""

    def __init__(self, build: str = "simd", n_threads: int = 1, n_bytes: int = 64 << 20) -> None:
        self.build, self.n_threads = build, n_threads
        self.table = kernel_table()
        n_pages = -(-n_bytes // PAGE)
        limits = wasmtime.Limits(n_pages, MAX_PAGES)
        self._shared = _SharedMemory(
            _engine(), wasmtime.MemoryType(limits, is_64=False, shared=True)
        )
        start = ffi.wasmtime_sharedmemory_data(self._shared.ptr())
        array = (ctypes.c_uint8 * (n_pages * PAGE)).from_address(ctypes.addressof(start.contents))
        self.memory: NDArray[np.uint8] = np.frombuffer(array, np.uint8)
        self._instances = [self._instance() for _ in range(n_threads)]
        store, exports = self._instances[0]
        self._free = int(exports["__heap_base"].value(store))
        constants = self.table.constants
        self._control = self.room(self.table.control_bytes)
        stacks = [self.room(constants["STACK_BYTES"]) for _ in range(n_threads)]
        for (thread_store, thread_exports), stack in zip(self._instances, stacks, strict=True):
            top = wasmtime.Val.i32(stack + constants["STACK_BYTES"])
            thread_exports["__stack_pointer"].set_value(thread_store, top)
        self.stacks = stacks
        self._set(scratch=self.room(constants["SCRATCH_BYTES"] * n_threads) // PLACE_BYTES)
        self._set(n_threads=n_threads, stall_ms=STALL_MS, spins=2000, fault=0xFFFF)
        self._pool: list[threading.Thread] = []
        for index in range(1, n_threads):
            worker = threading.Thread(target=self._loop, args=(index,), daemon=True)
            worker.start()
            self._pool.append(worker)

    def _instance(self) -> tuple[wasmtime.Store, Any]:
        store = wasmtime.Store(_engine())
        instance = wasmtime.Instance(store, _module(self.build), [self._shared])
        return store, instance.exports(store)

    def _loop(self, index: int) -> None:
        store, exports = self._instances[index]
        exports["pool_loop"](store, self._control, index)

    def _set(self, **words: int) -> None:
        for name, value in words.items():
            at = self._control + self.table.control_at(name)
            self.memory[at : at + 4].view(np.uint32)[0] = value

    def room(self, n_bytes: int, align: int = 64) -> int:
        """Address of so many free bytes, zero."""
        self._free += -self._free % align
        at, self._free = self._free, self._free + n_bytes
        assert self._free <= len(self.memory), "the memory is too small"
        return at

    def put(self, array: NDArray[Any]) -> int:
        """The array's place."""
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        at = self.room(len(raw))
        self.memory[at : at + len(raw)] = raw
        return at // PLACE_BYTES

    def new(self, shape: tuple[int, ...], dtype: Any = np.float32) -> int:
        """Place of a zero array."""
        return self.room(int(np.prod(shape)) * np.dtype(dtype).itemsize) // PLACE_BYTES

    def get(self, place: int, shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
        """A view of what lies at a place."""
        at, n_bytes = place * PLACE_BYTES, int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.memory[at : at + n_bytes].view(dtype).reshape(shape)

    def plan(self, calls: Sequence[Call]) -> None:
        """Set the program; every call waits for those before."""
        packed = b"".join(
            self.table.pack_call(name, self.table.constants["BARRIER"], args)
            for name, args in calls
        )
        self._n_calls = len(packed) // CALL_BYTES
        program = self.put(np.frombuffer(packed, np.uint8))
        self._set(program=program, sync=self.new((self._n_calls, SYNC_BYTES), np.uint8))

    def run(self, **step: int) -> float:
        """Run the program once (``step``: n_tokens, position, n_out, state); its milliseconds."""
        self._set_step(**step)
        store, exports = self._instances[0]
        started = time.perf_counter()
        code = exports["run"](store, self._control, 0, self._n_calls)
        took = (time.perf_counter() - started) * 1e3
        assert code == self.table.constants["RUN_OK"], f"run gave {code}"
        return took

    def close(self) -> None:
        """Let the pool go."""
        self._set(stopping=1)
        for worker in self._pool:
            worker.join(timeout=5)

    def _set_step(
        self, n_tokens: int = 1, position: int = 0, n_out: int = 1, state: int = 0
    ) -> None:
        self._set(n_tokens=n_tokens, position=position, n_out=n_out, state=state)

    def run_in_node(self, folder: Path, n_runs: int = 1, **step: int) -> float:
        """Run the program in node on a copy of the memory, which replaces this one; the least
        milliseconds of ``n_runs``."""
        self._set_step(**step)
        image = folder / "memory.bin"
        image.write_bytes(self.memory[: self._free].tobytes())
        stack = self.stacks[0] + self.table.constants["STACK_BYTES"]
        job = [
            str(kernel_root() / BUILDS[self.build]),
            str(image),
            self._control,
            self._n_calls,
            stack,
            n_runs,
        ]
        command = ["node", str(NODE_RUN), json.dumps(job)]
        done = subprocess.run(command, check=True, timeout=60, capture_output=True)
        self.memory[: self._free] = np.frombuffer(image.read_bytes(), np.uint8)
        return float(done.stdout)
