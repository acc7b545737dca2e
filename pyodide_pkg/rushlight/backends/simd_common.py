"""The CPU kernels as an ``Executor``, over a host that holds their memory and threads.

Planning, packing a step's input, cutting long prompts into bounded ranges, and what numpy runs
between them are decided here, once; ``simd_native.py`` and ``simd_browser.py`` are hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..candidates import Candidates, SampleInputs, is_decided
from ..errors import ContextFullError, InvalidInputError, OutOfDeviceMemoryError, check_choice
from ..gguf.reader import GgufFile
from ..gguf.source import AsyncSource
from ..graph.ir import Graph
from ..kernels import PLACE_BYTES, KernelTable, kernel_table
from ..plan.cpu import plan_cpu
from ..plan.cpu_builder import ids_bytes
from ..plan.cpu_program import (
    INPUT,
    CpuPlan,
    MemoryLayout,
    memory_layout,
    pack_program,
    uploads,
)
from ..plan.plan import Binding
from .base import LoadOptions, Progress, ProgressFn, RunStats, Want, shaped
from .rewind import Held
from .simd_host import KernelHost
from .simd_numpy import NumpyMemory, run_numpy_call
from .simd_profile import CpuProfile
from .webgpu_common import Turn
from .webgpu_program import read_small_tensors

VARIANTS = ("auto", "int8", "exact")
"""Products with activations of 8 bits per 32 values ("auto" is that), or of float32."""
STALL_MS = 10_000
SPINS = 2000
STEP_BYTES = 16
"""Size of ``struct step``, which ends the control block."""


@dataclass(frozen=True)
class CpuStep:
    """One run's chunk: where it goes on, and the rows whose output is wanted."""

    tokens: Sequence[int]
    position: int
    out_rows: Sequence[int]
    state: int
    """Address of the session's state."""

    def words(self, n_batch: int) -> NDArray[np.uint32]:
        """``struct step``, token ids and wanted rows, which lie behind one another."""
        at = (STEP_BYTES + ids_bytes(n_batch)) // 4
        words = np.zeros(at + len(self.out_rows), np.uint32)
        words[:4] = len(self.tokens), self.position, len(self.out_rows), self.state // PLACE_BYTES
        words[4 : 4 + len(self.tokens)] = self.tokens
        words[at:] = self.out_rows
        return words


class CpuState:
    """One session's place in the kernels' memory; free for another one when it goes."""

    def __init__(self, address: int, free: list[int], graph: Graph) -> None:
        self.address, self.held = address, Held(graph)
        self._free = free

    def __del__(self) -> None:
        self._free.append(self.address)


class SimdExecutor:
    """An ``Executor`` over any ``KernelHost``."""

    max_ahead = 1  # a step costs one call into the kernels: running ahead would gain nothing

    def __init__(self, host: KernelHost) -> None:
        self.host = host
        self.stats = RunStats()
        self.plan: CpuPlan | None = None
        self.variant = "int8"
        self.own_notes: tuple[str, ...] = ()  # why this executor was chosen
        self.info = host.info
        self._free: list[int] = []
        self._profile: CpuProfile | None = None
        self._turn = Turn(self.stats)  # sessions of one model share scratch and input

    def _look(self) -> None:
        """Say what runs now, and what the host has noted."""
        notes = (*self.own_notes, *self.host.info.notes, *self.host.notes)
        self.info = replace(self.host.info, notes=notes, kernels=self._kernels())

    def _kernels(self) -> str:
        words = f"{self.variant}, {self.host.n_threads} thread"
        words += "s" if self.host.n_threads != 1 else ""
        ops = self.plan.numpy_ops if self.plan else ()
        return words + (f"; in numpy: {', '.join(ops)}" if ops else "")

    async def load(
        self,
        graph: Graph,
        file: GgufFile,
        sources: Sequence[AsyncSource],
        options: LoadOptions,
        progress: ProgressFn,
    ) -> None:
        """Plan, make the memory, and stream the weights into it."""
        progress(Progress("plan", "Planning the model"))
        if not isinstance(options.variant, str):
            raise InvalidInputError(f"The cpu backend has one variant, not {options.variant!r}.")
        check_choice("variant", options.variant, VARIANTS)
        self._graph = graph
        self.variant = "exact" if options.variant == "exact" else "int8"
        table = kernel_table()
        self.plan = plan = plan_cpu(
            graph,
            file,
            table,
            n_ctx=options.n_ctx,
            n_batch=options.n_batch,
            kv_dtype=options.kv_dtype,
            is_exact=self.variant == "exact",
            read_tensor=(await read_small_tensors(graph, file, sources)).__getitem__,
        )
        self._table, self._n_ctx = table, options.n_ctx
        self._layout = layout = memory_layout(plan, table, self.host.n_threads)
        self._input_at = layout.slots[INPUT] - STEP_BYTES
        self._ranges_found: dict[Any, list[tuple[int, int]]] = {}
        self._memory = NumpyMemory(self.host, plan, layout, file, options)
        self.stats.memory_bytes = plan.bytes_by_kind()
        if options.before_memory is not None:
            await options.before_memory(self.stats.memory_bytes)
        require_room(plan, layout, self.host.max_bytes)
        await self.host.create(layout.n_bytes, plan.state_places[1])
        self._write_fixed(plan, table, layout)
        await self.host.upload(uploads(plan, layout), sources, progress)
        await self.host.start(layout, len(plan.calls))
        self._look()
        progress(Progress("ready", "Ready", 1, 1))

    def _write_fixed(self, plan: CpuPlan, table: KernelTable, layout: MemoryLayout) -> None:
        """What no step changes: control block, program, constants."""
        words = np.zeros(len(table.control), np.uint32)
        for name, value in {
            "program": layout.program // PLACE_BYTES,
            "sync": layout.sync // PLACE_BYTES,
            "scratch": layout.scratch // PLACE_BYTES,
            "n_threads": self.host.n_threads,
            "stall_ms": STALL_MS,
            "spins": SPINS,
        }.items():
            words[table.control.index(name)] = value
        self.host.write(layout.control, words)
        self.host.write(layout.program, pack_program(plan, table, layout))
        for name, data in plan.constants.items():
            self.host.write(layout.slots[name], data)

    def new_state(self) -> CpuState:
        """Memory for one session's KV cache."""
        assert self.plan is not None, "new_state before load"
        if self._free:
            return CpuState(self._free.pop(), self._free, self._graph)
        return CpuState(self.host.grow(self.plan.state_places[1]), self._free, self._graph)

    # ----- running

    async def forward(
        self,
        state: CpuState,
        tokens: Sequence[int],
        position: int,
        out_rows: Sequence[int],
        want: Want,
    ) -> NDArray[np.float32] | NDArray[np.int32] | None:
        """Run one chunk; see ``Executor.forward``."""
        plan = self._fitting(len(tokens), position)
        async with self._turn:
            state.held.ran(position, len(tokens))
            if want == "none" or not out_rows:
                step = CpuStep(tokens, position, (), state.address)
                await self._run(plan, step, 0, plan.head_start or plan.body_stop)
                return None
            parts = []
            n_cols = plan.output_cols.get(want, 1)
            for first in range(0, len(out_rows), plan.n_out_max):
                rows = out_rows[first : first + plan.n_out_max]
                step = CpuStep(tokens, position, rows, state.address)
                start = 0 if first == 0 else plan.head_start  # the layers have run
                await self._run(plan, step, start, plan.body_stop, plan.tails.get(want))
                data = self._read(plan.outputs[want], len(rows) * n_cols * 4)
                parts.append(shaped(data, want, len(rows)).copy())
            return parts[0] if len(parts) == 1 else np.concatenate(parts)

    async def candidates(
        self, state: CpuState, tokens: Sequence[int], position: int, inputs: SampleInputs
    ) -> Candidates:
        """Run one chunk and prepare a draw; see ``Executor.candidates``."""
        plan = self._fitting(len(tokens), position)
        async with self._turn:
            state.held.ran(position, len(tokens))
            step = CpuStep(tokens, position, [len(tokens) - 1], state.address)
            self.host.write(self._layout.slots["sample"], inputs.words)
            if inputs.mask is not None:
                self.host.write(self._layout.slots["mask"], inputs.mask)
            await self._run(plan, step, 0, plan.body_stop, plan.tails["candidates"])
            n = self._table.constants["N_CANDIDATES"]
            words = self._read(plan.outputs["candidates"], 16 + 8 * n).view(np.uint32)
            found = read_candidates(words, plan.n_vocab, n)
            if is_decided(found, inputs.cuts):
                return found
            self.stats.full_reads += 1
            return Candidates(
                self._read(plan.outputs["adjusted"], plan.n_vocab * 4).view(np.float32).copy()
            )

    async def run_ahead(
        self, state: CpuState, token: int, position: int, n_steps: int
    ) -> list[int]:
        """Greedy steps, one after the other; see ``Executor.run_ahead``."""
        plan = self._fitting(1, position + n_steps - 1)
        best = self._layout.slots[plan.outputs["argmax"].slot] + plan.outputs["argmax"].offset
        made: list[int] = []
        async with self._turn:
            for at in range(position, position + n_steps):
                state.held.ran(at, 1)
                step = CpuStep((token,), at, (0,), state.address)
                await self._run(plan, step, 0, plan.body_stop, plan.tails["argmax"])
                self.stats.bytes_read += 4
                token = self.host.read_int(best)
                made.append(token)
        return made

    def _fitting(self, n_tokens: int, position: int) -> CpuPlan:
        """The plan, if the chunk fits."""
        assert self.plan is not None, "run before load"
        if position + n_tokens > self._n_ctx:
            raise ContextFullError(
                f"{position + n_tokens} tokens do not fit the context of {self._n_ctx}.",
                hint="Load the model with a larger context.",
            )
        if n_tokens > self.plan.n_batch:
            raise InvalidInputError(
                f"A chunk of {n_tokens} tokens is larger than the plan's {self.plan.n_batch}.",
                hint="Split the prompt into smaller chunks.",
            )
        return self.plan

    def _read(self, binding: Binding, n_bytes: int) -> NDArray[np.uint8]:
        self.stats.bytes_read += n_bytes
        return self.host.read(self._layout.slots[binding.slot] + binding.offset, n_bytes)

    async def _run(
        self,
        plan: CpuPlan,
        step: CpuStep,
        start: int,
        stop: int,
        tail: tuple[int, int] | None = None,
    ) -> None:
        """Write the step and run ``start..stop``, then ``tail``; numpy runs what has no kernel."""
        n_notes = len(self.host.notes)
        self.host.write(self._input_at, step.words(plan.n_batch))
        for first, last in self._ranges(plan, start, stop, tail):
            if self._profile is not None:
                await self._run_timed(plan, step, first, last, self._profile)
            else:
                await self._run_range(plan, step, first, last)
        self.stats.device_ms = self.stats.wait_ms = self.host.kernel_ms
        if len(self.host.notes) != n_notes:
            self._look()

    def _ranges(
        self, plan: CpuPlan, start: int, stop: int, tail: tuple[int, int] | None
    ) -> Sequence[tuple[int, int]]:
        """What the host runs at once, found once for each range and tail."""
        key = (start, stop, tail)
        found = self._ranges_found.get(key)
        if found is None:
            if tail is not None and tail[0] == stop:
                stop, tail = tail[1], None
            found = [*plan.ranges(start, stop), *(plan.ranges(*tail) if tail else ())]
            self._ranges_found[key] = found
        return found

    async def _run_range(self, plan: CpuPlan, step: CpuStep, first: int, last: int) -> None:
        call = plan.calls[first]
        if call.node:
            run_numpy_call(call, call.node, self._memory, step)
            return
        await self.host.run(first, last, len(step.tokens))
        self.stats.submits += 1
        self.stats.dispatches += last - first

    async def _run_timed(
        self, plan: CpuPlan, step: CpuStep, first: int, last: int, profile: CpuProfile
    ) -> None:
        for i in range(first, last):
            started = perf_counter()
            await self._run_range(plan, step, i, i + 1)
            ms = (perf_counter() - started) * 1e3
            profile.add(i, ms, len(step.tokens), step.position, len(step.out_rows))

    def start_profile(self) -> CpuProfile:
        """Time every call on its own from now on, until ``stop_profile``."""
        assert self.plan is not None, "profile before load"
        self._profile = CpuProfile(self.plan, self._n_ctx)
        return self._profile

    def stop_profile(self) -> None:
        """Run as usual again."""
        self._profile = None

    def rewind(self, state: CpuState, position: int) -> int:
        """KV entries past ``position`` are overwritten before they are read; a convolution's
        rows are kept for some positions."""
        return state.held.rewind(position)

    def cancel(self) -> None:
        """Stop the chunk in flight before its next range; ``forward`` raises
        ``RunCancelledError``."""
        self.host.cancel()

    def close(self) -> None:
        """Give back everything."""
        self.host.close()


def read_candidates(words: NDArray[np.uint32], n_vocab: int, k: int) -> Candidates:
    """What the kernel ``top_k`` wrote (``struct candidates``)."""
    count, total = int(words[0]), float(words[1:2].view(np.float32)[0])
    pairs = words[4:].reshape(-1, 2)[:count].copy()
    ids, logits = pairs[:, 0].astype(np.int64), np.ascontiguousarray(pairs[:, 1]).view(np.float32)
    return Candidates(logits, ids, total, is_all=count < k or n_vocab <= k)


def require_room(plan: CpuPlan, layout: MemoryLayout, max_bytes: int) -> None:
    """Raise unless everything and one session's state fit into the largest memory."""
    needed = layout.n_bytes + plan.state_places[1]
    if needed > max_bytes:
        raise OutOfDeviceMemoryError(
            f"The model needs {needed / 1e9:.2f} GB with its context; the memory of the CPU kernels"
            f" ends at {max_bytes / 1e9:.2f} GB.",
            hint="Use a smaller context, a smaller model, or a GPU.",
        )
