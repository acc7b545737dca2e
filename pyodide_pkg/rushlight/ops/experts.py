"""Mixture of experts (Shazeer et al. 2017): which experts a token takes, and their products.

Expert weights are stacked, [n_expert, n_rows, n_cols]. What a token makes with its ``n_used``
experts lies side by side in its row, in the order of its choice; a choice is a *slot*. A token's
product may take one input for all slots, or each slot's own. Fused ops call the parts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..graph.ir import Attr, Shape
from . import expert_cases as cases
from .elementwise import ACTIVATIONS, glu
from .opdef import AttrSpec, OpDef, Shapes, require
from .product import product

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
GATINGS = ("softmax", "sigmoid", "softmax_chosen")
EXPERT_ACTIVATIONS = (*ACTIVATIONS, "clamped")
MIN_TOTAL = 2.0**-14
"""Least sum of shares that renormalising divides by."""


def sigmoid(x: F32) -> F32:
    """``1 / (1 + exp(-x))``."""
    with np.errstate(over="ignore"):
        return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-x)), np.float32)


def softmax(x: F32) -> F32:
    """Shares of each row that sum to one."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True), np.float32)


def expert_route(
    logits: F32,
    bias: F32 | None = None,
    *,
    n_used: int,
    gating: str,
    normalize: bool = False,
    scale: float = 1.0,
) -> tuple[I32, F32]:
    """Each token's experts, the best first, and the share of each in the sum.

    Scores are the softmax or sigmoid of the router's logits, or (``softmax_chosen``) the logits
    themselves, whose softmax is then taken over the chosen ones. ``bias`` counts for the choice
    alone (DeepSeek-V3); of equals the lower index wins. ``normalize`` makes shares sum to one.
    """
    scores = logits
    if gating != "softmax_chosen":
        scores = softmax(logits) if gating == "softmax" else sigmoid(logits)
    wanted = scores if bias is None else scores + bias
    experts = np.argsort(-wanted, axis=-1, kind="stable")[:, :n_used].astype(np.int32)
    shares = np.take_along_axis(scores, experts, axis=-1)
    if gating == "softmax_chosen":
        shares = softmax(shares)
    if normalize:
        shares = shares / np.maximum(shares.sum(axis=-1, keepdims=True), np.float32(MIN_TOTAL))
    return experts, np.asarray(shares * np.float32(scale), np.float32)


def expert_matmul(x: F32, experts: I32, weight: F32, bias: F32 | None = None) -> F32:
    """For each slot of each token ``x @ weight[expert].T + bias[expert]``; x [n, n_cols] or
    [n, n_used * n_cols], y [n, n_used * n_rows]."""
    n_rows, n_cols = weight.shape[1:]
    slots = x.reshape(len(x), -1, n_cols)
    y = np.empty((*experts.shape, n_rows), np.float32)
    for expert in np.unique(experts):
        token, slot = np.nonzero(experts == expert)
        made = product(slots[token, slot if slots.shape[1] > 1 else 0], weight[expert])
        y[token, slot] = made if bias is None else made + bias[expert]
    return y.reshape(len(x), -1)


def expert_sum(x: F32, shares: F32) -> F32:
    """A token's slots summed, each times its share: [n, n_used * n_cols] to [n, n_cols]."""
    n, n_used = shares.shape
    return np.asarray((x.reshape(n, n_used, -1) * shares[..., None]).sum(axis=1), np.float32)


def clamped_glu(gate: F32, up: F32, *, alpha: float, limit: float) -> F32:
    """GPT-OSS's gated unit: ``g * sigmoid(alpha * g) * (up + 1)``, g and up kept within limit."""
    g = np.minimum(gate, np.float32(limit))
    u = np.clip(up, np.float32(-limit), np.float32(limit))
    return np.asarray(g * sigmoid(np.float32(alpha) * g) * (u + np.float32(1)), np.float32)


def sigmoid_gate(a: F32, x: F32, weight: F32) -> F32:
    """Rows of ``a``, each times ``sigmoid(dot(x, weight))``: a shared expert's own gate."""
    return a * sigmoid(product(x, weight.reshape(1, -1)))


def expert_glu_matmul(
    x: F32,
    experts: I32,
    weight_gate: F32,
    weight_up: F32,
    bias_gate: F32 | None = None,
    bias_up: F32 | None = None,
    *,
    activation: str,
    alpha: float = 1.0,
    limit: float = 1.0,
) -> F32:
    """The first half of each slot's gated MLP; ``clamped`` takes ``alpha`` and ``limit``."""
    gate = expert_matmul(x, experts, weight_gate, bias_gate)
    up = expert_matmul(x, experts, weight_up, bias_up)
    if activation == "clamped":
        return clamped_glu(gate, up, alpha=alpha, limit=limit)
    return glu(gate, up, activation=activation)


def expert_matmul_sum(
    x: F32,
    experts: I32,
    shares: F32,
    weight: F32,
    bias: F32 | None = None,
    residual: F32 | None = None,
) -> F32:
    """The second half and the sum: ``expert_sum(expert_matmul(x, ..), shares) + residual``."""
    y = expert_sum(expert_matmul(x, experts, weight, bias), shares)
    return y if residual is None else residual + y


def _stack(shapes: Shapes, weight: str, bias: str) -> tuple[int, int]:
    """Slots of a token and rows of an expert, once everything fits."""
    n_used = shapes["experts"][-1]
    n_expert, n_rows, n_cols = shapes[weight]
    assert isinstance(n_used, int) and isinstance(n_rows, int) and isinstance(n_cols, int)
    require(
        shapes["x"][-1] in (n_cols, n_used * n_cols),
        f"x has {shapes['x'][-1]} columns for {n_used} slots, but {weight} has shape "
        f"{shapes[weight]}",
    )
    if bias in shapes:
        want = (n_expert, n_rows)
        require(shapes[bias] == want, f"{bias} has shape {shapes[bias]}, not {want}")
    return n_used, n_rows


def _infer_route(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    n, n_expert = shapes["logits"]
    n_used = attrs["n_used"]
    assert isinstance(n_used, int) and isinstance(n_expert, int)
    require(1 <= n_used <= n_expert, f"n_used is {n_used} of {n_expert} experts")
    if "bias" in shapes:
        require(shapes["bias"] == (n_expert,), f"bias has shape {shapes['bias']}")
    return {"experts": (n, n_used), "shares": (n, n_used)}


def _infer_matmul(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    n_used, n_rows = _stack(shapes, "weight", "bias")
    return {"y": (shapes["x"][0], n_used * n_rows)}


def _infer_glu(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    n_used, n_rows = _stack(shapes, "weight_gate", "bias_gate")
    up = _stack(shapes, "weight_up", "bias_up")[1]
    require(up == n_rows, f"gate has {n_rows} rows, up has {up}")
    return {"y": (shapes["x"][0], n_used * n_rows)}


def _infer_sum(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    n_used, width = shapes["shares"][-1], shapes["x"][-1]
    assert isinstance(n_used, int) and isinstance(width, int)
    require(width % n_used == 0, f"x has {width} columns for {n_used} slots")
    return {"y": (shapes["x"][0], width // n_used)}


def _infer_matmul_sum(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    y = (shapes["x"][0], _stack(shapes, "weight", "bias")[1])
    require(shapes["shares"] == shapes["experts"], "shares and experts differ in shape")
    require(shapes.get("residual", y) == y, f"residual has shape {shapes.get('residual')}, not {y}")
    return {"y": y}


def _infer_clamped(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    require(shapes["gate"] == shapes["up"], f"both inputs must have one shape, got {dict(shapes)}")
    return {"y": shapes["gate"]}


def _infer_gate(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    *ones, n_cols = shapes["weight"]
    fits = ones in ([], [1]) and shapes["x"][-1] == n_cols
    require(fits, f"weight has shape {shapes['weight']}, x has {shapes['x'][-1]} columns")
    return {"y": shapes["a"]}


_ACTIVATION = {
    "activation": AttrSpec(str, choices=EXPERT_ACTIVATIONS),
    "alpha": AttrSpec(float, 1.0),
    "limit": AttrSpec(float, 1.0),
}

EXPERT_ROUTE = OpDef(
    "expert_route",
    ("logits",),
    ("experts", "shares"),
    _infer_route,
    expert_route,
    attrs={
        "n_used": AttrSpec(int),
        "gating": AttrSpec(str, choices=GATINGS),
        "normalize": AttrSpec(bool, False),
        "scale": AttrSpec(float, 1.0),
    },
    optional=("bias",),
    weights=("bias",),
    cases=cases.ROUTE,
)
EXPERT_MATMUL = OpDef(
    "expert_matmul",
    ("x", "experts", "weight"),
    ("y",),
    _infer_matmul,
    expert_matmul,
    optional=("bias",),
    weights=("weight", "bias"),
    cases=cases.MATMUL,
)
EXPERT_SUM = OpDef("expert_sum", ("x", "shares"), ("y",), _infer_sum, expert_sum, cases=cases.SUM)
EXPERT_GLU_MATMUL = OpDef(
    "expert_glu_matmul",
    ("x", "experts", "weight_gate", "weight_up"),
    ("y",),
    _infer_glu,
    expert_glu_matmul,
    attrs=_ACTIVATION,
    optional=("bias_gate", "bias_up"),
    weights=("weight_gate", "weight_up", "bias_gate", "bias_up"),
    cases=cases.GLU,
)
EXPERT_MATMUL_SUM = OpDef(
    "expert_matmul_sum",
    ("x", "experts", "shares", "weight"),
    ("y",),
    _infer_matmul_sum,
    expert_matmul_sum,
    optional=("bias", "residual"),
    weights=("weight", "bias"),
    cases=cases.MATMUL_SUM,
)
CLAMPED_GLU = OpDef(
    "clamped_glu",
    ("gate", "up"),
    ("y",),
    _infer_clamped,
    clamped_glu,
    attrs={"alpha": AttrSpec(float), "limit": AttrSpec(float)},
    cases=cases.CLAMPED,
)
SIGMOID_GATE = OpDef(
    "sigmoid_gate",
    ("a", "x", "weight"),
    ("y",),
    _infer_gate,
    sigmoid_gate,
    weights=("weight",),
    cases=cases.GATE,
)
OPS = (
    EXPERT_ROUTE,
    EXPERT_MATMUL,
    EXPERT_SUM,
    EXPERT_GLU_MATMUL,
    EXPERT_MATMUL_SUM,
    CLAMPED_GLU,
    SIGMOID_GATE,
)
