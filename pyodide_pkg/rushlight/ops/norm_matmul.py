"""A norm and the products that read it, fused for one decoded token; references call the parts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..graph.ir import Attr, Shape
from .elementwise import ACTIVATIONS
from .matmul import glu_matmul, infer_glu, infer_qkv, qkv_matmul
from .norm import EPS, rms_norm, sandwich_norm
from .opdef import AttrSpec, Case, OpDef, Shapes, require

F32 = NDArray[np.float32]


def norm_qkv_matmul(
    x: F32, norm: F32, weight_q: F32, weight_k: F32, weight_v: F32, *, eps: float
) -> F32:
    """Queries, keys and values of a normalised row: ``qkv_matmul(rms_norm(x, norm), ..)``."""
    return qkv_matmul(rms_norm(x, norm, eps=eps), weight_q, weight_k, weight_v)


def norm_glu_matmul(
    x: F32, norm: F32, weight_gate: F32, weight_up: F32, *, eps: float, activation: str
) -> F32:
    """The first half of a gated MLP with its norm: ``glu_matmul(rms_norm(x, norm), ..)``."""
    return glu_matmul(rms_norm(x, norm, eps=eps), weight_gate, weight_up, activation=activation)


def joint_glu_matmul(
    x: F32,
    a: F32,
    post_norm: F32,
    norm: F32,
    weight_gate: F32,
    weight_up: F32,
    *,
    eps: float,
    activation: str,
) -> tuple[F32, F32]:
    """The joint between two sandwiched blocks and the gated MLP that follows it."""
    total, h = sandwich_norm(x, a, post_norm, norm, eps=eps)
    return total, glu_matmul(h, weight_gate, weight_up, activation=activation)


def _norms_fit(shapes: Shapes) -> None:
    for port in ("a", "post_norm", "norm"):
        if port in shapes:
            require(
                shapes[port][-1:] == shapes["x"][-1:],
                f"{port} has shape {shapes[port]}, x has {shapes['x'][-1]} columns",
            )


def _infer_norm_qkv(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    _norms_fit(shapes)
    return infer_qkv(shapes, attrs)


def _infer_norm_glu(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    _norms_fit(shapes)
    return infer_glu(shapes, attrs)


def _infer_joint_glu(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    return {"sum": shapes["x"], **_infer_norm_glu(shapes, attrs)}


def _glu_case(
    gate: str,
    up: str,
    n_rows: int,
    n_cols: int,
    *,
    activation: str = "silu",
    joint: bool = False,
) -> Case:
    shapes: dict[str, tuple[int, ...]] = {"x": (1, n_cols), "norm": (n_cols,)}
    if joint:
        shapes = {"x": (1, n_cols), "a": (1, n_cols), "post_norm": (n_cols,), "norm": (n_cols,)}
    shapes |= {"weight_gate": (n_rows, n_cols), "weight_up": (n_rows, n_cols)}
    attrs: dict[str, Attr] = {"eps": 1e-6, "activation": activation}
    types = {"weight_gate": gate, "weight_up": up}
    return Case(f"{gate}-{up}-{n_rows}x{n_cols}", shapes, attrs, types)


def _qkv_case(types: tuple[str, str, str], rows: tuple[int, int, int], n_cols: int) -> Case:
    shapes: dict[str, tuple[int, ...]] = {"x": (1, n_cols), "norm": (n_cols,)}
    shapes |= {f"weight_{p}": (n, n_cols) for p, n in zip("qkv", rows, strict=True)}
    chosen = {f"weight_{p}": t for p, t in zip("qkv", types, strict=True)}
    return Case(f"{'-'.join(types)}-{sum(rows)}x{n_cols}", shapes, {"eps": 1e-6}, chosen)


_GLU_ATTRS = {**EPS, "activation": AttrSpec(str, choices=ACTIVATIONS)}
_QKV_PORTS = ("weight_q", "weight_k", "weight_v")
_GLU_PORTS = ("weight_gate", "weight_up")

NORM_QKV_MATMUL = OpDef(
    "norm_qkv_matmul",
    ("x", "norm", *_QKV_PORTS),
    ("y",),
    _infer_norm_qkv,
    norm_qkv_matmul,
    attrs=EPS,
    weights=("norm", *_QKV_PORTS),
    cases=(
        # The shapes of a case of qkv_matmul: where this op runs as its parts, so does the kernel.
        _qkv_case(("Q5_0", "Q5_0", "Q8_0"), (96, 32, 32), 256),
        _qkv_case(("Q5_0", "Q5_0", "Q8_0"), (96, 32, 32), 896),
        _qkv_case(("F32", "F32", "F32"), (36, 8, 6), 36),
        _qkv_case(("Q4_K", "Q4_K", "Q6_K"), (64, 32, 32), 1280),
        _qkv_case(("F16", "Q8_0", "Q4_0"), (30, 10, 7), 96),
        _qkv_case(("F16", "F32", "BF16"), (12, 8, 7), 66),
    ),
)
NORM_GLU_MATMUL = OpDef(
    "norm_glu_matmul",
    ("x", "norm", *_GLU_PORTS),
    ("y",),
    _infer_norm_glu,
    norm_glu_matmul,
    attrs=_GLU_ATTRS,
    weights=("norm", *_GLU_PORTS),
    cases=(
        _glu_case("Q4_K", "Q6_K", 130, 768),
        _glu_case("F32", "F32", 5, 100),
        _glu_case("Q8_0", "Q5_0", 67, 1152),
        _glu_case("F32", "F16", 13, 75),
        _glu_case("Q5_0", "Q4_0", 21, 256, activation="gelu_tanh"),
    ),
)
JOINT_GLU_MATMUL = OpDef(
    "joint_glu_matmul",
    ("x", "a", "post_norm", "norm", *_GLU_PORTS),
    ("sum", "y"),
    _infer_joint_glu,
    joint_glu_matmul,
    attrs=_GLU_ATTRS,
    weights=("post_norm", "norm", *_GLU_PORTS),
    # Square, so that a test can add both outputs.
    cases=(
        _glu_case("Q5_0", "Q8_0", 640, 640, activation="gelu_tanh", joint=True),
        _glu_case("F32", "F32", 36, 36, activation="gelu_tanh", joint=True),
        _glu_case("Q4_K", "Q4_K", 256, 256, activation="gelu_tanh", joint=True),
        _glu_case("BF16", "F32", 75, 75, activation="gelu_tanh", joint=True),
    ),
)
OPS = (NORM_QKV_MATMUL, NORM_GLU_MATMUL, JOINT_GLU_MATMUL)
