"""Collects a CPU plan's calls: what every lowering is written against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedModelError, UnsupportedTypeError
from ..gguf.reader import GgufFile, TensorInfo
from ..graph.ir import Attr, Graph, Node, Shape
from ..kernels import KernelTable
from ..ops import OPS
from ..ops.opdef import KvDtype
from ..ops.state import state_parts
from .cpu_program import INPUT, Call, CpuPlan, WeightSlot
from .memory import assign_scratch, lifetimes_of
from .plan import Binding, BufferSlot
from .weights import ReadTensor

VALUE = "%"
"""Marks a binding to a value that memory planning has not placed yet."""
FLOAT_TYPES = ("F32", "F16", "BF16")
"""Types whose products take activations as they are."""
WRITTEN = {"quantize": ("xq",), "kv_store": ("k_cache", "v_cache")} | {
    "heads": ("y", "k_cache", "v_cache"),
    "joint_norm": ("sum", "y"),
    "attention": ("y", "parts"),
    "top_k": ("y", "parts"),
    "argmax": ("y", "parts"),
    "short_conv": ("y", "state"),
    "expert_route": ("experts", "shares"),
}
"""What a kernel writes where it is not just ``y``."""

Args = dict[str, int | float | Binding]
Access = tuple[str, int, int]


@dataclass(frozen=True)
class CpuOptions:
    """Sizes and precision of a plan."""

    n_batch: int
    n_out_max: int
    n_ctx: int
    kv_dtype: KvDtype
    is_exact: bool


@dataclass
class CpuBuilder:
    """Calls over named values; ``finish`` places the values and the barriers."""

    graph: Graph
    shapes: dict[str, Shape]
    file: GgufFile
    options: CpuOptions
    table: KernelTable
    read_tensor: ReadTensor
    calls: list[Call] = field(default_factory=list)
    slots: dict[str, BufferSlot] = field(default_factory=dict)
    weights: dict[str, WeightSlot] = field(default_factory=dict)
    constants: dict[str, bytes] = field(default_factory=dict)
    head_start: int = 0
    made: dict[object, Binding] = field(default_factory=dict)
    """Values that several nodes share, by what they are made of."""
    _n_bytes: dict[str, int] = field(default_factory=dict)
    _pinned: dict[str, str] = field(default_factory=dict)

    # ----- what a lowering asks

    def attrs(self, node: Node) -> dict[str, Attr]:
        """The node's attributes with defaults filled in."""
        return OPS[node.op].full_attrs(node.attrs)

    def n_cols(self, value: str) -> int:
        """Length of a value's rows."""
        n = self.shapes[value][-1]
        assert isinstance(n, int), value
        return n

    def uses_n_out(self, value: str) -> bool:
        """Whether a value has a row per wanted output instead of one per token."""
        return self.shapes[value][0] == "n_out"

    def max_rows(self, value: str) -> int:
        """Most rows that a value can have."""
        return self.options.n_out_max if self.uses_n_out(value) else self.options.n_batch

    def value(self, name: str) -> Binding:
        """An activation, or a graph input."""
        if name in ("tokens", "out_rows"):
            return Binding(INPUT, 0 if name == "tokens" else ids_bytes(self.options.n_batch))
        if name not in self._n_bytes:
            is_vector = len(self.shapes[name]) == 1
            n_cols = 1 if is_vector else self.n_cols(name)
            self._n_bytes[name] = self.max_rows(name) * n_cols * 4
        return Binding(VALUE + name)

    def temp(self, name: str, n_bytes: int) -> Binding:
        """A value that only this lowering knows."""
        name = f"{name}.{len(self._n_bytes)}"
        self._n_bytes[name] = n_bytes
        return Binding(VALUE + name)

    def new_name(self, like: str) -> str:
        """The name of one more value of the shape of ``like``."""
        name = f"{like}.{len(self.shapes)}"
        self.shapes[name] = self.shapes[like]
        return name

    def rows_temp(self, like: str, n_cols: int) -> Binding:
        """A value of ``n_cols`` with as many rows as ``like``."""
        return self.temp(like, self.max_rows(like) * n_cols * 4)

    def pin(self, value: Binding, slot: str) -> Binding:
        """Give a value a slot of its own, which is read back after a run."""
        name = value.slot.removeprefix(VALUE)
        self._pinned[name] = slot
        self.slots[slot] = BufferSlot(slot, self._n_bytes[name], "scratch")
        return Binding(slot)

    def zeroed(self, name: str, n_words: int) -> Binding:
        """Words that are zero at first and that only the kernel itself changes."""
        self.slots[name] = BufferSlot(name, n_words * 4, "scratch")
        return Binding(name)

    def state(self, value: str) -> tuple[Binding, ...]:
        """The slots of a state (keys and values), whatever version of it ``value`` names."""
        name = value.partition("@")[0]
        decl, options = self.graph.state[name], self.options
        bindings = []
        for part in state_parts(decl, options.n_ctx, options.kv_dtype):
            slot = f"{name}.{part.name}"
            self.slots[slot] = BufferSlot(slot, part.n_bytes, "state")
            bindings.append(Binding(slot))
        return tuple(bindings)

    def matrix(self, name: str) -> tuple[Binding, TensorInfo]:
        """A tensor as it lies in the file."""
        tensor = self.file.tensors[name]
        if not tensor.type.is_runnable:
            raise UnsupportedTypeError(
                f"{name} has type {tensor.type.name}, which the cpu backend cannot read.",
                hint="Use a Q4_K_M or Q8_0 file of the same model.",
            )
        if name not in self.weights:
            self.weights[name] = WeightSlot(name, tensor.part, tensor.offset, tensor.n_bytes)
            self.slots[name] = BufferSlot(name, tensor.n_bytes, "weight")
        return Binding(name), tensor

    def vector(self, name: str) -> Binding:
        """A tensor of float32 values: the file's own bytes, or its values as a constant."""
        if self.file.tensors[name].type.name == "F32":
            return self.matrix(name)[0]
        if name not in self.constants:
            self.constant(name, self.read_tensor(name))
        return Binding(name)

    def constant(self, name: str, values: NDArray[np.float32]) -> Binding:
        """A constant slot with these values."""
        self.constants[name] = np.ascontiguousarray(values, np.float32).tobytes()
        self.slots[name] = BufferSlot(name, len(self.constants[name]), "constant")
        return Binding(name)

    # ----- what a lowering says

    def require_scratch(self, n_values: int, what: str) -> None:
        """Raise unless a thread's scratch holds so many float32 values."""
        most = self.table.constants["SCRATCH_BYTES"] // 4
        if n_values > most:
            raise UnsupportedModelError(
                f"{what} needs {n_values} values at a time; the CPU kernels hold {most}.",
                hint="Use a GPU, or --device numpy.",
            )

    def emit(self, kernel: str, /, **args: Any) -> None:
        """Add a call; an argument that is None is absent."""
        given = {name: 0 if value is None else value for name, value in args.items()}
        weight = given.get("weight") if kernel.endswith("matmul") else None
        label = f"{kernel} {weight.slot}" if isinstance(weight, Binding) else kernel
        self.calls.append(Call(kernel, given, label=label))

    def run_in_numpy(self, node: Node) -> None:
        """Leave a node to its numpy reference."""
        args: Args = {}
        outputs = {f"={port}": name for port, name in node.outputs.items()}
        for port, name in {**node.inputs, **outputs}.items():
            if name.partition("@")[0] in self.graph.state:
                args |= {f"{port}.{b.slot.rpartition('.')[2]}": b for b in self.state(name)}
            elif name in self.graph.weights:
                args[port] = self.matrix(name)[0]
            elif name != "positions":
                args[port] = self.value(name)
        names = {*node.inputs.values(), *node.outputs.values()}
        shapes = {name: self.shapes[name] for name in names if name in self.shapes}
        self.calls.append(Call("numpy", args, label=f"numpy {node.op}", node=node, shapes=shapes))

    # ----- the finished plan

    def finish(
        self, outputs: Mapping[str, Binding], body_stop: int, output_cols: Mapping[str, int]
    ) -> CpuPlan:
        """The plan, with every value placed and barriers where they are needed."""
        touched = [
            [b.slot[1:] for b in _bindings(call) if b.slot[0] == VALUE] for call in self.calls
        ]
        free = [[name for name in names if name not in self._pinned] for names in touched]
        placed, sizes = assign_scratch(lifetimes_of(free, self._n_bytes, self.head_start))
        placed |= self._pinned
        self.slots |= {name: BufferSlot(name, size, "scratch") for name, size in sizes.items()}
        n_bytes = 2 * ids_bytes(self.options.n_batch)
        self.slots[INPUT] = BufferSlot(INPUT, n_bytes, "input")
        calls = [
            replace(call, args={k: _placed(v, placed) for k, v in call.args.items()})
            for call in self.calls
        ]
        return CpuPlan(
            n_batch=self.options.n_batch,
            n_out_max=self.options.n_out_max,
            output_cols=dict(output_cols),
            slots=self.slots,
            calls=tuple(with_barriers(calls)),
            weights=tuple(self.weights.values()),
            constants=self.constants,
            outputs=dict(outputs),
            head_start=self.head_start,
            body_stop=body_stop,
            tails={},
        )


def ids_bytes(n_batch: int) -> int:
    """Room for a chunk's token ids, or its wanted rows."""
    return -(-n_batch * 4 // 64) * 64


def with_barriers(calls: list[Call]) -> list[Call]:
    """The calls with a barrier wherever one touches what an unfinished one before it writes.

    A range may start at any call: what is before it is done then.
    """
    written: list[Access] = []
    read: list[Access] = []
    result = []
    for call in calls:
        reads, writes = _accesses(call)
        must_wait = _overlap(reads, written) or _overlap(writes, written) or _overlap(writes, read)
        if must_wait:
            written, read = [], []
        written += writes
        read += reads
        result.append(replace(call, has_barrier=must_wait))
    return result


def _accesses(call: Call) -> tuple[list[Access], list[Access]]:
    """What a call reads and what it writes: (slot, first column, column after the last)."""
    reads: list[Access] = []
    writes: list[Access] = []
    for name, binding in call.args.items():
        if not isinstance(binding, Binding):
            continue
        columns = (0, 1 << 32)
        if call.kernel == "matmul" and name == "y":
            start, n_rows = call.args["y_start"], call.args["n_rows"]
            assert isinstance(start, int) and isinstance(n_rows, int)
            columns = (start, start + n_rows)
        is_written = call.node is not None or name in WRITTEN.get(call.kernel, ("y",))
        (writes if is_written else reads).append((binding.slot, *columns))
    return reads, writes


def _overlap(some: list[Access], others: list[Access]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in some for b in others)


def _bindings(call: Call) -> list[Binding]:
    return [value for value in call.args.values() if isinstance(value, Binding)]


def _placed(value: int | float | Binding, placed: Mapping[str, str]) -> int | float | Binding:
    if not isinstance(value, Binding) or value.slot[0] != VALUE:
        return value
    return replace(value, slot=placed[value.slot[1:]])
