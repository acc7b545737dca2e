"""Attention against an implementation that is not ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rushlight.ops.attention import attention, kv_store
from rushlight.ops.kv_cache import KvCache


@pytest.mark.parametrize("name", ["all", "window"])
@pytest.mark.parametrize("chunk", [9, 4, 1])
def test_sinks_and_narrow_values_equal_transformers(data_dir: Path, name: str, chunk: int) -> None:
    with np.load(data_dir / "attention_sinks.npz") as data:
        q, k, v, sinks, expected = (data[key] for key in ("q", "k", "v", "sinks", f"y_{name}"))
        window = int(data["window"]) if name == "window" else 0
    n, n_head, head_dim = q.shape
    cache = KvCache(n, k[0].size, v[0].size)
    for start in range(0, n, chunk):
        positions = np.arange(start, min(start + chunk, n), dtype=np.int32)
        rows = k[positions].reshape(len(positions), -1), v[positions].reshape(len(positions), -1)
        kv_store(*rows, positions, cache)
        y = attention(
            q[positions].reshape(len(positions), -1),
            positions,
            cache,
            sinks,
            n_head=n_head,
            n_head_kv=k.shape[1],
            head_dim=head_dim,
            scale=head_dim**-0.5,
            window=window,
        )
        want = expected[positions].reshape(len(positions), -1)
        assert np.abs(y - want).max() <= 1e-6
