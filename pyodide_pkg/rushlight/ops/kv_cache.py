"""How keys and values of past tokens are kept: a row a position, in one of three formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError
from ..graph.ir import Graph
from .opdef import KV_DTYPES, KvDtype

F32 = NDArray[np.float32]
Rows = NDArray[Any]
"""[n, n_elements] of a format's elements."""

_SMALLEST = np.float32(1e-30)
_LARGEST_SCALE = np.float32(65504.0)


@dataclass(frozen=True)
class KvFormat:
    """One way to store a row: elements of some consecutive values each."""

    name: KvDtype
    element: np.dtype[Any]
    n_values: int
    nmse: float = 0.0
    """How far two backends may be apart: a value halfway between two codes gets either."""

    def row_bytes(self, n_cols: int) -> int:
        """Bytes of a row of so many values."""
        return n_cols // self.n_values * self.element.itemsize

    def empty(self, n_rows: int, n_cols: int) -> Rows:
        """Rows of zeros."""
        return np.zeros((n_rows, n_cols // self.n_values), self.element)

    def encode(self, values: F32) -> Rows:
        """Values [n, n_cols] as rows.

        A block of q8_0 is 32 codes of 8 bits times a float16 scale, the largest value over 127,
        as in GGUF; here a word holds the scale, so that the codes behind it are whole words.
        """
        if self.name != "q8_0":
            return values.astype(self.element)
        blocks = np.asarray(values, np.float32).reshape(len(values), -1, self.n_values)
        top = np.abs(blocks).max(axis=-1)
        by = np.divide(np.float32(127), top, out=np.zeros_like(top), where=top > _SMALLEST)
        rows = np.zeros(blocks.shape[:2], self.element)
        rows["d"] = np.minimum(top / np.float32(127), _LARGEST_SCALE)
        rows["codes"] = np.rint(blocks * by[..., None])
        return rows

    def decode(self, rows: Rows) -> F32:
        """The values of rows, [n, n_cols]."""
        if self.name != "q8_0":
            return rows.astype(np.float32)
        values = rows["codes"].astype(np.float32) * rows["d"].astype(np.float32)[..., None]
        return values.reshape(len(rows), -1)


_Q8_BLOCK = np.dtype([("d", "<f2"), ("unused", "<u2"), ("codes", "i1", (32,))])
KV_FORMATS: Mapping[str, KvFormat] = {
    "f32": KvFormat("f32", np.dtype("<f4"), 1),
    "f16": KvFormat("f16", np.dtype("<f2"), 1),
    "q8_0": KvFormat("q8_0", _Q8_BLOCK, 32, nmse=1e-7),
}


class KvCache:
    """Keys and values of one layer by position, [n_ctx, width] each."""

    def __init__(self, n_ctx: int, width_k: int, width_v: int, dtype: KvDtype = "f32") -> None:
        self.format = KV_FORMATS[dtype]
        self.k = self.format.empty(n_ctx, width_k)
        self.v = self.format.empty(n_ctx, width_v)

    def store(self, k: F32, v: F32, positions: NDArray[np.int32]) -> None:
        """Keep keys and values [n, width] of tokens at these positions."""
        self.k[positions] = self.format.encode(k)
        self.v[positions] = self.format.encode(v)

    def read(self, start: int, stop: int) -> tuple[F32, F32]:
        """Keys and values of the positions from ``start`` to before ``stop``."""
        return self.format.decode(self.k[start:stop]), self.format.decode(self.v[start:stop])


def can_keep(graph: Graph, kv_dtype: KvDtype) -> bool:
    """Whether the graph's heads are whole blocks of the format."""
    return all(size % KV_FORMATS[kv_dtype].n_values == 0 for size in _head_sizes(graph))


def require_cache(graph: Graph, kv_dtype: KvDtype) -> None:
    """Raise ``InvalidInputError`` unless the graph's heads are whole blocks of the format."""
    n = KV_FORMATS[kv_dtype].n_values
    for size in _head_sizes(graph):
        if size % n:
            raise InvalidInputError(
                f"A {kv_dtype} cache keeps blocks of {n} values; this model's heads have {size}.",
                hint=f"Choose {' or '.join(d for d in KV_DTYPES if d != kv_dtype)}.",
                code="cache_format",
            )


def cache_heads(graph: Graph) -> dict[str, int]:
    """Heads that lie side by side in a row of each cache, by the state's name."""
    found = {}
    for node in graph.nodes:
        if "cache" in node.inputs and "n_head_kv" in node.attrs:
            name = node.inputs["cache"].partition("@")[0]
            found[name] = int(node.attrs["n_head_kv"])  # type: ignore[arg-type]
    return found


def _head_sizes(graph: Graph) -> Iterator[int]:
    """Values of a key and of a value, of each cache."""
    for name, n_head in cache_heads(graph).items():
        yield from (width // n_head for width in graph.state[name].shape)
