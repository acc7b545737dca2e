"""The two ops between logits and a draw: penalties with a mask, and the most likely ids.

The planner puts them behind a model's logits; no graph asks for them. ``sampling.py`` calls the
same references, so a draw means one thing whether a device or numpy prepared it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..graph.ir import Attr, Shape
from .opdef import AttrSpec, Case, OpDef, Shapes, same_as

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]

LOWEST = np.float32(-3.0e38)
"""The logit of what may not be drawn: finite, since shaders know no infinities."""
LARGEST = np.float32(1.0e36)
"""Bound of a logit before it is changed, so that no change overflows."""
EDGE_VOCABS = ((1, 263), (1, 5000), (1, 70001))
"""Fewer ids than candidates, a share of a few ids a thread, and more ids than one grid row."""


def penalize(
    x: F32,
    ids: I64,
    bias: F32,
    minus: F32,
    repeats: U32,
    mask: U32 | None = None,
    *,
    penalty: float = 1.0,
) -> F32:
    """Logits ``x`` [n, n_vocab] with the listed ids changed and masked ones at ``LOWEST``.

    In this order: ``bias`` is added; where ``repeats`` is set the logit is divided by
    ``penalty`` if positive and multiplied if not (CTRL, Keskar et al. 2019); ``minus`` is taken
    off. Bit i of ``mask``'s words allows id i. NaN and infinities become finite first; what is
    at ``LOWEST`` stays there.
    """
    y = x
    if not np.isfinite(x).all():
        y = np.clip(np.where(np.isnan(x), LOWEST, x), LOWEST, -LOWEST)
    known = ids < x.shape[-1]
    if known.any():
        y = y.copy()
        at = ids[known]
        before = y[:, at]
        values = np.clip(before + bias[known], -LARGEST, LARGEST)
        factors = np.where(values > 0, np.float32(1) / np.float32(penalty), np.float32(penalty))
        values = np.where(repeats[known] != 0, values * factors, values)
        y[:, at] = np.where(before <= LOWEST, LOWEST, values - minus[known])
    if mask is not None:
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little", count=x.shape[-1])
        y = np.where(bits != 0, y, LOWEST)
    return np.asarray(y, np.float32)


def top_k(x: F32, *, k: int, temperature: float) -> tuple[I64, F32, F32]:
    """Ids and logits of the ``k`` largest of each row, largest first, and a softmax's total.

    ``total`` [n] is the sum of exp((x - max) / temperature) over the whole row.
    """
    ids = np.stack([top_ids(row, k) for row in x])
    logits = np.take_along_axis(x, ids, axis=-1)
    scaled = (x.astype(np.float64) - logits[:, :1]) / temperature
    return ids, logits, np.exp(scaled).sum(axis=-1).astype(np.float32)


def top_ids(logits: F32, k: int) -> I64:
    """Return the ids of the ``k`` largest logits, largest first, the lower id first on a tie.

    Partitions rather than sorts: a vocabulary of 262 144 is only passed over.
    """
    if k >= len(logits):
        chosen = np.arange(len(logits))
    else:
        kth = np.partition(logits, len(logits) - k)[len(logits) - k]
        above = np.flatnonzero(logits > kth)
        # Which of several equal logits a partition keeps differs between machines; take the first.
        ties = np.flatnonzero(logits == kth)[: k - len(above)]
        chosen = np.sort(np.concatenate([above, ties]))
    return chosen[np.argsort(-logits[chosen], kind="stable")]


def _infer_top_k(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    rows, k = shapes["x"][:-1], attrs["k"]
    assert isinstance(k, int)
    return {"ids": (*rows, k), "logits": (*rows, k), "total": rows}


OPS = (
    OpDef(
        "penalize",
        ("x", "ids", "bias", "minus", "repeats", "mask"),
        ("y",),
        same_as("x"),
        penalize,
        attrs={"penalty": AttrSpec(float, 1.0)},
        optional=("mask",),
        cases=tuple(
            Case(
                f"{n}-{m}{'-masked' if masked else ''}",
                {"x": (t, n), "ids": (m,)} | ({"mask": (-(-n // 32),)} if masked else {}),
                {"penalty": 1.3},
            )
            for (t, n), m, masked in [
                ((1, 161), 0, False),
                ((1, 161), 64, False),
                ((1, 263), 33, True),
                ((1, 70001), 512, False),
                ((1, 70001), 7, True),
            ]
        ),
    ),
    OpDef(
        "top_k",
        ("x",),
        ("ids", "logits", "total"),
        _infer_top_k,
        top_k,
        attrs={"k": AttrSpec(int, 256), "temperature": AttrSpec(float, 1.0)},
        cases=tuple(
            Case(f"{n}-t{temperature}", {"x": (t, n)}, {"temperature": temperature})
            for t, n in EDGE_VOCABS
            for temperature in (0.25, 1.5)
        ),
    ),
)
