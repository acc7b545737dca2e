"""Attention over a cache of keys and values, and the cache itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..graph.ir import Attr, Shape
from .attention_cases import ATTENTION_CASES, KV_STORE_CASES, STEP_CASES
from .elementwise import clamp as clamp_values
from .elementwise import position_scale
from .kv_cache import KvCache
from .norm import layer_norm, rms_norm
from .opdef import AttrSpec, OpDef, Shapes, require
from .product import product
from .rope import ROPE_ATTRS, check_rope, rope

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]


def kv_store(k: F32, v: F32, positions: I32, cache: KvCache) -> KvCache:
    """Write keys and values of each token at its position."""
    cache.store(k, v, positions)
    return cache


def attention(
    q: F32,
    positions: I32,
    cache: KvCache,
    sinks: F32 | None = None,
    *,
    n_head: int,
    n_head_kv: int,
    head_dim: int,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
    causal: bool = True,
) -> F32:
    """Softmax attention (Vaswani et al. 2017) with grouped queries (Ainslie et al. 2023).

    A token at position p sees positions j with ``p - window < j <= p`` (all when ``window``
    is 0); with ``causal`` off, every position up to the last of the chunk, so that a text must
    come as one chunk. q [n, n_head * head_dim]; result [n, n_head * head_dim_v], where the
    cache's values give head_dim_v. ``sinks`` [n_head] are scores that keys without a value would
    have: they take part in the softmax and add nothing (gpt-oss, after Xiao et al. 2023).
    """
    n, n_kv = len(q), int(positions.max()) + 1
    start = max(0, int(positions.min()) - window + 1) if window else 0
    k, v = (rows.reshape(n_kv - start, n_head_kv, -1) for rows in cache.read(start, n_kv))
    last = positions if causal else np.full_like(positions, n_kv - 1)
    seen = np.arange(start, n_kv)[None, :] <= last[:, None]
    if window:
        seen &= np.arange(start, n_kv)[None, :] > positions[:, None] - window
    group = n_head // n_head_kv
    queries = q.reshape(n, n_head_kv, group, head_dim)
    y = np.empty((n, n_head_kv, group, v.shape[-1]), np.float32)
    for head in range(n_head_kv):
        flat = np.ascontiguousarray(queries[:, head].reshape(n * group, head_dim))
        scores = product(flat, k[:, head]).reshape(n, group, -1) * np.float32(scale)
        if softcap:
            scores = np.float32(softcap) * np.tanh(scores / np.float32(softcap))
        scores = np.where(seen[:, None], scores, np.float32(-3.0e38))
        if sinks is not None:
            sink = sinks.reshape(n_head_kv, group)[head]
            scores = np.concatenate([scores, np.tile(sink[:, None], (n, 1, 1))], axis=-1)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True, dtype=np.float32)
        if sinks is not None:
            weights = weights[..., :-1]
        mixed = product(weights.reshape(n * group, -1), np.ascontiguousarray(v[:, head].T))
        y[:, head] = mixed.reshape(n, group, -1)
    return y.reshape(n, -1)


def attention_step(
    qkv: F32,
    positions: I32,
    cache: KvCache,
    q_norm: F32 | None = None,
    k_norm: F32 | None = None,
    freq_factors: F32 | None = None,
    sinks: F32 | None = None,
    *,
    n_head: int,
    n_head_kv: int,
    head_dim: int,
    n_rot: int = 0,
    layout: str,
    eps: float = 0.0,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
    causal: bool = True,
    slope: float = 0.0,
    length: int = 1,
    v_norm: bool = False,
    is_centred: bool = False,
    clamp: float = 0.0,
    **table: float,
) -> tuple[F32, KvCache]:
    """Everything between the q/k/v product and the output product of one decoded token.

    All values between ``-clamp`` and ``clamp`` unless that is 0. Norms of q and k where given, of
    each head (one weight [head_dim] or one for each head [heads, head_dim]) or of all as one row,
    by ``layer_norm`` if ``is_centred``; a norm of each head of v without a weight if ``v_norm``;
    rotation unless ``n_rot`` is 0, the queries' ``position_scale`` if it has a slope, the cache
    write and attention; qkv is [1, (n_head + n_head_kv) * head_dim + n_head_kv * head_dim_v].
    """
    n_q, n_kv = n_head * head_dim, n_head_kv * head_dim
    if clamp:
        qkv = clamp_values(qkv, limit=clamp)
    q, k, v = np.split(qkv, [n_q, n_q + n_kv], axis=-1)
    if q_norm is not None and k_norm is not None:
        norm = layer_norm if is_centred else rms_norm
        q = norm(q, q_norm, eps=eps, n_group=n_q // q_norm.shape[-1])
        k = norm(k, k_norm, eps=eps, n_group=n_kv // k_norm.shape[-1])
    if v_norm:
        v = rms_norm(v, eps=eps, n_group=n_head_kv)
    if n_rot:
        turn: dict[str, Any] = {"head_dim": head_dim, "n_rot": n_rot, "layout": layout, **table}
        q = rope(q, positions, freq_factors, n_head=n_head, **turn)
        k = rope(k, positions, freq_factors, n_head=n_head_kv, **turn)
    if slope:
        q = position_scale(q, positions, slope=slope, length=length)
    kv_store(k, v, positions, cache)
    heads: dict[str, Any] = {"n_head": n_head, "n_head_kv": n_head_kv, "head_dim": head_dim}
    sight: dict[str, Any] = {"window": window, "softcap": softcap, "causal": causal}
    return attention(q, positions, cache, sinks, **heads, scale=scale, **sight), cache


def _ints(attrs: Mapping[str, Attr], *names: str) -> tuple[int, ...]:
    return tuple(int(attrs[n]) for n in names)  # type: ignore[arg-type]


def _infer_store(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    widths = (shapes["k"][-1], shapes["v"][-1])
    require(shapes["cache"] == widths, f"cache rows are {shapes['cache']}, k and v are {widths}")
    return {"cache": shapes["cache"]}


def _check_heads(shapes: Shapes, attrs: Mapping[str, Attr]) -> tuple[int, int]:
    """(width of the values of a token, width of a result)."""
    n_head, n_head_kv, head_dim = _ints(attrs, "n_head", "n_head_kv", "head_dim")
    require(n_head_kv > 0 and n_head % n_head_kv == 0, f"{n_head} heads on {n_head_kv} kv heads")
    width_k, width_v = shapes["cache"]
    require(width_k == n_head_kv * head_dim, f"cache holds {width_k} key columns")
    assert isinstance(width_v, int)
    require(width_v % n_head_kv == 0, f"cache holds {width_v} value columns")
    require(bool(attrs["causal"] or not attrs["window"]), "a window needs causal attention")
    sinks = shapes.get("sinks", (n_head,))
    require(sinks == (n_head,), f"sinks has shape {sinks}, not ({n_head},)")
    return width_v, width_v // n_head_kv * n_head


def _infer_attention(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    n_head, head_dim = _ints(attrs, "n_head", "head_dim")
    _, width = _check_heads(shapes, attrs)
    require(shapes["q"][-1] == n_head * head_dim, f"q has {shapes['q'][-1]} columns")
    return {"y": (*shapes["q"][:-1], width)}


def _infer_step(shapes: Shapes, attrs: Mapping[str, Attr]) -> dict[str, Shape]:
    check_rope(attrs, shapes.get("freq_factors"), least=0)
    n_head, n_head_kv, head_dim = _ints(attrs, "n_head", "n_head_kv", "head_dim")
    width_v, width = _check_heads(shapes, attrs)
    qkv = (n_head + n_head_kv) * head_dim + width_v
    require(shapes["qkv"][-1] == qkv, f"qkv has {shapes['qkv'][-1]} columns, not {qkv}")
    require(("q_norm" in shapes) == ("k_norm" in shapes), "q_norm and k_norm come together")
    one, rows = ((head_dim,),) * 2, ((n_head * head_dim,), (n_head_kv * head_dim,))
    each = ((n_head, head_dim), (n_head_kv, head_dim))
    norms = (shapes.get("q_norm", (head_dim,)), shapes.get("k_norm", (head_dim,)))
    require(norms in (one, each, rows), f"norms are {norms}, none of {one}, {each} and {rows}")
    return {"y": (*shapes["qkv"][:-1], width), "cache": shapes["cache"]}


HEAD_ATTRS = {
    "n_head": AttrSpec(int),
    "n_head_kv": AttrSpec(int),
    "head_dim": AttrSpec(int),
    "scale": AttrSpec(float),
    "window": AttrSpec(int, 0),
    "softcap": AttrSpec(float, 0.0),
    "causal": AttrSpec(bool, True),
}


KV_STORE = OpDef(
    "kv_store",
    ("k", "v", "positions", "cache"),
    ("cache",),
    _infer_store,
    kv_store,
    state=("cache",),
    cases=KV_STORE_CASES,
)
ATTENTION = OpDef(
    "attention",
    ("q", "positions", "cache"),
    ("y",),
    _infer_attention,
    attention,
    attrs=HEAD_ATTRS,
    optional=("sinks",),
    weights=("sinks",),
    state=("cache",),
    cases=ATTENTION_CASES,
)
ATTENTION_STEP = OpDef(
    "attention_step",
    ("qkv", "positions", "cache"),
    ("y", "cache"),
    _infer_step,
    attention_step,
    attrs={
        **ROPE_ATTRS,
        **HEAD_ATTRS,
        "eps": AttrSpec(float, 0.0),
        "slope": AttrSpec(float, 0.0),
        "length": AttrSpec(int, 1),
        "v_norm": AttrSpec(bool, False),
        "is_centred": AttrSpec(bool, False),
        "clamp": AttrSpec(float, 0.0),
    },
    optional=("q_norm", "k_norm", "freq_factors", "sinks"),
    weights=("q_norm", "k_norm", "freq_factors", "sinks"),
    state=("cache",),
    cases=STEP_CASES,
)
OPS = (KV_STORE, ATTENTION, ATTENTION_STEP)
