"""Short causal convolution (LFM2), and its state: a ring that can be rewound.

The state holds what the convolution read, a row a position: the last ``RING`` positions, and, for
good, the rows just before each multiple of ``PERIOD``. So a session can go on from any of its
recent positions and from every multiple of ``PERIOD``; see ``backends/rewind.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..graph.ir import Attr, Shape
from .opdef import Case, OpDef, Shapes, require

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]

RING = 64
PERIOD = 32


def state_rows(n_kept: int, n_ctx: int) -> int:
    """Rows of a state over ``n_ctx`` positions for a convolution that looks back ``n_kept``."""
    return RING + -(-n_ctx // PERIOD) * n_kept


def state_row(position: NDArray[Any], n_kept: int) -> NDArray[np.int64]:
    """The row of the state that holds a position: in the ring, or behind it for good."""
    at = position % PERIOD - (PERIOD - n_kept)
    kept = RING + position // PERIOD * n_kept + at
    row: NDArray[np.int64] = np.where(at >= 0, kept, position % RING).astype(np.int64)
    return row


def short_conv(x: F32, weight: F32, positions: I32, state: F32) -> tuple[F32, F32]:
    """Gated causal convolution over tokens, each channel on its own.

    x [n, 3 * n_cols] is b|c|v; ``y = c * conv(b * v)`` with ``weight`` [n_cols, n_taps], the
    oldest tap first. What lies before the first position is zero.
    """
    n_taps = weight.shape[-1]
    b, c, v = np.split(x, 3, axis=-1)
    gated = b * v
    before = np.arange(positions[0] - n_taps + 1, positions[0])
    past = np.zeros((n_taps - 1, gated.shape[-1]), np.float32)
    past[before >= 0] = state[state_row(before[before >= 0], n_taps - 1)]
    window = np.concatenate([past, gated])
    y = np.zeros_like(gated)
    for tap in range(n_taps):
        y += window[tap : tap + len(gated)] * weight[:, tap]
    rows = state_row(positions, n_taps - 1)
    stays = (rows >= RING) | (np.arange(len(x)) + RING >= len(x))
    state[rows[stays]] = gated[stays]
    return c * y, state


def _infer(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    n_cols, n_taps = shapes["weight"]
    assert isinstance(n_cols, int) and isinstance(n_taps, int)
    require(2 <= n_taps <= PERIOD // 2, f"a convolution of {n_taps} taps")
    require(shapes["x"][-1] == 3 * n_cols, f"x has {shapes['x'][-1]} columns, not 3 x {n_cols}")
    require(shapes["state"] == (n_taps - 1, n_cols), f"state is of {shapes['state']}")
    return {"y": (*shapes["x"][:-1], n_cols), "state": shapes["state"]}


def _case(tokens: int, n_cols: int, n_taps: int, position: int) -> Case:
    return Case(
        f"{tokens}x{n_cols}x{n_taps}@{position}",
        {"x": (tokens, 3 * n_cols), "weight": (n_cols, n_taps), "state": (n_taps - 1, n_cols)},
        position=position,
    )


OPS = (
    OpDef(
        "short_conv",
        ("x", "weight", "positions", "state"),
        ("y", "state"),
        _infer,
        short_conv,
        weights=("weight",),
        state=("state",),
        cases=(
            _case(1, 64, 3, 0),
            _case(1, 33, 3, 33),
            _case(7, 96, 3, 61),
            _case(1, 96, 4, 32),
            _case(90, 40, 2, 3),
            _case(150, 32, 3, 70),
        ),
    ),
)
