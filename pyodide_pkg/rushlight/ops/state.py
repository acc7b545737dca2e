"""What a declared state takes on a device, and as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..graph.ir import Graph, StateDecl
from .conv import state_rows
from .kv_cache import KV_FORMATS, KvCache, can_keep
from .opdef import KV_DTYPES, KvDtype


@dataclass(frozen=True)
class StatePart:
    """One buffer of a state, row by row."""

    name: str
    n_rows: int
    row_bytes: int

    @property
    def n_bytes(self) -> int:
        """Its size."""
        return self.n_rows * self.row_bytes


def state_parts(decl: StateDecl, n_ctx: int, kv_dtype: KvDtype) -> tuple[StatePart, ...]:
    """The buffers of one session's state over ``n_ctx`` positions."""
    if decl.kind == "conv":
        n_kept, n_cols = decl.shape
        return (StatePart("rows", state_rows(n_kept, n_ctx), 4 * n_cols),)
    row_bytes = KV_FORMATS[kv_dtype].row_bytes
    widths = zip("kv", decl.shape, strict=True)
    return tuple(StatePart(part, n_ctx, row_bytes(width)) for part, width in widths)


def cache_token_bytes(graph: Graph, kv_dtype: KvDtype) -> int:
    """Bytes that all caches of a session take for each position."""
    caches = [decl for decl in graph.state.values() if decl.kind == "kv"]
    return sum(part.row_bytes for decl in caches for part in state_parts(decl, 1, kv_dtype))


def cache_choices(graph: Graph) -> dict[KvDtype, int]:
    """The formats that the graph's caches can have, and what a position takes in each (bytes)."""
    return {kv: cache_token_bytes(graph, kv) for kv in KV_DTYPES if can_keep(graph, kv)}


def empty_state(decl: StateDecl, n_ctx: int, kv_dtype: KvDtype) -> KvCache | NDArray[Any]:
    """A state as the op references take it."""
    if decl.kind == "conv":
        n_kept, n_cols = decl.shape
        return np.zeros((state_rows(n_kept, n_ctx), n_cols), np.float32)
    return KvCache(n_ctx, decl.shape[0], decl.shape[1], kv_dtype)
