"""What the native and the browser WebGPU executors share; each adds only a thin ``Device``.

Choosing the plan, packing a step's input, looping over groups of output rows, cutting uploads
into pieces and keeping submits short are decided here, once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..candidates import Candidates, SampleInputs, is_decided
from ..errors import ContextFullError, DeviceError
from ..gguf.reader import GgufFile
from ..gguf.source import AsyncSource
from ..graph.ir import Graph
from ..plan.lower_sampling import MAX_AHEAD
from ..plan.plan import WeightUpload
from .auto import is_in_event_loop
from .base import DeviceInfo, LoadOptions, Progress, ProgressFn, RunStats, Want, shaped
from .rewind import Held
from .webgpu_program import Program, compile_model
from .webgpu_step import (
    Step,
    TokenSteps,
    binding_bytes,
    choose_plan,
    output_rows,
    pack_input,
    read_candidates,
    sample_writes,
    step_for,
)

if TYPE_CHECKING:
    from .profile import Profile
    from .variants import Choice, Store

FLOOR_LIMITS: Mapping[str, int] = {
    "max-storage-buffer-binding-size": 128 << 20,
    "max-buffer-size": 256 << 20,
    "max-storage-buffers-per-shader-stage": 8,
    "max-uniform-buffer-binding-size": 64 << 10,
    "max-compute-workgroup-storage-size": 16 << 10,
    "max-compute-invocations-per-workgroup": 256,
    "max-compute-workgroup-size-x": 256,
    "max-compute-workgroup-size-y": 256,
    "max-compute-workgroup-size-z": 64,
    "max-compute-workgroups-per-dimension": 65535,
    "min-storage-buffer-offset-alignment": 256,
    "min-uniform-buffer-offset-alignment": 256,
}
"""The limits every WebGPU device grants; the ones this engine cares about."""

MIN_SUBGROUP = 4
"""Threads that every subgroup has, on any device that has subgroups."""
SUBMIT_TARGET_MS = 30.0
STAGING_BYTES = 32 << 20
BLOCKS_ALIGN = 64
"""Pieces hold a multiple of this many blocks, so every plane's piece starts 4-byte aligned."""


class RunCancelledError(DeviceError):
    """A chunk was stopped between two submits; the KV cache is as good as before the chunk."""

    code = "cancelled"


class Device(Protocol):
    """The seam: what differs between wgpu-py and the browser's WebGPU."""

    info: DeviceInfo
    limits: Mapping[str, int]
    features: frozenset[str]
    """WebGPU features that it has, and features of its WGSL."""
    implied_features: frozenset[str]
    """Of these, the ones that its compiler has no directive for."""
    min_subgroup: int
    """Threads that a subgroup has at least."""
    is_software: bool
    identity: str
    """Adapter, driver and API: what a test or measurement of this device holds for."""
    stats: RunStats

    @property
    def store(self) -> Store:
        """Where what is learnt about the adapter is kept."""

    async def create(self, program: Program, progress: ProgressFn) -> None:
        """Make buffers and pipelines; upload constants and params."""

    async def upload(
        self,
        uploads: Sequence[WeightUpload],
        sources: Sequence[AsyncSource],
        progress: ProgressFn,
    ) -> None:
        """Stream every weight from its source into its slot."""

    def new_state(self) -> int:
        """Allocate the state slots of one session."""

    def free_state(self, state: int) -> None:
        """Give a session's state slots back."""

    async def run(self, state: int, step: Step) -> NDArray[np.uint8] | None:
        """Write the input, replay the dispatches, read the output's first bytes back."""

    def cancel(self) -> None:
        """Make the running step stop at its next submit."""

    def profile(self, profile: Profile | None) -> None:
        """Time each dispatch into ``profile`` from now on; None ends that."""

    def fork(self) -> Device:
        """The same device for another program; closing it leaves this one open."""

    def close(self) -> None:
        """Destroy everything."""


class DeviceState:
    """One session's KV storage on the device; freed when the last reference goes."""

    def __init__(self, device: Device, graph: Graph) -> None:
        self._device: Device | None = None  # until there is something to free
        self.held = Held(graph)
        self.handle = device.new_state()
        self._device = device

    def __del__(self) -> None:
        if self._device is not None:
            self._device.free_state(self.handle)


class Turn:
    """Lets one step in at a time, from any thread and from any event loop, and counts its time.

    An ``asyncio.Lock`` belongs to one loop, and natively there may be none: then the wait is a
    short sleep, and inside a loop it hands control back to it.
    """

    def __init__(self, stats: RunStats) -> None:
        self._lock = threading.Lock()
        self._stats = stats
        self._began = 0.0

    async def __aenter__(self) -> None:
        while not self._lock.acquire(blocking=False):
            if not is_in_event_loop():
                sleep(0.0005)
            await asyncio.sleep(0)
        self._began = perf_counter()

    async def __aexit__(self, *failure: object) -> None:
        self._stats.host_ms += (perf_counter() - self._began) * 1e3
        self._lock.release()


class Pacer:
    """Cuts a plan's dispatches into submits of about ``SUBMIT_TARGET_MS``.

    Keeps a cost per dispatch, learnt from how long the submit that held it took. The first
    guess is an eighth of the target each, so an unknown device is met with short submits.
    """

    def __init__(self, n_dispatches: int) -> None:
        self.cost_ms = np.full(n_dispatches, SUBMIT_TARGET_MS / 8)

    def end_of_submit(self, start: int, stop: int) -> int:
        """Index just past the last dispatch of the submit that begins at ``start``."""
        total = np.cumsum(self.cost_ms[start:stop])
        return start + max(1, int(np.searchsorted(total, SUBMIT_TARGET_MS, side="right")))

    def measured(self, start: int, stop: int, elapsed_ms: float) -> None:
        """Note that the dispatches ``start..stop`` took ``elapsed_ms`` together."""
        self.cost_ms[start:stop] = max(elapsed_ms, 1e-3) / (stop - start)


def upload_pieces(
    upload: WeightUpload, piece_bytes: int = STAGING_BYTES
) -> Iterator[tuple[int, int]]:
    """(first block, number of blocks) of each piece of an upload, in order."""
    n_blocks = upload.source_bytes // upload.type_size
    assert n_blocks * upload.type_size == upload.source_bytes, upload
    step = max(1, piece_bytes // upload.type_size // BLOCKS_ALIGN) * BLOCKS_ALIGN
    for first in range(0, n_blocks, step):
        yield first, min(step, n_blocks - first)


def gather_plane(raw: bytes | memoryview, type_size: int, offset: int, n: int) -> NDArray[np.uint8]:
    """Bytes ``offset..offset+n`` of every block, contiguous, zero-padded to 4 bytes."""
    word = next(w for w in (8, 4, 2, 1) if type_size % w == offset % w == n % w == 0)
    blocks = np.frombuffer(raw, np.dtype(f"u{word}")).reshape(-1, type_size // word)
    plane = np.ascontiguousarray(blocks[:, offset // word : (offset + n) // word])
    return padded(plane.reshape(-1).view(np.uint8))


def padded(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """``data`` with zeros up to the next multiple of 4, the unit of buffer writes."""
    return data if data.size % 4 == 0 else np.pad(data, (0, -data.size % 4))


Compile = Callable[
    [Graph, GgufFile, Sequence[AsyncSource], Device, LoadOptions], Awaitable[Program]
]


class WebGpuExecutor:
    """An ``Executor`` over any ``Device``: plans, loads, and runs chunks of tokens."""

    max_ahead = MAX_AHEAD

    def __init__(self, device: Device, compile_program: Compile | None = None) -> None:
        self.device = device
        self.info = device.info
        self.stats = device.stats
        self.program: Program | None = None
        self.choice: Choice | None = None
        self._compile = compile_program or compile_model
        self._turn = Turn(self.stats)  # sessions of one model share scratch and input buffers

    async def load(
        self,
        graph: Graph,
        file: GgufFile,
        sources: Sequence[AsyncSource],
        options: LoadOptions,
        progress: ProgressFn,
    ) -> None:
        """Plan, create buffers and pipelines, then stream the weights."""
        progress(Progress("plan", "Planning the model"))
        self.info = self.device.info
        if options.self_test and self._compile is compile_model:
            options = await self._choose_kernels(graph, file, options, progress)
        program = await self._compile(graph, file, sources, self.device, options)
        self.program = program
        self._token_steps = TokenSteps(program.plans)
        self._written: SampleInputs | None = None  # what the kernels that draw would read now
        self._n_ctx, self._graph = options.n_ctx, graph
        self.stats.memory_bytes = program.model_plan.bytes_by_kind()
        if options.before_memory is not None:
            await options.before_memory(self.stats.memory_bytes)
        await self.device.create(program, progress)
        await self.device.upload(program.model_plan.uploads, sources, progress)
        progress(Progress("ready", "Ready", 1, 1))

    async def _choose_kernels(
        self, graph: Graph, file: GgufFile, options: LoadOptions, progress: ProgressFn
    ) -> LoadOptions:
        from .variants import choose_variants, offered

        choice = await choose_variants(self.device, graph, file, options, progress)
        notes = (*self.info.notes, *choice.notes)
        names = offered(self.device)
        self.choice = choice
        self.info = replace(self.info, notes=notes, kernels=choice.words(), kernel_names=names)
        return replace(options, variant=choice.phases)

    def new_state(self) -> DeviceState:
        """Device storage for one session's KV cache."""
        return DeviceState(self.device, self._graph)

    async def forward(
        self,
        state: DeviceState,
        tokens: Sequence[int],
        position: int,
        out_rows: Sequence[int],
        want: Want,
    ) -> NDArray[np.float32] | NDArray[np.int32] | None:
        """Run one chunk; see ``Executor.forward``."""
        program = self._fitting(position + len(tokens))
        async with self._turn:
            state.held.ran(position, len(tokens))
            return await self._run(program, state, tokens, position, out_rows, want)

    def _fitting(self, n_held: int) -> Program:
        """The program, if the tokens that a session then holds fit."""
        assert self.program is not None, "run before load"
        if n_held > self._n_ctx:
            raise ContextFullError(
                f"{n_held} tokens do not fit the context of {self._n_ctx}.",
                hint="Load the model with a larger context.",
            )
        return self.program

    async def _run(
        self,
        program: Program,
        state: DeviceState,
        tokens: Sequence[int],
        position: int,
        out_rows: Sequence[int],
        want: Want,
    ) -> NDArray[np.float32] | NDArray[np.int32] | None:
        index = choose_plan(program.plans, len(tokens))
        plan = program.plans[index]
        if want == "none" or not out_rows:
            words = pack_input(plan, tokens, position, ())
            await self.device.run(state.handle, Step(index, 0, plan.head_start, words, None, 0))
            return None
        n_group, row_bytes = output_rows(plan, want)
        parts: list[NDArray[Any]] = []
        for first in range(0, len(out_rows), n_group):
            rows = out_rows[first : first + n_group]
            words = pack_input(plan, tokens, position, rows)
            start = 0 if first == 0 else plan.head_start  # the layers have run: only the head again
            step = step_for(plan, index, words, want, len(rows) * row_bytes, start)
            data = await self.device.run(state.handle, step)
            assert data is not None
            parts.append(shaped(data, want, len(rows)))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    async def candidates(
        self, state: DeviceState, tokens: Sequence[int], position: int, inputs: SampleInputs
    ) -> Candidates:
        """Run one chunk and prepare a draw; see ``Executor.candidates``."""
        program = self._fitting(position + len(tokens))
        async with self._turn:
            state.held.ran(position, len(tokens))
            step = self._draw_step(program, tokens, position, inputs)
            self._written = None  # unless the step comes to its end
            data = await self.device.run(state.handle, step)
            self._written = inputs
            assert data is not None
            plan = program.plans[step.plan]
            all_bytes = binding_bytes(plan, plan.outputs["adjusted"])
            found = read_candidates(data.view(np.uint32), all_bytes // 4)
            if found is not None and is_decided(found, inputs.cuts):
                return found
            self.stats.full_reads += 1
            rest = Step(step.plan, step.stop, step.stop, step.input_words, "adjusted", all_bytes)
            data = await self.device.run(state.handle, rest)
            assert data is not None
            return Candidates(data.view(np.float32))

    async def run_ahead(
        self, state: DeviceState, token: int, position: int, n_steps: int
    ) -> list[int]:
        """Several greedy steps in one submit; see ``Executor.run_ahead``."""
        self._fitting(position + n_steps)
        async with self._turn:
            state.held.ran(position, n_steps)
            step = self._token_steps.greedy(token, position, n_steps)
            data = await self.device.run(state.handle, step)
            assert data is not None
            made: list[int] = data.view(np.int32).tolist()
            return made

    def _draw_step(
        self, program: Program, tokens: Sequence[int], position: int, inputs: SampleInputs
    ) -> Step:
        if len(tokens) == 1:
            step = self._token_steps.draw(tokens[0], position)
        else:
            index = choose_plan(program.plans, len(tokens))
            plan = program.plans[index]
            words = pack_input(plan, tokens, position, [len(tokens) - 1])
            n_bytes = binding_bytes(plan, plan.outputs["candidates"])
            step = step_for(plan, index, words, "candidates", n_bytes)
        return step if inputs is self._written else replace(step, writes=sample_writes(inputs))

    def rewind(self, state: DeviceState, position: int) -> int:
        """KV entries past ``position`` are overwritten before they are read; a convolution's
        rows are kept for some positions."""
        return state.held.rewind(position)

    def cancel(self) -> None:
        """Stop the chunk in flight at its next submit; ``forward`` raises ``RunCancelledError``."""
        self.device.cancel()

    def start_profile(self) -> Profile:
        """Time every dispatch from now on; it slows the device down."""
        from .profile import Profile

        assert self.program is not None, "profile before load"
        has_timestamps = "timestamp-query" in self.device.features
        profile = Profile(self.program, self._n_ctx, has_timestamps=has_timestamps)
        self.device.profile(profile)
        return profile

    def stop_profile(self) -> None:
        """Go back to full speed."""
        self.device.profile(None)

    def close(self) -> None:
        """Give back everything held on the device."""
        self.device.close()
