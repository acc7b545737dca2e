"""What a declared state takes on a device, and as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..graph.ir import StateDecl
from .attention import KvCache
from .conv import state_rows


@dataclass(frozen=True)
class StatePart:
    """One buffer of a state: rows of values, halves or floats."""

    name: str
    n_rows: int
    n_cols: int
    value_bytes: int

    @property
    def n_bytes(self) -> int:
        """Its size."""
        return self.n_rows * self.n_cols * self.value_bytes


def state_parts(decl: StateDecl, n_ctx: int, kv_dtype: str) -> tuple[StatePart, ...]:
    """The buffers of one session's state over ``n_ctx`` positions."""
    if decl.kind == "conv":
        n_kept, n_cols = decl.shape
        return (StatePart("rows", state_rows(n_kept, n_ctx), n_cols, 4),)
    size = 2 if kv_dtype == "f16" else 4
    widths = zip("kv", decl.shape, strict=True)
    return tuple(StatePart(part, n_ctx, width, size) for part, width in widths)


def empty_state(decl: StateDecl, n_ctx: int, kv_dtype: str) -> KvCache | NDArray[Any]:
    """A state as the op references take it."""
    if decl.kind == "conv":
        (part,) = state_parts(decl, n_ctx, kv_dtype)
        return np.zeros((part.n_rows, part.n_cols), np.float32)
    return KvCache(n_ctx, decl.shape[0], decl.shape[1], kv_dtype)
