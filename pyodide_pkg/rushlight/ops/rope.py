"""Rotary position embedding (Su et al. 2021): pairs of values turned by position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..graph.ir import Attr, Shape
from .opdef import AttrSpec, Case, OpDef, Shapes, require

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]

ROPE_ATTRS = {
    "n_head": AttrSpec(int),
    "head_dim": AttrSpec(int),
    "n_rot": AttrSpec(int),
    "base": AttrSpec(float),
    "layout": AttrSpec(str, choices=("norm", "neox")),
    "freq_scale": AttrSpec(float, 1.0),
    "attn_factor": AttrSpec(float, 1.0),
    "yarn_mix": AttrSpec(float, 0.0),
    "yarn_low": AttrSpec(float, 0.0),
    "yarn_high": AttrSpec(float, 0.0),
}
TABLE_ATTRS = ("n_rot", "base", "freq_scale", "attn_factor", "yarn_mix", "yarn_low", "yarn_high")
"""The attributes that decide a cos/sin table; layers that share them share one."""
TABLE_DEFAULTS = {
    k: ROPE_ATTRS[k].default for k in TABLE_ATTRS if ROPE_ATTRS[k].default is not None
}


def cos_sin(
    positions: I32, attrs: Mapping[str, Any], freq_factors: F32 | None = None
) -> tuple[F32, F32]:
    """Cosine and sine of each position's angles, float32 [n, n_rot / 2] each.

    Angles are made in float32 as the reference implementations do. ``freq_factors`` divide the
    frequencies (Llama 3 scaling, longrope); ``freq_scale`` multiplies the position (linear
    scaling). With ``yarn_mix`` (YaRN, Peng et al. 2023) only slow pairs are scaled: those before
    ``yarn_low`` keep their frequency, those after ``yarn_high`` are scaled, and between them the
    share grows linearly. ``attn_factor`` multiplies cosine and sine.
    """
    angles = positions.astype(np.float32)[:, None] * frequencies(attrs, freq_factors)[None, :]
    factor = np.float32(attrs["attn_factor"])
    return np.cos(angles) * factor, np.sin(angles) * factor


def frequencies(attrs: Mapping[str, Any], freq_factors: F32 | None = None) -> F32:
    """The angle that each pair turns by per position, float32 [n_rot / 2]."""
    half = np.arange(0, attrs["n_rot"], 2, dtype=np.float32) / np.float32(attrs["n_rot"])
    turns = np.float32(1.0) / np.power(np.float32(attrs["base"]), half, dtype=np.float32)
    if freq_factors is not None:
        turns = turns / freq_factors
    scaled = turns * np.float32(attrs["freq_scale"])
    if attrs["yarn_mix"]:
        width = max(attrs["yarn_high"] - attrs["yarn_low"], 1e-3)
        pairs = np.arange(len(turns), dtype=np.float32)
        ramp = np.clip((pairs - np.float32(attrs["yarn_low"])) / np.float32(width), 0, 1)
        kept = (1 - ramp) * np.float32(attrs["yarn_mix"])
        scaled = scaled * (1 - kept) + turns * kept
    return np.asarray(scaled, np.float32)


def cos_sin_table(n_ctx: int, attrs: Mapping[str, Any], freq_factors: F32 | None = None) -> F32:
    """The table that devices read instead of computing angles: float32 [n_ctx, n_rot / 2, 2].

    WGSL leaves ``sin``, ``cos`` and ``pow`` too imprecise for large angles.
    """
    return np.stack(cos_sin(np.arange(n_ctx, dtype=np.int32), attrs, freq_factors), axis=-1)


def rope(
    x: F32,
    positions: I32,
    freq_factors: F32 | None = None,
    *,
    n_head: int,
    head_dim: int,
    n_rot: int,
    layout: str,
    **table: float,
) -> F32:
    """Turn the first ``n_rot`` values of each head; "norm" pairs neighbours, "neox" halves.

    ``table``: the other attributes of ``ROPE_ATTRS``, which decide the angles.
    """
    cos, sin = cos_sin(positions, TABLE_DEFAULTS | {"n_rot": n_rot} | table, freq_factors)
    heads = x.reshape(len(x), n_head, head_dim)
    turned = heads.copy()
    if layout == "norm":
        first, second = slice(0, n_rot, 2), slice(1, n_rot, 2)
    else:
        first, second = slice(0, n_rot // 2), slice(n_rot // 2, n_rot)
    a, b = heads[..., first], heads[..., second]
    turned[..., first] = a * cos[:, None] - b * sin[:, None]
    turned[..., second] = a * sin[:, None] + b * cos[:, None]
    return turned.reshape(x.shape)


def check_rope(attrs: Mapping[str, Attr], freq_factors: Shape | None, least: int = 2) -> None:
    """The part of the shape rule that every op with a rotation of ``least`` values shares."""
    n_rot, head_dim = attrs["n_rot"], attrs["head_dim"]
    assert isinstance(n_rot, int) and isinstance(head_dim, int)
    require(least <= n_rot <= head_dim and n_rot % 2 == 0, f"n_rot is {n_rot}, head_dim {head_dim}")
    require(
        freq_factors in (None, (n_rot // 2,)),
        f"freq_factors has shape {freq_factors}, not ({n_rot // 2},)",
    )


def _infer(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    check_rope(attrs, shapes.get("freq_factors"))
    n_head, head_dim = attrs["n_head"], attrs["head_dim"]
    assert isinstance(n_head, int) and isinstance(head_dim, int)
    require(
        shapes["x"][-1] == n_head * head_dim,
        f"x has {shapes['x'][-1]} columns, not {n_head} heads of {head_dim}",
    )
    return {"y": shapes["x"]}


def _case(layout: str, tokens: int, n_head: int, head_dim: int, n_rot: int, **more: Any) -> Case:
    shapes: dict[str, tuple[int, ...]] = {"x": (tokens, n_head * head_dim)}
    if more.get("factors"):
        shapes["freq_factors"] = (n_rot // 2,)
    attrs: dict[str, Attr] = {
        "n_head": n_head,
        "head_dim": head_dim,
        "n_rot": n_rot,
        "base": 10000.0,
        "layout": layout,
        "freq_scale": more.get("freq_scale", 1.0),
        **more.get("scaling", {}),
    }
    position, kind = more.get("position", 0), "-yarn" if "scaling" in more else ""
    return Case(
        f"{layout}-{tokens}x{n_head}x{head_dim}-{n_rot}@{position}{kind}",
        shapes,
        attrs,
        position=position,
    )


YARN = {"attn_factor": 1.2, "yarn_mix": 0.9, "yarn_low": 2.0, "yarn_high": 7.0}
OPS = (
    OpDef(
        "rope",
        ("x", "positions"),
        ("y",),
        _infer,
        rope,
        attrs=ROPE_ATTRS,
        optional=("freq_factors",),
        weights=("freq_factors",),
        cases=(
            _case("norm", 1, 3, 32, 32, position=17),
            _case("norm", 7, 5, 64, 64, factors=True),
            _case("neox", 1, 4, 256, 256, position=100),
            _case("neox", 33, 6, 16, 16),
            _case("neox", 1, 2, 64, 64, factors=True, position=9),
            _case("neox", 5, 2, 80, 32, freq_scale=0.125, position=3),
            _case("norm", 5, 3, 20, 20, freq_scale=0.25, position=90, scaling=YARN),
        ),
    ),
)
