"""The seam of the CPU kernels: who holds their memory, instances and threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..gguf.source import AsyncSource
from ..plan.cpu_program import KernelUpload, MemoryLayout
from .base import DeviceInfo, ProgressFn


class KernelHost(Protocol):
    """Holds the kernels of one model; ``simd_native.py`` and ``simd_browser.py`` are two."""

    info: DeviceInfo

    @property
    def n_threads(self) -> int:
        """Threads that work, the engine's own among them."""

    @property
    def notes(self) -> Sequence[str]:
        """What went otherwise than asked, for people; may grow while running."""

    max_bytes: int
    """The most that a memory can hold."""

    @property
    def kernel_ms(self) -> float:
        """Time spent in the kernels so far."""

    async def create(self, n_bytes: int, n_bytes_more: int) -> None:
        """Make a memory of so many bytes, zeros, that can ``grow`` by ``n_bytes_more`` at least,
        and the kernels over it."""

    async def start(self, layout: MemoryLayout, n_calls: int) -> None:
        """Start the other threads: memory and program have been written."""

    def write(self, address: int, data: NDArray[Any] | bytes) -> None:
        """Copy bytes into the memory."""

    def read(self, address: int, n_bytes: int) -> NDArray[np.uint8]:
        """Bytes of the memory: a view where that is possible, good until the next run."""

    def read_int(self, address: int) -> int:
        """The signed integer of 32 bits at an address."""

    async def upload(
        self,
        uploads: Sequence[KernelUpload],
        sources: Sequence[AsyncSource],
        progress: ProgressFn,
    ) -> None:
        """Stream bytes of the sources to where they belong."""

    def grow(self, n_bytes: int) -> int:
        """The address of so many more bytes of memory, zero and 64-byte aligned."""

    async def run(self, first: int, stop: int, n_tokens: int) -> None:
        """Run calls ``first .. stop`` for a chunk of ``n_tokens``, in ranges of bounded time.

        Events come in between them. A pool that stalls is dropped with a note, and the range run
        again by this thread alone. Raises ``RunCancelledError`` after ``cancel``.
        """

    def cancel(self) -> None:
        """Make the run under way stop after its present range."""

    def close(self) -> None:
        """Stop the threads and give the memory back."""
