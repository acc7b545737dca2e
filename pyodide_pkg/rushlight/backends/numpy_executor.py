"""The reference executor: walks the graph and calls each op's numpy reference.

It has no kernels of its own, so the oracle and the portable backend cannot drift apart. Weights
are dequantised to float32 once, at load; experts that would not fit stay as stored, and one is
dequantised when it is chosen (``stored_stack.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..candidates import Candidates, SampleInputs, all_candidates
from ..errors import ContextFullError, UnsupportedTypeError
from ..gguf.quants import QuantFormat
from ..gguf.reader import GgufFile, TensorInfo
from ..gguf.source import AsyncSource
from ..graph.ir import Graph, Node
from ..ops import OPS
from ..ops.state import empty_state
from .auto import breathe
from .base import DeviceInfo, LoadOptions, Progress, ProgressFn, RunStats, Want, one_by_one
from .rewind import Held
from .stored_stack import StoredStack, read_stack, stored_stacks

READ_BYTES = 16 << 20
"""Most bytes of a tensor that are read and dequantised at a time."""


class NumpyState(dict[str, Any]):
    """One session's states by name, and from where it can go on."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.held = Held(graph)


class NumpyExecutor:
    """Runs op references one node at a time, on whatever machine numpy runs on."""

    max_ahead = 1

    def __init__(self, notes: Sequence[str] = ()) -> None:
        self.info = DeviceInfo("numpy", f"numpy {np.__version__}", tuple(notes))
        self.stats = RunStats()
        self._weights: dict[str, NDArray[np.float32] | StoredStack] = {}

    async def load(
        self,
        graph: Graph,
        file: GgufFile,
        sources: Sequence[AsyncSource],
        options: LoadOptions,
        progress: ProgressFn,
    ) -> None:
        """Read and dequantise every weight of the graph."""
        self._graph, self._options = graph, options
        self._last_use = _last_uses(graph)
        self._head = _head_nodes(graph)
        needed = [file.tensors[name] for name in graph.weights]
        for info in needed:
            if info.type.dequantize is None:
                raise unsupported_type(info, "numpy")
        total, done = sum(info.n_bytes for info in needed), 0
        stacks = stored_stacks(graph, needed)
        if options.before_memory is not None:
            await options.before_memory(_planned_bytes(needed, stacks))
        for info in needed:
            source = sources[info.part]
            if info.name in stacks:
                self._weights[info.name] = await read_stack(source, info, READ_BYTES)
            else:
                self._weights[info.name] = await read_tensor(source, info)
            done += info.n_bytes
            progress(Progress("weights", info.name, done, total))
        self.stats.memory_bytes["weight"] = sum(w.nbytes for w in self._weights.values())

    def new_state(self) -> NumpyState:
        """An empty state for each that the graph declares."""
        options, found = self._options, NumpyState(self._graph)
        for name, decl in self._graph.state.items():
            found[name] = empty_state(decl, options.n_ctx, options.kv_dtype)
        return found

    async def forward(
        self,
        state: NumpyState,
        tokens: Sequence[int],
        position: int,
        out_rows: Sequence[int],
        want: Want,
    ) -> NDArray[np.float32] | NDArray[np.int32] | None:
        """Run one chunk; see ``Executor.forward``."""
        if position + len(tokens) > self._options.n_ctx:
            raise ContextFullError(
                f"{position + len(tokens)} tokens do not fit the context of {self._options.n_ctx}.",
                hint="Load the model with a larger context (--ctx).",
            )
        started = time.perf_counter()
        state.held.ran(position, len(tokens))
        values: dict[str, Any] = {
            "tokens": np.asarray(tokens, np.int32),
            "positions": np.arange(position, position + len(tokens), dtype=np.int32),
            "out_rows": np.asarray(out_rows, np.int32),
            **state,
        }
        skipped = self._head if want == "none" else frozenset()
        for index, node in enumerate(self._graph.nodes):
            if index not in skipped:
                run_node(node, values, self._weights)
                for value in self._last_use.get(index, ()):
                    values.pop(value, None)
        self.stats.host_ms += (time.perf_counter() - started) * 1e3
        await breathe()  # numpy has held the thread; a device's answer is awaited anyway
        if want == "none":
            return None
        found: NDArray[Any] = values[self._graph.outputs["logits" if want == "argmax" else want]]
        return OPS["argmax"].reference(found) if want == "argmax" else found

    async def candidates(
        self,
        state: NumpyState,
        tokens: Sequence[int],
        position: int,
        inputs: SampleInputs,
    ) -> Candidates:
        """Every id, with its changed logit; see ``Executor.candidates``."""
        logits = await self.forward(state, tokens, position, [len(tokens) - 1], "logits")
        assert logits is not None
        return all_candidates(np.asarray(logits[0], np.float32), inputs)

    async def run_ahead(
        self, state: NumpyState, token: int, position: int, n_steps: int
    ) -> list[int]:
        """Greedy steps, one after the other; see ``Executor.run_ahead``."""
        return await one_by_one(self, state, token, position, n_steps)

    def rewind(self, state: NumpyState, position: int) -> int:
        """Attention caches go on from any position, convolutions from some."""
        return state.held.rewind(position)

    def close(self) -> None:
        """Drop the weights."""
        self._weights.clear()


def run_node(node: Node, values: dict[str, Any], weights: Mapping[str, Any]) -> None:
    """Call one op's reference on named values and store what it returns."""
    op = OPS[node.op]
    ports = {port: weights[v] if v in weights else values[v] for port, v in node.inputs.items()}
    result = op.reference(**ports, **node.attrs)
    outputs = result if len(op.outputs) > 1 else (result,)
    for port, value in zip(op.outputs, outputs, strict=True):
        values[node.outputs[port]] = value


async def read_tensor(
    source: AsyncSource,
    info: TensorInfo,
    on_bytes: Callable[[int], None] | None = None,
) -> NDArray[np.float32]:
    """A whole tensor as float32, read and dequantised by bounded runs of rows."""
    n_rows = int(np.prod(info.shape[:-1], dtype=np.int64))
    row_bytes = info.n_bytes // max(n_rows, 1)
    result = np.empty((n_rows, info.shape[-1]), np.float32)
    step = max(1, READ_BYTES // max(row_bytes, 1))
    for row in range(0, n_rows, step):
        count = min(step, n_rows - row)
        raw = await source.read(info.offset + row * row_bytes, count * row_bytes)
        result[row : row + count] = dequantize_rows(info.type, raw, count)
        if on_bytes:
            on_bytes(count * row_bytes)
    return result.reshape(info.shape)


def dequantize_rows(fmt: QuantFormat, raw: bytes | memoryview, n_rows: int) -> NDArray[np.float32]:
    """Rows of a stored tensor as float32 [n_rows, n_cols]."""
    assert fmt.dequantize is not None
    return fmt.dequantize(np.frombuffer(raw, np.uint8).reshape(n_rows, -1))


def unsupported_type(info: TensorInfo, backend: str) -> UnsupportedTypeError:
    """The refusal that names tensor and type."""
    return UnsupportedTypeError(
        f"{info.name} has type {info.type.name}, which the {backend} backend cannot read.",
        hint="Use a Q4_K_M or Q8_0 file of the same model.",
    )


def _planned_bytes(needed: Sequence[TensorInfo], stacks: Container[str]) -> dict[str, int]:
    """Bytes of the weights as they are held: float32, but for stacks of experts."""
    held = (t.n_bytes if t.name in stacks else 4 * t.n_elements for t in needed)
    return {"weight": sum(held)}


def _last_uses(graph: Graph) -> dict[int, list[str]]:
    """Node index -> values that nobody reads afterwards, so that memory is given back early."""
    keep = {*graph.outputs.values(), *graph.state, *graph.weights, "tokens", "positions"}
    last = {v: i for i, node in enumerate(graph.nodes) for v in node.inputs.values()}
    drops: dict[int, list[str]] = {}
    for value, index in last.items():
        if value not in keep:
            drops.setdefault(index, []).append(value)
    return drops


def _head_nodes(graph: Graph) -> frozenset[int]:
    """Nodes that only serve the outputs: those that depend on ``out_rows``."""
    tainted, found = {"out_rows"}, set()
    for index, node in enumerate(graph.nodes):
        if tainted & set(node.inputs.values()):
            tainted |= set(node.outputs.values())
            found.add(index)
    return frozenset(found)
