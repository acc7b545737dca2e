"""The one matrix product under every reference: ``a @ b.T`` in float32.

Where numpy has a BLAS, that is what runs. Pyodide's numpy has none, and there ``einsum`` over
blocks of rows that stay in cache is 1.5 to 3.5 times as fast as ``@`` (whose loops do not
vectorise), so it is used instead; both sum in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
BLOCK_BYTES = 1 << 20
"""Bytes of ``b`` taken at a time without a BLAS: about what a core's own cache holds."""


def _has_blas() -> bool:
    config: Any = np.show_config(mode="dicts")
    return bool(config.get("Build Dependencies", {}).get("blas", {}).get("found", False))


HAS_BLAS = _has_blas()


def product(a: F32, b: F32) -> F32:
    """``a @ b.T`` for a [n, k] and b [m, k]."""
    if HAS_BLAS:
        # One row is a matrix-vector product; BLAS is faster when told so.
        return (b @ a[0])[None] if len(a) == 1 else a @ b.T
    return blocked_product(a, b)


def blocked_product(a: F32, b: F32) -> F32:
    """``a @ b.T`` by ``einsum`` over blocks of rows of ``b``."""
    y = np.empty((len(a), len(b)), np.float32)
    step = max(1, BLOCK_BYTES // max(4 * b.shape[-1], 1))
    for start in range(0, len(b), step):
        np.einsum("nk,mk->nm", a, b[start : start + step], out=y[:, start : start + step])
    return y
