"""Ops that work value by value, and the two that pick rows of activations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..graph.ir import Attr, Shape
from .opdef import AttrSpec, Case, OpDef, Shapes, require, same_as

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
ACTIVATIONS = ("silu", "gelu_tanh")
"""Gates of a GLU."""
ALL_ACTIVATIONS = (*ACTIVATIONS, "gelu", "relu", "relu2")
"""Activations of an MLP without a gate."""


def erf(x: F32) -> NDArray[np.float64]:
    """Error function by Abramowitz & Stegun 7.1.26, absolute error below 1.5e-7."""
    a = np.abs(x.astype(np.float64))
    t = 1 / (1 + 0.3275911 * a)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (
        1.421413741 + t * (-1.453152027 + t * 1.061405429))))  # fmt: skip
    result: NDArray[np.float64] = np.sign(x) * (1 - poly * np.exp(-a * a))
    return result


def activate(x: F32, *, activation: str) -> F32:
    """SiLU, GELU in its tanh or exact form (Hendrycks & Gimpel 2016), ReLU or its square."""
    if activation == "silu":
        with np.errstate(over="ignore"):
            return np.asarray(x / (np.float32(1) + np.exp(-x)), np.float32)
    if activation == "gelu":
        return np.asarray(0.5 * x * (1 + erf(x / np.float32(np.sqrt(2)))), np.float32)
    if activation.startswith("relu"):
        positive = np.maximum(x, np.float32(0))
        return positive if activation == "relu" else np.asarray(positive * positive, np.float32)
    cubic = x + np.float32(0.044715) * x * x * x
    inner = np.tanh(np.float32(np.sqrt(2 / np.pi)) * cubic)
    return np.asarray(np.float32(0.5) * x * (np.float32(1) + inner), np.float32)


def glu(gate: F32, up: F32, *, activation: str) -> F32:
    """Gated unit (Shazeer 2020): ``activate(gate) * up``."""
    return activate(gate, activation=activation) * up


def add(a: F32, b: F32) -> F32:
    """Sum of two activations."""
    return a + b


def scale(x: F32, *, factor: float) -> F32:
    """Every value times a constant."""
    return x * np.float32(factor)


def scale_by(x: F32, weight: F32) -> F32:
    """Every value times the one number of a tensor."""
    return x * weight


def add_row(x: F32, weight: F32) -> F32:
    """Each row plus the one row of a tensor."""
    total: F32 = x + weight
    return total


def columns(x: F32, *, start: int, count: int) -> F32:
    """``count`` columns of each row, from ``start`` on."""
    picked: F32 = x[..., start : start + count]
    return picked


def softcap(x: F32, *, cap: float) -> F32:
    """Values squeezed into (-cap, cap): ``cap * tanh(x / cap)`` (Gemma 2)."""
    capped: F32 = np.float32(cap) * np.tanh(x / np.float32(cap))
    return capped


def clamp(x: F32, *, limit: float) -> F32:
    """Values kept within -limit .. limit."""
    kept: F32 = np.clip(x, np.float32(-limit), np.float32(limit))
    return kept


def position_scale(x: F32, positions: I32, *, slope: float, length: int) -> F32:
    """Rows times ``1 + slope * ln(1 + floor(position / length))``.

    The attention temperature of Llama 4 and Mistral 3, applied to queries: attention stays as
    sharp over a long context as over the first ``length`` tokens.
    """
    steps = np.log1p((positions // length).astype(np.float32))
    factors = np.float32(1) + np.float32(slope) * steps
    return np.asarray(x * factors[:, None], np.float32)


def select_rows(x: F32, rows: I32) -> F32:
    """The rows of ``x`` that the caller wants an output for."""
    picked: F32 = x[rows]
    return picked


def argmax(x: F32) -> I32:
    """Index of the largest value of each row, the lowest of equals; -1 for a row with a NaN."""
    best: I32 = np.where(np.isnan(x).any(axis=-1), -1, np.argmax(x, axis=-1)).astype(np.int32)
    return best


def _infer_two(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    first, second = shapes.values()
    require(first == second, f"both inputs must have one shape, got {dict(shapes)}")
    return {"y": first}


def _infer_scale_by(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    require(shapes["weight"] == (1,), f"weight has shape {shapes['weight']}, not (1,)")
    return {"y": shapes["x"]}


def _infer_add_row(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    wanted = (1, shapes["x"][-1])
    require(shapes["weight"] == wanted, f"weight has shape {shapes['weight']}, not {wanted}")
    return {"y": shapes["x"]}


def _infer_columns(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    start, count, n_cols = attrs["start"], attrs["count"], shapes["x"][-1]
    assert isinstance(start, int) and isinstance(count, int) and isinstance(n_cols, int)
    require(
        start >= 0 and count > 0 and start + count <= n_cols,
        f"x has {n_cols} columns, but {count} from {start} on are asked for",
    )
    return {"y": (*shapes["x"][:-1], count)}


def _infer_select(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    return {"y": (*shapes["rows"], shapes["x"][-1])}


_PAIRS = [(1, 33), (1, 2048), (7, 160), (33, 96)]

OPS = (
    OpDef(
        "glu",
        ("gate", "up"),
        ("y",),
        _infer_two,
        glu,
        attrs={"activation": AttrSpec(str, choices=ACTIVATIONS)},
        cases=tuple(
            Case(f"{a}-{t}x{n}", {"gate": (t, n), "up": (t, n)}, {"activation": a})
            for a in ACTIVATIONS
            for t, n in _PAIRS
        ),
    ),
    OpDef(
        "activate",
        ("x",),
        ("y",),
        same_as("x"),
        activate,
        attrs={"activation": AttrSpec(str, choices=ALL_ACTIVATIONS)},
        cases=tuple(
            Case(f"{a}-{t}x{n}", {"x": (t, n)}, {"activation": a})
            for a in ALL_ACTIVATIONS
            for t, n in _PAIRS[:3]
        ),
    ),
    OpDef(
        "clamp",
        ("x",),
        ("y",),
        same_as("x"),
        clamp,
        attrs={"limit": AttrSpec(float)},
        cases=tuple(Case(f"{t}x{n}", {"x": (t, n)}, {"limit": 0.7}) for t, n in _PAIRS),
    ),
    OpDef(
        "position_scale",
        ("x", "positions"),
        ("y",),
        same_as("x"),
        position_scale,
        attrs={"slope": AttrSpec(float), "length": AttrSpec(int)},
        cases=tuple(
            Case(f"{t}x{n}@{p}", {"x": (t, n)}, {"slope": 0.5, "length": 8}, position=p)
            for (t, n), p in zip(_PAIRS, (0, 7, 30, 5), strict=True)
        ),
    ),
    OpDef(
        "add",
        ("a", "b"),
        ("y",),
        _infer_two,
        add,
        cases=tuple(Case(f"{t}x{n}", {"a": (t, n), "b": (t, n)}) for t, n in _PAIRS),
    ),
    OpDef(
        "scale",
        ("x",),
        ("y",),
        same_as("x"),
        scale,
        attrs={"factor": AttrSpec(float)},
        cases=tuple(Case(f"{t}x{n}", {"x": (t, n)}, {"factor": 0.3}) for t, n in _PAIRS),
    ),
    OpDef(
        "scale_by",
        ("x", "weight"),
        ("y",),
        _infer_scale_by,
        scale_by,
        weights=("weight",),
        cases=tuple(Case(f"{t}x{n}", {"x": (t, n), "weight": (1,)}) for t, n in _PAIRS[1:]),
    ),
    OpDef(
        "add_row",
        ("x", "weight"),
        ("y",),
        _infer_add_row,
        add_row,
        weights=("weight",),
        cases=(
            *(Case(f"{t}x{n}", {"x": (t, n), "weight": (1, n)}) for t, n in _PAIRS),
            Case("7x96-q8_0", {"x": (7, 96), "weight": (1, 96)}, types={"weight": "Q8_0"}),
        ),
    ),
    OpDef(
        "columns",
        ("x",),
        ("y",),
        _infer_columns,
        columns,
        attrs={"start": AttrSpec(int), "count": AttrSpec(int)},
        cases=(
            Case("1x33-7+20", {"x": (1, 33)}, {"start": 7, "count": 20}),
            Case("7x160-64+96", {"x": (7, 160)}, {"start": 64, "count": 96}),
        ),
    ),
    OpDef(
        "softcap",
        ("x",),
        ("y",),
        same_as("x"),
        softcap,
        attrs={"cap": AttrSpec(float)},
        cases=tuple(Case(f"{t}x{n}", {"x": (t, n)}, {"cap": 1.5}) for t, n in _PAIRS),
    ),
    OpDef(
        "select_rows",
        ("x", "rows"),
        ("y",),
        _infer_select,
        select_rows,
        cases=(
            Case("one", {"x": (1, 33), "rows": (1,)}),
            Case("last", {"x": (7, 96), "rows": (1,)}),
            Case("many", {"x": (33, 160), "rows": (5,)}),
        ),
    ),
    OpDef(
        "argmax",
        ("x",),
        ("y",),
        lambda shapes, attrs: {"y": shapes["x"][:-1]},
        argmax,
        cases=tuple(Case(f"{t}x{n}", {"x": (t, n)}) for t, n in [(1, 263), (3, 5000), (2, 70001)]),
    ),
)
