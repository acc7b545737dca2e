"""Replays a plan on this machine's adapter and counts which groups of weights its kernels load.

Each ``*_load16`` of a kernel is given a counter beside its weight, so what is counted is what the
kernel did, not what its plan says. Weights must be stored in one plane (F32, Q4_K).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.backends.wgpu_adapter import open_device
from rushlight.plan.plan import Dispatch, ModelPlan, Plan
from rushlight.shaders import link

LOAD = re.compile(r"fn (\w+)_load16\(i: u32\) -> mat4x4<f32> \{")
BINDING = re.compile(r"@binding\((\d+)\) var<(uniform|storage, read_write|storage, read)>")
DATA = re.compile(r"@binding\((\d+)\) var<storage, read> (\w+)_data")
TYPES = {
    "uniform": "uniform", "storage, read": "read-only-storage", "storage, read_write": "storage",
}  # fmt: skip
FIRST_COUNTER = 20


@dataclass
class CountedReplay:
    """One model's buffers; ``run`` replays a plan, ``loads`` is what its kernels read by slot."""

    model: ModelPlan
    data: bytes
    opened: Any = field(default_factory=lambda: open_device(allow_software=True, floor=False))

    def __post_init__(self) -> None:
        usage = self.opened.wgpu.BufferUsage
        storage = usage.STORAGE | usage.UNIFORM | usage.COPY_SRC | usage.COPY_DST
        self._device, self._storage = self.opened.device, storage
        self._buffers = {n: self._buffer(s.n_bytes) for n, s in self.model.slots.items()}
        write = self._device.queue.write_buffer
        for up in self.model.uploads:
            assert len(up.planes) == 1, up
            stop = up.source_offset + up.source_bytes
            write(self._buffers[up.slot], 0, self.data[up.source_offset : stop])
        for name, values in self.model.constants.items():
            if name in self._buffers:
                write(self._buffers[name], 0, values)
        self._counters: dict[str, Any] = {}

    def _buffer(self, n_bytes: int) -> Any:
        return self._device.create_buffer(size=-(-n_bytes // 16) * 16, usage=self._storage)

    def run(self, plan: Plan, tokens: Sequence[int], output: str) -> NDArray[np.uint8]:
        """Replay what ``output`` needs for tokens at position 0; every row is wanted."""
        self._counters = {}
        step = np.zeros(plan.input_layout.n_bytes // 4, np.uint32)
        step[:4] = (len(tokens), 0, len(tokens), len(tokens))
        for at, values in (
            (plan.input_layout.tokens // 4, tokens),
            (plan.input_layout.out_rows // 4, range(len(tokens))),
        ):
            step[at : at + len(tokens)] = values
        self._device.queue.write_buffer(self._buffers["input"], 0, step.tobytes())
        if plan.params:
            self._device.queue.write_buffer(self._buffers["params"], 0, plan.params)
        for index in plan.body:
            self._dispatch(plan.dispatches[index], plan.slot_bytes)
        binding = plan.outputs[output]
        raw = self._device.queue.read_buffer(self._buffers[binding.slot], binding.offset)
        return np.frombuffer(raw, np.uint8)

    def loads(self) -> Mapping[str, NDArray[np.uint32]]:
        """How often the last run loaded each group of 16 weights of each slot."""
        read = self._device.queue.read_buffer
        return {name: np.frombuffer(read(b), np.uint32) for name, b in self._counters.items()}

    def close(self) -> None:
        """Let the device go."""
        self._device.destroy()

    def _dispatch(self, dispatch: Dispatch, slot_bytes: Mapping[str, int]) -> None:
        shader = link(dispatch.kernel)
        slots = {prefix: dispatch.bindings[int(n)].slot for n, prefix in DATA.findall(shader.code)}
        code, counters = shader.code, {}
        for n, prefix in enumerate(dict.fromkeys(LOAD.findall(code)), FIRST_COUNTER):
            code = code.replace(
                f"fn {prefix}_load16(i: u32) -> mat4x4<f32> {{",
                f"@group(0) @binding({n}) var<storage, read_write> {prefix}_seen: "
                f"array<atomic<u32>>;\nfn {prefix}_load16(i: u32) -> mat4x4<f32> {{\n"
                f"atomicAdd(&{prefix}_seen[i], 1u);",
            )
            counters[n] = self._counter(slots[prefix], slot_bytes[slots[prefix]])
        layout = self._device.create_bind_group_layout(
            entries=[
                {"binding": int(n), "visibility": 4, "buffer": {"type": TYPES[mode]}}
                for n, mode in BINDING.findall(code)
            ]
        )
        pipeline = self._device.create_compute_pipeline(
            layout=self._device.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={
                "module": self._device.create_shader_module(code=code),
                "entry_point": "main",
                "constants": shader.constants,
            },
        )
        entries = [
            (i, self._buffers[b.slot], b.offset, b.n_bytes or slot_bytes[b.slot] - b.offset)
            for i, b in enumerate(dispatch.bindings)
        ]
        entries += [(n, counter, 0, counter.size) for n, counter in counters.items()]
        group = self._device.create_bind_group(
            layout=layout,
            entries=[
                {"binding": n, "resource": {"buffer": b, "offset": offset, "size": size}}
                for n, b, offset, size in entries
            ],
        )
        encoder = self._device.create_command_encoder()
        compute = encoder.begin_compute_pass()
        compute.set_pipeline(pipeline)
        compute.set_bind_group(0, group)
        compute.dispatch_workgroups(*dispatch.grid)
        compute.end()
        self._device.queue.submit([encoder.finish()])

    def _counter(self, slot: str, n_bytes: int) -> Any:
        if slot not in self._counters:
            # A group is at least four bytes in every storage type.
            self._counters[slot] = self._buffer(n_bytes)
        return self._counters[slot]
