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


def activate(x: F32, activation: str) -> F32:
    """SiLU, or the tanh form of GELU (Hendrycks & Gimpel 2016)."""
    if activation == "silu":
        with np.errstate(over="ignore"):
            return np.asarray(x / (np.float32(1) + np.exp(-x)), np.float32)
    cubic = x + np.float32(0.044715) * x * x * x
    inner = np.tanh(np.float32(np.sqrt(2 / np.pi)) * cubic)
    return np.asarray(np.float32(0.5) * x * (np.float32(1) + inner), np.float32)


def glu(gate: F32, up: F32, *, activation: str) -> F32:
    """Gated unit (Shazeer 2020): ``activate(gate) * up``."""
    return activate(gate, activation) * up


def add(a: F32, b: F32) -> F32:
    """Sum of two activations."""
    return a + b


def scale(x: F32, *, factor: float) -> F32:
    """Every value times a constant."""
    return x * np.float32(factor)


def softcap(x: F32, *, cap: float) -> F32:
    """Values squeezed into (-cap, cap): ``cap * tanh(x / cap)`` (Gemma 2)."""
    capped: F32 = np.float32(cap) * np.tanh(x / np.float32(cap))
    return capped


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
