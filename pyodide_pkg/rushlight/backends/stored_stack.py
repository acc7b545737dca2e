"""Stacks of experts that stay as stored: an expert is dequantised when it is chosen.

In float32 a model with experts takes four to eight times its file, most of it for experts that a
step does not read.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..gguf.reader import TensorInfo
from ..gguf.source import AsyncSource
from ..graph.ir import Graph

STACK_BYTES = 1 << 30
"""Most bytes that all stacks of a model may take as float32; beyond it they stay as stored."""


class StoredStack:
    """A weight [n_expert, n_rows, n_cols], indexed by expert like the array it stands for."""

    def __init__(self, info: TensorInfo, data: bytearray) -> None:
        self.shape, self.nbytes = info.shape, len(data)
        self._type, self._data = info.type, np.frombuffer(data, np.uint8)

    def __getitem__(self, expert: int) -> NDArray[np.float32]:
        """One expert's matrix in float32."""
        n_expert, n_rows, _ = self.shape
        assert self._type.dequantize is not None
        return self._type.dequantize(self._data.reshape(n_expert, n_rows, -1)[expert])


def stored_stacks(graph: Graph, tensors: Iterable[TensorInfo]) -> frozenset[str]:
    """The stacks of a graph that are too large together to be held as float32."""
    read = {
        value
        for node in graph.nodes
        for value in node.inputs.values()
        if node.op.startswith("expert_")
    }
    stacks = {t.name: 4 * t.n_elements for t in tensors if t.name in read and len(t.shape) == 3}
    return frozenset(stacks) if sum(stacks.values()) > STACK_BYTES else frozenset()


async def read_stack(source: AsyncSource, info: TensorInfo, piece_bytes: int) -> StoredStack:
    """A stack from its file, by pieces."""
    data = bytearray(info.n_bytes)
    for start in range(0, info.n_bytes, piece_bytes):
        n = min(piece_bytes, info.n_bytes - start)
        data[start : start + n] = await source.read(info.offset + start, n)
    return StoredStack(info, data)
