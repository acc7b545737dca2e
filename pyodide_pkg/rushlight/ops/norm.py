"""Normalisation by root mean square or variance, alone and fused with residual adds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..graph.ir import Attr, Shape
from .opdef import AttrSpec, Case, OpDef, Shapes, require

F32 = NDArray[np.float32]
EPS = {"eps": AttrSpec(float)}


def rms_norm(x: F32, weight: F32 | None = None, *, eps: float, n_group: int = 1) -> F32:
    """Scale each group of a row to unit mean square, then by ``weight`` [n_cols / n_group].

    Zhang & Sennrich 2019.
    """
    groups = x.reshape(*x.shape[:-1], n_group, -1)
    mean_square = np.mean(np.square(groups), axis=-1, keepdims=True, dtype=np.float32)
    scaled = groups / np.sqrt(mean_square + np.float32(eps))
    if weight is not None:
        scaled = scaled * weight
    return scaled.reshape(x.shape).astype(np.float32, copy=False)


def layer_norm(
    x: F32, weight: F32 | None = None, bias: F32 | None = None, *, eps: float, n_group: int = 1
) -> F32:
    """Shift each group of a row to mean 0, scale it to variance 1, then ``* weight + bias``.

    Ba et al. 2016. ``weight`` is one for all groups, [n_cols / n_group], or one for each,
    [n_group, n_cols / n_group].
    """
    groups = x.reshape(*x.shape[:-1], n_group, -1)
    centred = groups - np.mean(groups, axis=-1, keepdims=True, dtype=np.float32)
    variance = np.mean(np.square(centred), axis=-1, keepdims=True, dtype=np.float32)
    scaled = centred / np.sqrt(variance + np.float32(eps))
    if weight is not None:
        scaled = scaled * weight
    if bias is not None:
        scaled = scaled + bias
    return scaled.reshape(x.shape).astype(np.float32, copy=False)


def add_rms_norm(a: F32, b: F32, weight: F32, *, eps: float) -> tuple[F32, F32]:
    """A residual add and the norm that reads it: ``sum = a + b``, ``y = rms_norm(sum)``."""
    total = a + b
    return total, rms_norm(total, weight, eps=eps)


def norm_add(x: F32, a: F32, post_weight: F32, *, eps: float) -> F32:
    """A branch normalised before it joins the residual: ``x + rms_norm(a)``."""
    return x + rms_norm(a, post_weight, eps=eps)


def sandwich_norm(x: F32, a: F32, post_weight: F32, weight: F32, *, eps: float) -> tuple[F32, F32]:
    """The joint between two sandwiched blocks: ``sum = x + rms_norm(a)``, ``y = rms_norm(sum)``."""
    total = norm_add(x, a, post_weight, eps=eps)
    return total, rms_norm(total, weight, eps=eps)


def _infer_norm(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    n_cols, n_group = shapes["x"][-1], attrs["n_group"]
    assert isinstance(n_cols, int) and isinstance(n_group, int)
    require(n_group > 0 and n_cols % n_group == 0, f"{n_cols} columns in {n_group} groups")
    one = (n_cols // n_group,)
    for port in ("weight", "bias"):
        shape = shapes.get(port, one)
        require(
            shape in (one, (n_group, *one)),
            f"x has {n_cols} columns in {n_group} groups, but {port} has shape {shape}",
        )
    return {"y": shapes["x"]}


def _infer_joint(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    first, second = list(shapes)[:2]
    require(
        shapes[first] == shapes[second], f"{first} and {second} differ in shape: {dict(shapes)}"
    )
    for port, shape in shapes.items():
        if port.endswith("weight"):
            require(
                shape == shapes[first][-1:], f"{port} has shape {shape}, not one row of {first}"
            )
    return {"sum": shapes[first], "y": shapes[first]}


def _only_sum(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    return {"sum": _infer_joint(shapes, attrs)["sum"]}


_SIZES = [(1, 32), (1, 640), (2, 96), (7, 896), (33, 160), (3, 1152), (1, 75), (9, 66)]

RMS_NORM = OpDef(
    "rms_norm",
    ("x",),
    ("y",),
    _infer_norm,
    rms_norm,
    attrs={**EPS, "n_group": AttrSpec(int, 1)},
    optional=("weight",),
    weights=("weight",),
    cases=tuple(Case(f"{t}x{n}", {"x": (t, n), "weight": (n,)}, {"eps": 1e-6}) for t, n in _SIZES)
    + tuple(
        Case(f"{t}x{g}x{n}", {"x": (t, g * n), "weight": (n,)}, {"eps": 1e-6, "n_group": g})
        for t, g, n in [(1, 4, 256), (5, 3, 64), (2, 6, 16), (3, 5, 6)]
    )
    + (
        Case("3x2x96-plain", {"x": (3, 192)}, {"eps": 1e-6, "n_group": 2}),
        Case("3x2x96-each", {"x": (3, 192), "weight": (2, 96)}, {"eps": 1e-6, "n_group": 2}),
    ),
)
_NORM_PORTS: tuple[tuple[str, ...], ...] = (("weight", "bias"), ("weight",), ())
LAYER_NORM = OpDef(
    "layer_norm",
    ("x",),
    ("y",),
    _infer_norm,
    layer_norm,
    attrs={**EPS, "n_group": AttrSpec(int, 1)},
    optional=("weight", "bias"),
    weights=("weight", "bias"),
    cases=tuple(
        Case(f"{t}x{n}-{'-'.join(ports) or 'plain'}",
             {"x": (t, n), **{port: (n,) for port in ports}}, {"eps": 1e-5})
        for i, (t, n) in enumerate(_SIZES)
        for ports in (_NORM_PORTS[i % 3],)
    )
    + tuple(
        Case(f"{t}x{g}x{n}", {"x": (t, g * n), "weight": shape}, {"eps": 1e-5, "n_group": g})
        for t, g, n, shape in [(1, 3, 64, (3, 64)), (7, 5, 20, (5, 20)), (2, 3, 6, (3, 6))]
    ),
)  # fmt: skip
ADD_RMS_NORM = OpDef(
    "add_rms_norm",
    ("a", "b", "weight"),
    ("sum", "y"),
    _infer_joint,
    add_rms_norm,
    attrs=EPS,
    weights=("weight",),
    cases=tuple(
        Case(f"{t}x{n}", {"a": (t, n), "b": (t, n), "weight": (n,)}, {"eps": 1e-6})
        for t, n in _SIZES
    ),
)
NORM_ADD = OpDef(
    "norm_add",
    ("x", "a", "post_weight"),
    ("sum",),
    _only_sum,
    norm_add,
    attrs=EPS,
    weights=("post_weight",),
    cases=tuple(
        Case(f"{t}x{n}", {"x": (t, n), "a": (t, n), "post_weight": (n,)}, {"eps": 1e-6})
        for t, n in _SIZES
    ),
)
SANDWICH_NORM = OpDef(
    "sandwich_norm",
    ("x", "a", "post_weight", "weight"),
    ("sum", "y"),
    _infer_joint,
    sandwich_norm,
    attrs=EPS,
    weights=("post_weight", "weight"),
    cases=tuple(
        Case(
            f"{t}x{n}",
            {"x": (t, n), "a": (t, n), "post_weight": (n,), "weight": (n,)},
            {"eps": 1e-6},
        )
        for t, n in _SIZES
    ),
)
OPS = (RMS_NORM, LAYER_NORM, ADD_RMS_NORM, NORM_ADD, SANDWICH_NORM)
