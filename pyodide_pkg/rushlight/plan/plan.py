"""A plan is data: a frozen list of dispatches over named buffer slots.

Python plans once per (model, phase, shape bucket). ``worker/gpu.js`` and
``backends/webgpu_native.py`` replay the same plan, so nothing here may refer to a live
device object. Everything is printable, comparable and serialisable to JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

SlotKind = Literal["weight", "constant", "state", "scratch", "input", "params"]
UNIFORM_ALIGN = 256
"""Offset alignment of uniform bindings at the WebGPU floor (minUniformBufferOffsetAlignment)."""


@dataclass(frozen=True)
class KernelKey:
    """Everything that decides a pipeline's code, and therefore its cache key.

    ``file`` names ``shaders/<file>.wgsl``. ``imports`` links other files in, each with the
    prefix that its globals take (``("W", "quants/q8_0")``); ``consts`` are WGSL declarations
    for the prelude (``("TILE_N", "4u")``); ``overrides`` are pipeline constants.
    """

    file: str
    imports: tuple[tuple[str, str], ...] = ()
    consts: tuple[tuple[str, str], ...] = ()
    overrides: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class BufferSlot:
    """A device buffer by name: weights, states and constants are shared by all plans of a model."""

    name: str
    n_bytes: int
    kind: SlotKind


@dataclass(frozen=True)
class Binding:
    """A byte range of a slot; ``n_bytes`` 0 means the whole slot."""

    slot: str
    offset: int = 0
    n_bytes: int = 0


@dataclass(frozen=True)
class Dispatch:
    """One kernel launch: bindings in the order of the shader's ``@binding`` numbers."""

    kernel: KernelKey
    bindings: tuple[Binding, ...]
    grid: tuple[int, int, int]
    label: str = ""


@dataclass(frozen=True)
class InputLayout:
    """Byte offsets inside the single ``input`` slot that a step writes in one call.

    ``step`` is a uniform ``struct Step { n_tokens, pos, n_out, count: u32 }``;
    ``tokens`` and ``out_rows`` are ``array<u32>`` of ``n_tokens_max`` entries each.
    """

    tokens: int
    out_rows: int
    n_bytes: int
    step: int = 0


@dataclass(frozen=True)
class Plan:
    """Dispatches for one phase, with the slots they touch and what can be read back."""

    name: str
    n_tokens_max: int
    slots: tuple[BufferSlot, ...]
    dispatches: tuple[Dispatch, ...]
    input_layout: InputLayout
    outputs: dict[str, Binding] = field(default_factory=dict)
    params: bytes = b""
    head_start: int = 0
    """Index of the first dispatch that only serves the outputs; a chunk with no wanted row
    stops there."""
    n_out_max: int = 1
    """Most output rows of one run of the head; more rows of a chunk run the head again."""
    body_stop: int = 0
    """Past the last dispatch that every output needs; 0: all are needed."""
    tails: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What else an output needs: a range of dispatches after the body."""

    @property
    def body(self) -> range:
        """The dispatches that every output needs, the head included."""
        return range(self.body_stop or len(self.dispatches))

    @cached_property
    def slot_bytes(self) -> dict[str, int]:
        """The size of every slot by name; looked up at each step."""
        return {slot.name: slot.n_bytes for slot in self.slots}

    def to_json(self) -> dict[str, Any]:
        """The plan as plain lists and numbers, kernels deduplicated, ready for ``JSON.parse``."""
        kernels: dict[KernelKey, int] = {}
        dispatches = [
            {
                "kernel": kernels.setdefault(d.kernel, len(kernels)),
                "bindings": [[b.slot, b.offset, b.n_bytes] for b in d.bindings],
                "grid": list(d.grid),
                "label": d.label,
            }
            for d in self.dispatches
        ]
        return {
            "name": self.name,
            "n_tokens_max": self.n_tokens_max,
            "slots": [[s.name, s.n_bytes, s.kind] for s in self.slots],
            "kernels": list(kernels),
            "dispatches": dispatches,
            "input_layout": {
                "step": self.input_layout.step,
                "tokens": self.input_layout.tokens,
                "out_rows": self.input_layout.out_rows,
                "n_bytes": self.input_layout.n_bytes,
            },
            "outputs": {k: [b.slot, b.offset, b.n_bytes] for k, b in self.outputs.items()},
            "head_start": self.head_start,
            "n_out_max": self.n_out_max,
            "body_stop": self.body_stop,
            "tails": self.tails,
        }


@dataclass(frozen=True)
class WeightUpload:
    """How rows ``row_start..row_stop`` of a tensor reach a weight slot.

    The source range is contiguous. Each plane gathers ``n_bytes`` at ``offset`` of every block
    (``type_size`` bytes) and lands, contiguous, at ``dest`` in the slot. One plane covering the
    block is a plain copy. ``table`` is not in the file: the type's codebook, at ``table_at``.
    """

    tensor: str
    slot: str
    part: int
    source_offset: int
    source_bytes: int
    type_size: int
    planes: tuple[tuple[int, int, int], ...]  # (offset in block, bytes per block, dest offset)
    table: bytes = b""
    table_at: int = 0


@dataclass(frozen=True)
class ModelPlan:
    """All plans of a loaded model and the weights and constants they share."""

    plans: dict[str, Plan]
    uploads: tuple[WeightUpload, ...]
    constants: dict[str, bytes]

    @property
    def slots(self) -> dict[str, BufferSlot]:
        """Every slot by name, at the largest size that any plan asks for."""
        merged: dict[str, BufferSlot] = {}
        for plan in self.plans.values():
            for slot in plan.slots:
                if slot.name not in merged or merged[slot.name].n_bytes < slot.n_bytes:
                    merged[slot.name] = slot
        return merged

    def bytes_by_kind(self) -> dict[str, int]:
        """Device memory by purpose, known before anything is allocated."""
        totals: dict[str, int] = {}
        for slot in self.slots.values():
            totals[slot.kind] = totals.get(slot.kind, 0) + slot.n_bytes
        return totals
