"""WebGPU through wgpu-py: the same plans and shaders as in the browser, on a desktop GPU."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import OutOfDeviceMemoryError, ShaderCompileError
from ..gguf.source import AsyncSource
from ..plan.plan import Binding, BufferSlot, Plan, WeightUpload
from .base import DeviceInfo, Progress, ProgressFn, RunStats
from .file_store import FileStore
from .native_timer import NativeTimer
from .profile import Profile
from .webgpu_common import (
    STAGING_BYTES,
    Compile,
    Pacer,
    RunCancelledError,
    WebGpuExecutor,
    gather_plane,
    padded,
    upload_pieces,
)
from .webgpu_program import Kernel, Program
from .webgpu_step import Step, binding_bytes
from .wgpu_adapter import IMPLIED_FEATURES, OpenDevice, device_errors, open_device

FENCE_BYTES = 4
_DRIVER_LINE = re.compile(r"wgsl:(\d+):(\d+)")


@dataclass
class _ReadyPlan:
    """A plan with its pipelines and its own params; bind groups come per state."""

    plan: Plan
    params: Any
    pipelines: list[Any]
    grids: list[tuple[int, int, int]]
    pacer: Pacer
    groups: dict[int, list[Any]] = field(default_factory=dict)


class NativeDevice:
    """A wgpu-py device that replays plans. ``floor`` asks for no more than every device grants."""

    def __init__(
        self,
        *,
        allow_software: bool = True,
        floor: bool = False,
        shared: OpenDevice | None = None,
    ) -> None:
        opened = shared or open_device(allow_software=allow_software, floor=floor)
        self._opened: OpenDevice | None = opened
        self._is_shared = shared is not None
        self._wgpu, self._device = opened.wgpu, opened.device
        self.limits: Mapping[str, int] = opened.limits
        self.features, self.implied_features = opened.features, IMPLIED_FEATURES
        self.min_subgroup = opened.min_subgroup
        self.identity, self.is_software = opened.identity, opened.is_software
        self.store = FileStore()
        self.info = DeviceInfo("webgpu", opened.name, opened.notes)
        self.stats = RunStats()
        self._buffers: dict[str, Any] = {}
        self._plans: list[_ReadyPlan] = []
        self._states: dict[int, dict[str, Any]] = {}
        self._state_slots: list[BufferSlot] = []
        self._next_state = 0
        self._readback: Any = None
        self._cancelled = False
        self._timer: NativeTimer | None = None

    # ----- Building

    async def create(self, program: Program, progress: ProgressFn) -> None:
        """Make buffers and pipelines; upload constants and params."""
        usage = self._wgpu.BufferUsage
        shared = usage.STORAGE | usage.UNIFORM | usage.COPY_DST | usage.COPY_SRC
        model_plan = program.model_plan
        for slot in model_plan.slots.values():
            if slot.kind == "state":
                self._state_slots.append(slot)
            elif slot.kind != "params":
                self._buffers[slot.name] = self._buffer(slot.name, slot.n_bytes, shared)
        for name, data in model_plan.constants.items():
            self._write(self._buffers[name], 0, np.frombuffer(data, np.uint8))
        pipelines = []
        for i, kernel in enumerate(program.kernels):
            progress(Progress("compile", "Compiling the kernels", i, len(program.kernels)))
            pipelines.append(self._pipeline(kernel))
            await asyncio.sleep(0)
        index = program.kernel_index()
        for plan in program.plans:
            params = None
            if plan.params:
                params = self._buffer(f"{plan.name} params", len(plan.params), shared)
                self._write(params, 0, np.frombuffer(plan.params, np.uint8))
            kernels = [pipelines[index[d.kernel]] for d in plan.dispatches]
            grids = [d.grid for d in plan.dispatches]
            self._plans.append(_ReadyPlan(plan, params, kernels, grids, Pacer(len(grids))))
        largest = max(binding_bytes(p, b) for p in program.plans for b in p.outputs.values())
        self._readback_bytes = largest + FENCE_BYTES
        self._readback = self._new_readback()
        self._fence = self._buffer("fence", FENCE_BYTES, shared)

    def _buffer(self, label: str, n_bytes: int, usage: int) -> Any:
        size = max(4, n_bytes + -n_bytes % 4)
        if size > self.limits["max-buffer-size"]:
            raise OutOfDeviceMemoryError(
                f"{label} needs a buffer of {size} bytes; this device allows "
                f"{self.limits['max-buffer-size']}.",
                hint="Use a smaller context or a smaller model.",
            )
        with device_errors():
            return self._device.create_buffer(label=label, size=size, usage=usage)

    def _write(self, buffer: Any, offset: int, data: NDArray[np.uint8]) -> None:
        with device_errors():
            self._device.queue.write_buffer(buffer, offset, padded(data))

    def _pipeline(self, kernel: Kernel) -> Any:
        assert self._opened is not None
        key = (kernel.code, tuple(sorted(kernel.constants.items())))
        if key not in self._opened.pipelines:
            self._opened.pipelines[key] = self._compiled(kernel)
        return self._opened.pipelines[key]

    def _compiled(self, kernel: Kernel) -> Any:
        try:
            module = self._device.create_shader_module(label=kernel.key.file, code=kernel.code)
            return self._device.create_compute_pipeline(
                label=kernel.key.file,
                layout="auto",
                compute={
                    "module": module,
                    "entry_point": "main",
                    "constants": dict(kernel.constants),
                },
            )
        except self._wgpu.GPUError as error:
            text = str(error)
            line = _DRIVER_LINE.search(text)
            where = kernel.locate(int(line[1])) if line else f"{kernel.key.file}.wgsl"
            raise ShaderCompileError(
                f"{where}: the driver rejected the kernel: {text.strip()}",
                hint="Report this with the adapter's name.",
            ) from error

    # ----- Weights

    async def upload(
        self,
        uploads: Sequence[WeightUpload],
        sources: Sequence[AsyncSource],
        progress: ProgressFn,
    ) -> None:
        """Stream every weight from its source into its slot, in the file's order."""
        total, done = sum(u.source_bytes for u in uploads), 0
        self._cancelled = False
        for upload in sorted(uploads, key=lambda u: (u.part, u.source_offset)):
            buffer, size = self._buffers[upload.slot], upload.type_size
            if upload.table:
                self._write(buffer, upload.table_at, np.frombuffer(upload.table, np.uint8))
            for first, n_blocks in upload_pieces(upload, STAGING_BYTES):
                self._stop_if_cancelled()
                raw = await sources[upload.part].read(
                    upload.source_offset + first * size, n_blocks * size
                )
                for offset, n, dest in upload.planes:
                    self._write(buffer, dest + first * n, gather_plane(raw, size, offset, n))
                self._device.queue.submit([])  # hands the staging memory back
                done += n_blocks * size
                progress(Progress("weights", "Reading the weights", done, total))
                await asyncio.sleep(0)

    # ----- Running

    def new_state(self) -> int:
        """Allocate the state slots of one session."""
        usage = self._wgpu.BufferUsage.STORAGE | self._wgpu.BufferUsage.COPY_SRC
        usage |= self._wgpu.BufferUsage.COPY_DST
        self._next_state += 1
        self._states[self._next_state] = {
            slot.name: self._buffer(slot.name, slot.n_bytes, usage) for slot in self._state_slots
        }
        return self._next_state

    def free_state(self, state: int) -> None:
        """Give a session's state slots and bind groups back."""
        for ready in self._plans:
            ready.groups.pop(state, None)
        for buffer in self._states.pop(state, {}).values():
            buffer.destroy()

    async def run(self, state: int, step: Step) -> NDArray[np.uint8] | None:
        """Write the input, replay the dispatches, read the output's first bytes back."""
        ready = self._plans[step.plan]
        groups = self._bind_groups(ready, state)
        self._cancelled = False
        bounded = ready.plan.n_tokens_max > 1
        if self._timer:
            self._timer.step = step
        began_run = perf_counter()
        with device_errors():
            self._device.queue.write_buffer(self._buffers["input"], 0, step.input_words)
            for slot, words in step.writes:
                self._device.queue.write_buffer(self._buffers[slot], 0, words)
            at = step.start
            while True:
                stop = ready.pacer.end_of_submit(at, step.stop) if bounded else step.stop
                began = perf_counter()
                is_last = stop >= step.stop
                output = ready.plan.outputs[step.output] if step.output and is_last else None
                result = self._submit(ready, groups, step.order(at, stop), output, step.read_bytes)
                if stop > at:
                    ready.pacer.measured(at, stop, (perf_counter() - began) * 1e3)
                if is_last:
                    self.stats.device_ms += (perf_counter() - began_run) * 1e3
                    return result
                at = stop
                await asyncio.sleep(0)
                self._stop_if_cancelled()

    def _submit(
        self,
        ready: _ReadyPlan,
        groups: list[Any],
        order: Sequence[int],
        output: Binding | None,
        read_bytes: int,
    ) -> NDArray[np.uint8] | None:
        """One encoder, one submit, one wait. Without an output the wait is for a 4-byte fence:
        wgpu-py 0.32 cannot await submitted work."""
        encoder = self._device.create_command_encoder()
        if self._timer:
            self._timer.encode(encoder, ready.pipelines, groups, ready.grids, order)
        else:
            _encode(encoder.begin_compute_pass(), ready, groups, order)
        n_bytes = FENCE_BYTES if output is None else read_bytes
        source, offset = self._fence, 0
        if output is not None:
            source, offset = self._buffers[output.slot], output.offset
        encoder.copy_buffer_to_buffer(source, offset, self._readback, 0, n_bytes)
        self._device.queue.submit([encoder.finish()])
        self.stats.submits += 1
        self.stats.dispatches += len(order)
        data = self._read_back(n_bytes)
        if self._timer:
            self._timer.collect(order)
        if output is None:
            return None
        self.stats.bytes_read += n_bytes
        return data

    def _read_back(self, n_bytes: int) -> NDArray[np.uint8]:
        """The readback buffer's first bytes, once the device has written them.

        wgpu ends the process when a buffer is submitted while it is mapped or about to be, so one
        that an interruption (Ctrl-C) left in either state is replaced.
        """
        began = perf_counter()
        try:
            self._readback.map_sync(self._wgpu.MapMode.READ, 0, n_bytes)
            data = np.frombuffer(self._readback.read_mapped(0, n_bytes), np.uint8)
            self._readback.unmap()
            self.stats.wait_ms += (perf_counter() - began) * 1e3
            return data
        except BaseException:
            self._readback.destroy()
            self._readback = self._new_readback()
            raise

    def _new_readback(self) -> Any:
        usage = self._wgpu.BufferUsage
        return self._buffer("readback", self._readback_bytes, usage.MAP_READ | usage.COPY_DST)

    def _bind_groups(self, ready: _ReadyPlan, state: int) -> list[Any]:
        """A plan's bind groups for a state: made at its first step, then kept."""
        if state in ready.groups:
            return ready.groups[state]
        sizes = {slot.name: slot.n_bytes for slot in ready.plan.slots}
        kinds = {slot.name: slot.kind for slot in ready.plan.slots}

        def resource(binding: Binding) -> dict[str, Any]:
            if kinds[binding.slot] == "params":
                buffer = ready.params
            elif kinds[binding.slot] == "state":
                buffer = self._states[state][binding.slot]
            else:
                buffer = self._buffers[binding.slot]
            size = binding.n_bytes or sizes[binding.slot] - binding.offset
            return {"buffer": buffer, "offset": binding.offset, "size": size}

        groups = []
        with device_errors():
            for dispatch, pipeline in zip(ready.plan.dispatches, ready.pipelines, strict=True):
                entries = [
                    {"binding": i, "resource": resource(b)} for i, b in enumerate(dispatch.bindings)
                ]
                groups.append(
                    self._device.create_bind_group(
                        label=dispatch.label,
                        layout=pipeline.get_bind_group_layout(0),
                        entries=entries,
                    )
                )
        ready.groups[state] = groups
        return groups

    def _stop_if_cancelled(self) -> None:
        if self._cancelled:
            raise RunCancelledError("Stopped.")

    def cancel(self) -> None:
        """Make the running step stop at its next submit."""
        self._cancelled = True

    def profile(self, profile: Profile | None) -> None:
        """Time each dispatch into ``profile`` from now on; None ends that."""
        if self._timer:
            self._timer.close()
        self._timer = NativeTimer(self._wgpu, self._device, profile) if profile else None

    def fork(self) -> NativeDevice:
        """The same GPU device for another program; closing it leaves this one open."""
        return NativeDevice(shared=self._opened)

    def close(self) -> None:
        """Destroy every buffer, and the device with its thread; a second call does nothing."""
        for state in list(self._states):
            self.free_state(state)
        self.profile(None)
        own = [r.params for r in self._plans if r.params is not None]
        own += [b for b in (self._readback, getattr(self, "_fence", None)) if b is not None]
        for buffer in [*self._buffers.values(), *own]:
            buffer.destroy()
        self._buffers, self._plans, self._readback, self._fence = {}, [], None, None
        if self._device is not None and not self._is_shared:
            self._device.destroy()
        self._device = self._opened = None  # destroyed, it still holds the driver's memory


def _encode(compute: Any, ready: _ReadyPlan, groups: list[Any], order: Sequence[int]) -> None:
    """The dispatches of ``order`` as one compute pass."""
    last = None
    for i in order:
        if ready.pipelines[i] is not last:
            last = ready.pipelines[i]
            compute.set_pipeline(last)
        compute.set_bind_group(0, groups[i])
        compute.dispatch_workgroups(*ready.grids[i])
    compute.end()


class NativeExecutor(WebGpuExecutor):
    """The WebGPU executor on this machine's adapter.

    ``allow_software=False`` refuses an adapter that computes on the CPU: numpy is faster.
    """

    def __init__(
        self,
        *,
        allow_software: bool = True,
        floor: bool = False,
        compile_program: Compile | None = None,
    ) -> None:
        device = NativeDevice(allow_software=allow_software, floor=floor)
        super().__init__(device, compile_program)
