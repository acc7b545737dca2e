"""Products with a weight of the file, alone and fused with their neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..gguf.quants import QUANTS, runnable_names
from ..graph.ir import Attr, Shape
from .elementwise import ACTIVATIONS, ALL_ACTIVATIONS, activate, glu
from .opdef import AttrSpec, Case, OpDef, Shapes, require
from .product import product

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
WEIGHT_TYPES = tuple(runnable_names())
_COLS_32 = (96, 32, 896, 1152)
_COLS_256 = (256, 768, 1280)
_TOKENS = (7, 2, 33)


def get_rows(ids: I32, table: F32, *, scale: float = 1.0) -> F32:
    """Embedding lookup, times a constant: ``table[ids] * scale``."""
    rows = table[ids]
    return rows if scale == 1.0 else rows * np.float32(scale)


def position_rows(positions: I32, table: F32) -> F32:
    """Learned position embedding: ``table[positions]``."""
    return table[positions]


def matmul(x: F32, weight: F32, bias: F32 | None = None) -> F32:
    """``x @ weight.T + bias`` for x [n, n_cols] and weight [n_rows, n_cols]."""
    y = product(x, weight)
    return y if bias is None else y + bias


def matmul_add(x: F32, weight: F32, residual: F32, bias: F32 | None = None) -> F32:
    """A product that joins the residual stream: ``residual + matmul(x, weight, bias)``."""
    return residual + matmul(x, weight, bias)


def matmul_activate(x: F32, weight: F32, bias: F32 | None = None, *, activation: str) -> F32:
    """The first half of an MLP without a gate: ``activate(matmul(x, weight, bias))``."""
    return activate(matmul(x, weight, bias), activation=activation)


def qkv_matmul(
    x: F32,
    weight_q: F32,
    weight_k: F32,
    weight_v: F32,
    bias_q: F32 | None = None,
    bias_k: F32 | None = None,
    bias_v: F32 | None = None,
) -> F32:
    """Queries, keys and values of one input, side by side in one row."""
    parts = [
        matmul(x, weight_q, bias_q),
        matmul(x, weight_k, bias_k),
        matmul(x, weight_v, bias_v),
    ]
    return np.concatenate(parts, axis=-1)


def glu_matmul(x: F32, weight_gate: F32, weight_up: F32, *, activation: str) -> F32:
    """The first half of a gated MLP: ``glu(matmul(x, gate), matmul(x, up))``."""
    return glu(matmul(x, weight_gate), matmul(x, weight_up), activation=activation)


def _rows_of(shapes: Shapes, weight: str, bias: str | None = None) -> int:
    n_rows, n_cols = shapes[weight]
    require(
        shapes["x"][-1] == n_cols,
        f"x has {shapes['x'][-1]} columns, but {weight} has shape {shapes[weight]}",
    )
    if bias is not None and bias in shapes:
        require(shapes[bias] == (n_rows,), f"{bias} has shape {shapes[bias]}, not ({n_rows},)")
    assert isinstance(n_rows, int)
    return n_rows


def _infer_get_rows(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    require(len(shapes["table"]) == 2, f"table has shape {shapes['table']}, not two dimensions")
    return {"y": (*shapes["ids"], shapes["table"][-1])}


def _infer_position_rows(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    require(len(shapes["table"]) == 2, f"table has shape {shapes['table']}, not two dimensions")
    return {"y": (*shapes["positions"], shapes["table"][-1])}


def _infer_matmul(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    y = (*shapes["x"][:-1], _rows_of(shapes, "weight", "bias"))
    if "residual" in shapes:
        require(shapes["residual"] == y, f"residual has shape {shapes['residual']}, not {y}")
    return {"y": y}


def infer_qkv(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    """Shape rule of three products side by side."""
    n_rows = sum(_rows_of(shapes, f"weight_{p}", f"bias_{p}") for p in "qkv")
    return {"y": (*shapes["x"][:-1], n_rows)}


def infer_glu(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    """Shape rule of a gated product."""
    gate, up = _rows_of(shapes, "weight_gate"), _rows_of(shapes, "weight_up")
    require(gate == up, f"gate has {gate} rows, up has {up}")
    return {"y": (*shapes["x"][:-1], gate)}


def _cols(name: str, turn: int = 0) -> int:
    """Columns that are whole blocks of a type; successive turns go through awkward numbers."""
    sizes = _COLS_256 if QUANTS[name].block_size == 256 else _COLS_32
    return sizes[turn % len(sizes)]


def _matmul_case(
    name: str, tokens: int, n_rows: int, n_cols: int, **extra: tuple[int, ...]
) -> Case:
    shapes = {"x": (tokens, n_cols), "weight": (n_rows, n_cols), **extra}
    return Case(f"{name}-{tokens}x{n_rows}x{n_cols}", shapes, types={"weight": name})


_MATMUL_CASES = tuple(
    _matmul_case(name, tokens, 67, _cols(name, turn))
    for i, name in enumerate(WEIGHT_TYPES)
    for tokens, turn in ((1, i), (_TOKENS[i % 3], i // 2))
) + tuple(
    _matmul_case(name, tokens, n_rows, n_cols)
    for name, tokens, n_rows, n_cols in [
        ("Q8_0", 2, 33, 32),
        ("F32", 33, 130, 160),
        ("Q5_0", 33, 65, 896),
        ("Q8_0", 1, 257, 1152),
        ("F32", 1, 5, 36),
        ("Q4_0", 512, 70, 96),
        ("Q8_0", 65, 129, 1152),
        ("Q4_K", 7, 64, 256),
        ("F32", 1, 7, 75),
        ("F16", 7, 33, 75),
        ("BF16", 40, 6, 66),
        ("F32", 70, 65, 3),
    ]
)

GET_ROWS = OpDef(
    "get_rows",
    ("ids", "table"),
    ("y",),
    _infer_get_rows,
    get_rows,
    attrs={"scale": AttrSpec(float, 1.0)},
    weights=("table",),
    cases=tuple(
        Case(
            f"{name}-{tokens}",
            {"ids": (tokens,), "table": (67, _cols(name))},
            {"scale": 1.0 if tokens == 1 else 2.5},
            types={"table": name},
            nmse=0.0 if tokens == 1 else 1e-12,
        )
        for name in WEIGHT_TYPES
        for tokens in (1, 5)
    )
    + tuple(
        Case(
            f"{name}-{tokens}x{n_cols}",
            {"ids": (tokens,), "table": (tokens + 28, n_cols)},
            {"scale": 2.5},
            types={"table": name},
            nmse=1e-12,
        )
        for name, tokens, n_cols in [
            ("Q8_0", 1, 896),
            ("F32", 7, 35),
            ("F16", 33, 32),
            ("Q5_0", 2, 1152),
            ("Q6_K", 512, 256),
        ]
    ),
)
POSITION_ROWS = OpDef(
    "position_rows",
    ("positions", "table"),
    ("y",),
    _infer_position_rows,
    position_rows,
    weights=("table",),
    cases=tuple(
        Case(
            f"{name}-{tokens}@{position}",
            {"positions": (tokens,), "table": (67, _cols(name))},
            types={"table": name},
            position=position,
            nmse=0.0,
        )
        for name, tokens, position in [("F32", 1, 66), ("F16", 5, 3), ("Q8_0", 33, 0)]
    ),
)
MATMUL = OpDef(
    "matmul",
    ("x", "weight"),
    ("y",),
    _infer_matmul,
    matmul,
    optional=("bias",),
    weights=("weight", "bias"),
    cases=(
        *_MATMUL_CASES,
        _matmul_case("Q8_0", 3, 67, 96, bias=(67,)),
        _matmul_case("F16", 1, 33, 96, bias=(33,)),
    ),
)
MATMUL_ADD = OpDef(
    "matmul_add",
    ("x", "weight", "residual"),
    ("y",),
    _infer_matmul,
    matmul_add,
    optional=("bias",),
    weights=("weight", "bias"),
    cases=(
        _matmul_case("Q4_K", 1, 67, 256, residual=(1, 67)),
        _matmul_case("Q8_0", 9, 67, 96, residual=(9, 67)),
        _matmul_case("F32", 1, 67, 96, residual=(1, 67), bias=(67,)),
        _matmul_case("F16", 5, 75, 66, residual=(5, 75), bias=(75,)),
    ),
)
MATMUL_ACTIVATE = OpDef(
    "matmul_activate",
    ("x", "weight"),
    ("y",),
    _infer_matmul,
    matmul_activate,
    attrs={"activation": AttrSpec(str, choices=ALL_ACTIVATIONS)},
    optional=("bias",),
    weights=("weight", "bias"),
    cases=tuple(
        replace(
            _matmul_case(name, 1, 67, _cols(name), **bias),
            name=f"{name}-{activation}{'-bias' if bias else ''}",
            attrs={"activation": activation},
        )
        for name, activation, bias in [
            ("Q4_K", "relu2", {}),
            ("Q8_0", "gelu", {"bias": (67,)}),
            ("F32", "gelu_tanh", {"bias": (67,)}),
            ("F16", "relu", {}),
        ]
    ),
)
_QKV_BIASES: tuple[dict[str, tuple[int, ...]], ...] = (
    {},
    {"bias_q": (96,), "bias_k": (32,), "bias_v": (32,)},
)
_ODD_QKV = (
    Case(
        "F32-F16-BF16-odd",
        {"x": (1, 75), "weight_q": (12, 75), "weight_k": (4, 75), "weight_v": (5, 75)},
        types={"weight_k": "F16", "weight_v": "BF16"},
    ),
)

QKV_MATMUL = OpDef(
    "qkv_matmul",
    ("x", "weight_q", "weight_k", "weight_v"),
    ("y",),
    infer_qkv,
    qkv_matmul,
    optional=("bias_q", "bias_k", "bias_v"),
    weights=("weight_q", "weight_k", "weight_v", "bias_q", "bias_k", "bias_v"),
    cases=tuple(
        Case(
            f"{q}-{k}-{v}{'-bias' if biases else ''}",
            {
                "x": (1, 256),
                "weight_q": (96, 256),
                "weight_k": (32, 256),
                "weight_v": (32, 256),
                **biases,
            },
            types={"weight_q": q, "weight_k": k, "weight_v": v},
        )
        for q, k, v in [
            ("Q5_0", "Q5_0", "Q8_0"),
            ("F32", "F32", "F32"),
            ("Q4_K", "Q4_K", "Q6_K"),
            ("IQ2_S", "IQ2_S", "IQ1_M"),
        ]
        for biases in _QKV_BIASES
    )
    + _ODD_QKV,
)
GLU_MATMUL = OpDef(
    "glu_matmul",
    ("x", "weight_gate", "weight_up"),
    ("y",),
    infer_glu,
    glu_matmul,
    attrs={"activation": AttrSpec(str, choices=ACTIVATIONS)},
    weights=("weight_gate", "weight_up"),
    cases=tuple(
        Case(
            f"{gate}-{up}-{activation}",
            {"x": (1, 256), "weight_gate": (130, 256), "weight_up": (130, 256)},
            {"activation": activation},
            types={"weight_gate": gate, "weight_up": up},
        )
        for gate, up in [("Q5_0", "Q5_0"), ("F32", "F32"), ("Q4_K", "Q6_K")]
        for activation in ACTIVATIONS
    ),
)
OPS = (GET_ROWS, POSITION_ROWS, MATMUL, MATMUL_ADD, MATMUL_ACTIVATE, QKV_MATMUL, GLU_MATMUL)
