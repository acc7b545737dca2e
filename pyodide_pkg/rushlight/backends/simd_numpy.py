"""Ops without a CPU kernel: their numpy reference, on values that lie in the kernels' memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..gguf.reader import GgufFile
from ..graph.ir import Node
from ..ops import OPS
from ..ops.attention import KvCache
from ..plan.cpu_program import Call, CpuPlan, MemoryLayout
from ..plan.plan import Binding
from .base import LoadOptions
from .numpy_executor import dequantize_rows

if TYPE_CHECKING:
    from .simd_common import CpuStep, KernelHost

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

    def address(self, binding: Binding, state: int) -> int:
        """Where a slot is; a state's slots are relative to the session's state."""
        if binding.slot in self._layout.slots:
            return self._layout.slots[binding.slot] + binding.offset
        return state + self._plan.state_places[0][binding.slot]

    def value(self, address: int, shape: tuple[int, ...], name: str) -> NDArray[Any]:
        """An activation, or ids."""
        dtype = np.int32 if name in IDS else np.float32
        n_bytes = 4 * int(np.prod(shape))
        return self._host.read(address, n_bytes).view(dtype).reshape(shape).copy()

    def weight(self, address: int, name: str) -> NDArray[np.float32]:
        """A tensor's float32 values; they lie in memory as in the file."""
        tensor = self._file.tensors[name]
        raw = self._host.read(address, tensor.n_bytes).tobytes()
        return dequantize_rows(tensor.type, raw, tensor.n_rows).reshape(tensor.shape)

    def cache(self, args: Mapping[str, Any], port: str, state: int) -> KvCache:
        """A copy of a session's keys and values."""
        found = KvCache(0, 0, 0, self._options.kv_dtype)
        for part in "kv":
            binding = args[f"{port}.{part}"]
            n_bytes = self._plan.slots[binding.slot].n_bytes
            raw = self._host.read(self.address(binding, state), n_bytes)
            rows = raw.view(found.k.dtype).reshape(self._options.n_ctx, -1).copy()
            setattr(found, part, rows)
        return found

    def write(self, address: int, values: NDArray[Any]) -> None:
        """Put an op's output where the calls behind it read it."""
        self._host.write(address, np.ascontiguousarray(values))


def run_numpy_call(call: Call, node: Node, memory: NumpyMemory, step: CpuStep) -> None:
    """Run one node's reference: its values are copied out, and its results back."""
    op = OPS[node.op]
    counts = {"n_tokens": len(step.tokens), "n_out": len(step.out_rows)}
    caches = {port: memory.cache(call.args, port, step.state) for port in op.state}
    given: dict[str, Any] = dict(caches)
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
            for part in "kv":
                at = call.args[f"{port}.{part}"]
                assert isinstance(at, Binding)
                memory.write(memory.address(at, step.state), getattr(value, part))
        else:
            at = call.args[f"={port}"]
            assert isinstance(at, Binding)
            memory.write(memory.address(at, step.state), value)
