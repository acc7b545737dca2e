"""Ops without a CPU kernel: their numpy reference, on values that lie in the kernels' memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..gguf.reader import GgufFile
from ..graph.ir import Node
from ..ops import OPS
from ..ops.kv_cache import KvCache
from ..plan.cpu_program import Call, CpuPlan, MemoryLayout
from ..plan.plan import Binding
from .base import LoadOptions
from .numpy_executor import dequantize_rows

if TYPE_CHECKING:
    from .simd_common import CpuStep
    from .simd_host import KernelHost

IDS = ("tokens", "out_rows")


class NumpyMemory:
    """Reads and writes a plan's values through the host."""

    def __init__(
        self,
        host: KernelHost,
        plan: CpuPlan,
        layout: MemoryLayout,
        file: GgufFile,
        options: LoadOptions,
    ) -> None:
        self._host, self._plan, self._layout = host, plan, layout
        self._file, self._options = file, options
        self._dtypes: dict[str, Any] = dict.fromkeys(IDS, np.int32)

    def address(self, binding: Binding, state: int) -> int:
        """Where a slot is; a state's slots are relative to the session's state."""
        if binding.slot in self._layout.slots:
            return self._layout.slots[binding.slot] + binding.offset
        return state + self._plan.state_places[0][binding.slot]

    def value(self, address: int, shape: tuple[int, ...], name: str) -> NDArray[Any]:
        """An activation, or ids (also those that an op before gave)."""
        raw = self._host.read(address, 4 * int(np.prod(shape)))
        values: NDArray[Any] = raw.view(self._dtypes.get(name, np.float32))
        return values.reshape(shape).copy()

    def weight(self, address: int, name: str) -> NDArray[np.float32]:
        """A tensor's float32 values; they lie in memory as in the file."""
        tensor = self._file.tensors[name]
        raw = self._host.read(address, tensor.n_bytes).tobytes()
        return dequantize_rows(tensor.type, raw, tensor.n_rows).reshape(tensor.shape)

    def state(self, args: Mapping[str, Any], port: str, state: int) -> KvCache | NDArray[Any]:
        """A copy of a session's keys and values, or of a convolution's rows."""
        if rows := args.get(f"{port}.rows"):
            n_bytes = self._plan.slots[rows.slot].n_bytes
            return self._host.read(self.address(rows, state), n_bytes).view(np.float32).copy()
        found = KvCache(0, 0, 0, self._options.kv_dtype)
        for part in "kv":
            binding = args[f"{port}.{part}"]
            n_bytes = self._plan.slots[binding.slot].n_bytes
            raw = self._host.read(self.address(binding, state), n_bytes)
            rows = raw.view(found.k.dtype).reshape(self._options.n_ctx, -1).copy()
            setattr(found, part, rows)
        return found

    def write(self, address: int, values: NDArray[Any], name: str = "") -> None:
        """Put an op's output where the calls behind it read it."""
        self._dtypes[name] = values.dtype
        self._host.write(address, np.ascontiguousarray(values))


def run_numpy_call(call: Call, node: Node, memory: NumpyMemory, step: CpuStep) -> None:
    """Run one node's reference: its values are copied out, and its results back."""
    op = OPS[node.op]
    counts = {"n_tokens": len(step.tokens), "n_out": len(step.out_rows)}
    given: dict[str, Any] = {p: memory.state(call.args, p, step.state) for p in op.state}
    given |= {p: v.reshape(-1, call.shapes[node.inputs[p]][-1]) for p, v in given.items()
              if not isinstance(v, KvCache)}  # fmt: skip
    for port, name in node.inputs.items():
        if name == "positions":
            given[port] = np.arange(len(step.tokens), dtype=np.int32) + step.position
        elif port not in op.state:
            binding = call.args[port]
            assert isinstance(binding, Binding)
            address = memory.address(binding, step.state)
            if port in op.weights:
                given[port] = memory.weight(address, name)
            else:
                shape = tuple(counts.get(str(n), n) for n in call.shapes[name])
                given[port] = memory.value(address, shape, name)  # type: ignore[arg-type]
    result = op.reference(**given, **node.attrs)
    outputs = result if len(op.outputs) > 1 else (result,)
    for port, value in zip(op.outputs, outputs, strict=True):
        if port in op.state:
            for part in ("k", "v") if isinstance(value, KvCache) else ("rows",):
                at = call.args[f"{port}.{part}"]
                assert isinstance(at, Binding)
                rows = getattr(value, part) if isinstance(value, KvCache) else value
                memory.write(memory.address(at, step.state), rows)
        else:
            at = call.args[f"={port}"]
            assert isinstance(at, Binding)
            memory.write(memory.address(at, step.state), value, node.outputs[port])
