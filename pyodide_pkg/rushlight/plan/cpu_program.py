"""A CPU plan is data: one list of kernel calls over named slots, for prompts and single tokens.

``memory_layout`` gives every slot its address in the kernels' memory, and ``pack_program`` writes
the calls as the kernels read them. Nothing here refers to a live object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ..graph.ir import Node, Shape
from ..kernels import CALL_BYTES, PLACE_BYTES, SYNC_BYTES, KernelTable
from .plan import Binding, BufferSlot

BASE = 1 << 20
"""Where the planned memory begins; the kernels' own data and first stack lie below."""
ALIGN = 64
STATE_START = ALIGN
"""Places in a state are relative to it, and place 0 means "absent"."""
INPUT = "input"
"""The slot of the control block's end: token ids, then wanted rows."""


@dataclass(frozen=True)
class Call:
    """One kernel call. ``node`` is set where numpy runs an op that has no kernel instead: then
    ``args`` are its ports ("=y" an output; a cache's are "cache.k" and "cache.v")."""

    kernel: str
    args: Mapping[str, int | float | Binding] = field(default_factory=dict)
    has_barrier: bool = False
    label: str = ""
    node: Node | None = None
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    """Of such a node's values, by name."""


class KernelUpload(NamedTuple):
    """Bytes of a source that go to an address of the kernels' memory as they are."""

    address: int
    part: int
    offset: int
    n_bytes: int


@dataclass(frozen=True)
class WeightSlot:
    """Where a tensor's bytes come from; they lie in its slot as in the file."""

    slot: str
    part: int
    offset: int
    n_bytes: int


@dataclass(frozen=True)
class CpuPlan:
    """Calls for any chunk of at most ``n_batch`` tokens, with the slots they touch.

    The ranges are those of ``plan.Plan``: a chunk with no wanted row stops at ``head_start``;
    past ``body_stop`` are the ``tails``.
    """

    n_batch: int
    n_out_max: int
    output_cols: Mapping[str, int]
    """Length of a row of each of the graph's outputs."""
    slots: Mapping[str, BufferSlot]
    calls: tuple[Call, ...]
    weights: tuple[WeightSlot, ...]
    constants: Mapping[str, bytes]
    outputs: Mapping[str, Binding]
    head_start: int
    body_stop: int
    tails: Mapping[str, tuple[int, int]]

    @property
    def n_vocab(self) -> int:
        """Length of a row of logits."""
        return self.output_cols["logits"]

    def bytes_by_kind(self) -> dict[str, int]:
        """Memory by purpose, one session's state included."""
        totals: dict[str, int] = {}
        for slot in self.slots.values():
            totals[slot.kind] = totals.get(slot.kind, 0) + slot.n_bytes
        return totals

    @cached_property
    def state_places(self) -> tuple[Mapping[str, int], int]:
        """Byte offset of each state slot in a session's state, and the bytes of one state."""
        return _laid_out(
            {s.name: s.n_bytes for s in self.slots.values() if s.kind == "state"}, STATE_START
        )

    @cached_property
    def numpy_ops(self) -> tuple[str, ...]:
        """Ops that run without a kernel, once each."""
        return tuple(dict.fromkeys(call.node.op for call in self.calls if call.node))

    def ranges(self, start: int, stop: int) -> list[tuple[int, int]]:
        """``start..stop`` cut at the calls that numpy runs; those are ranges of their own."""
        found: list[tuple[int, int]] = []
        for i in (*(i for i in range(start, stop) if self.calls[i].node), stop):
            if start < i:
                found.append((start, i))
            if i < stop:
                found.append((i, i + 1))
            start = i + 1
        return found


@dataclass(frozen=True)
class MemoryLayout:
    """Addresses of everything but states; ``n_bytes`` is what the memory must hold at first."""

    control: int
    stacks: tuple[int, ...]
    """Where the stack of each further thread starts; stacks grow down."""
    scratch: int
    sync: int
    program: int
    slots: Mapping[str, int]
    n_bytes: int


def memory_layout(plan: CpuPlan, table: KernelTable, n_threads: int) -> MemoryLayout:
    """Lay the memory out: control block and input, threads' own parts, program, slots."""
    constants = table.constants
    input_bytes = table.control_bytes + plan.slots[INPUT].n_bytes
    own = {
        "control": input_bytes,
        "stacks": (n_threads - 1) * constants["STACK_BYTES"],
        "scratch": n_threads * constants["SCRATCH_BYTES"],
        "sync": len(plan.calls) * SYNC_BYTES,
        "program": len(plan.calls) * CALL_BYTES,
    }
    places, stop = _laid_out(own, BASE)
    kept = {
        slot.name: slot.n_bytes
        for slot in plan.slots.values()
        if slot.kind != "state" and slot.name != INPUT
    }
    slots, stop = _laid_out(kept, stop)
    stacks = tuple(
        places["stacks"] + (i + 1) * constants["STACK_BYTES"] for i in range(n_threads - 1)
    )
    return MemoryLayout(
        control=places["control"],
        stacks=stacks,
        scratch=places["scratch"],
        sync=places["sync"],
        program=places["program"],
        slots={INPUT: places["control"] + table.control_bytes, **slots},
        n_bytes=stop,
    )


def _laid_out(sizes: Mapping[str, int], start: int) -> tuple[dict[str, int], int]:
    places = {}
    for name, n_bytes in sizes.items():
        places[name] = start
        start += -(-n_bytes // ALIGN) * ALIGN
    return places, start


def pack_program(plan: CpuPlan, table: KernelTable, layout: MemoryLayout) -> bytes:
    """The calls as the kernels read them; one that numpy runs leaves a gap."""
    state_places, _ = plan.state_places
    barrier = table.constants["BARRIER"]

    def place(binding: Binding) -> int:
        at = state_places.get(binding.slot)
        at = layout.slots[binding.slot] if at is None else at
        address = at + binding.offset
        assert address % PLACE_BYTES == 0, binding
        return address // PLACE_BYTES

    packed = []
    for call in plan.calls:
        args = {k: place(v) if isinstance(v, Binding) else v for k, v in call.args.items()}
        flags = barrier if call.has_barrier else 0
        packed.append(bytes(CALL_BYTES) if call.node else table.pack_call(call.kernel, flags, args))
    return b"".join(packed)


def uploads(plan: CpuPlan, layout: MemoryLayout) -> list[KernelUpload]:
    """Weights in the file's order."""
    found = [KernelUpload(layout.slots[w.slot], w.part, w.offset, w.n_bytes) for w in plan.weights]
    return sorted(found, key=lambda u: (u.part, u.offset))
