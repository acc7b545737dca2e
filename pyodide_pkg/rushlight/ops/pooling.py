"""One vector for a whole text, from the rows of its tokens."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..graph.ir import Attr, Shape
from .opdef import AttrSpec, Case, OpDef, Shapes

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]

KINDS = ("mean", "cls")


def pool(x: F32, rows: I32, *, kind: str) -> F32:
    """For each wanted row, what stands for the text up to and with it: float32 [n_out, n_cols].

    "mean": the mean of its rows (Reimers & Gurevych 2019); "cls": its first row, which BERT
    trains for that (Devlin et al. 2018).
    """
    if kind == "cls":
        return np.repeat(x[:1], len(rows), axis=0)
    means = [x[: row + 1].mean(axis=0, dtype=np.float64) for row in rows]
    return np.asarray(means, np.float32).reshape(len(rows), x.shape[-1])


def _infer(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    return {"y": (*shapes["rows"], shapes["x"][-1])}


_SIZES = [(1, 33, 1), (7, 160, 1), (33, 60, 3), (150, 384, 2)]

OPS = (
    OpDef(
        "pool",
        ("x", "rows"),
        ("y",),
        _infer,
        pool,
        attrs={"kind": AttrSpec(str, choices=KINDS)},
        cases=tuple(
            Case(
                f"{kind}-{n}x{n_cols}-{n_out}", {"x": (n, n_cols), "rows": (n_out,)}, {"kind": kind}
            )
            for kind in KINDS
            for n, n_cols, n_out in _SIZES
        ),
    ),
)
