"""Cases of the CPU kernels around attention: rotation, caches, heads, attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.ops.attention import attention, attention_step, kv_store
from rushlight.ops.kv_cache import KvCache
from rushlight.ops.opdef import KvDtype
from rushlight.ops.rope import TABLE_DEFAULTS, frequencies, rope

from .kernel_bench import Call, KernelBench
from .kernel_cases import Array, Made, cases, normal


def angles(
    b: KernelBench, attrs: dict[str, Any], factors: Array | None, n: int
) -> tuple[Call, int]:
    y = b.new((n, attrs["n_rot"]))
    freqs = frequencies({**TABLE_DEFAULTS, **attrs}, factors)
    args = {"freqs": b.put(freqs), "y": y, "n_rot": attrs["n_rot"]}
    args["factor"] = attrs.get("attn_factor", 1.0)
    return ("angles", args), y


@cases(near=(5, 64, 10000.0, 0), odd=(3, 30, 10000.0, 4001), far=(2, 256, 1e6, 1_000_000))
def angle_table(b: KernelBench, rng: Any, n: int, n_rot: int, base: float, position: int) -> Made:
    attrs = {**TABLE_DEFAULTS, "n_rot": n_rot, "base": base, "attn_factor": 0.9}
    call, y = angles(b, attrs, None, n)
    positions = np.arange(position, position + n, dtype=np.int32)
    turns = positions.astype(np.float32)[:, None] * frequencies(attrs)
    wide = turns.astype(np.float64)
    expected = np.stack([np.cos(wide), np.sin(wide)], axis=-1) * 0.9
    return Made([call], [(y, expected)], {"n_tokens": n, "position": position})


@cases(norm=("norm", 3, 5, 64, 64, True), neox=("neox", 1, 4, 256, 256, False),
       partial=("neox", 5, 3, 80, 32, False), odd=("norm", 2, 3, 35, 30, False),
       odd_neox=("neox", 9, 2, 31, 14, True))  # fmt: skip
def rotation(
    b: KernelBench, rng: Any, layout: str, n: int, n_head: int, dim: int, n_rot: int, scaled: bool
) -> Made:
    x, position = normal(rng, n, n_head * dim), 37
    factors = np.abs(normal(rng, n_rot // 2)) + 1 if scaled else None
    attrs = {"n_rot": n_rot, "base": 10000.0, "freq_scale": 0.5 if scaled else 1.0}
    call, table = angles(b, attrs, factors, n)
    y = b.new(x.shape)
    heads = {"n_head": n_head, "head_dim": dim, "n_rot": n_rot}
    kind = b.table.constants[f"ROPE_{layout.upper()}"]
    turn: Call = ("rope", {"x": b.put(x), "angles": table, "y": y, **heads, "layout": kind})
    positions = np.arange(position, position + n, dtype=np.int32)
    expected = rope(x, positions, factors, n_head=n_head, head_dim=dim, layout=layout, **attrs)
    return Made([call, turn], [(y, expected)], {"n_tokens": n, "position": position})


def kind_of(b: KernelBench, dtype: str) -> int:
    """How the kernels call a format of the cache."""
    return b.table.constants[f"KV_{dtype.upper()}"]


def shown(rows: Array) -> Array:
    """A cache's rows as numbers to compare: blocks byte for byte."""
    return rows.view(np.uint8) if rows.dtype.fields else rows


@cases(f32=("f32", 3, 33, 41), f16=("f16", 5, 67, 75), q8_0=("q8_0", 7, 96, 32))
def store(b: KernelBench, rng: Any, dtype: KvDtype, n: int, k_cols: int, v_cols: int) -> Made:
    k, v, position = normal(rng, n, k_cols), normal(rng, n, v_cols) * 1e-6, 4
    k[0], k[1, :32] = 0, 1e-35  # no scale to divide by
    v[-1] *= 1e14 if dtype == "q8_0" else 1  # more than a float16 scale can say
    cache = KvCache(16, k_cols, v_cols, dtype)
    places = [b.put(cache.k), b.put(cache.v)]
    args = {"k_cols": k_cols, "v_cols": v_cols, "kv": kind_of(b, dtype)}
    caches = {"k_cache": places[0], "v_cache": places[1]}
    calls: list[Call] = [("kv_store", {"k": b.put(k), "v": b.put(v), **caches, **args})]
    kv_store(k, v, np.arange(position, position + n), cache)
    expected = list(zip(places, map(shown, (cache.k, cache.v)), strict=True))
    return Made(calls, expected, {"n_tokens": n, "position": position}, nmse=0)


@cases(rounded=())
def every_half_rounded(b: KernelBench, rng: Any) -> Made:
    """Every float16, and the float32 beside it and halfway to the next, to float16."""
    halves = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    steps = np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF], np.uint32)
    bits = (halves.astype(np.float32).view(np.uint32)[:, None] + steps).reshape(64, -1)
    x, places = bits.view(np.float32), [b.new(bits.shape, np.float16) for _ in range(2)]
    ports = {"k": b.put(x), "v": b.put(x), "k_cache": places[0], "v_cache": places[1]}
    cols = {"k_cols": x.shape[1], "v_cols": x.shape[1], "kv": kind_of(b, "f16")}
    with np.errstate(over="ignore"):
        expected = [(place, x.astype(np.float16)) for place in places]
    return Made([("kv_store", {**ports, **cols})], expected, {"n_tokens": len(x)}, nmse=0)


@cases(read=())
def every_half_read(b: KernelBench, rng: Any) -> Made:
    """Attention to one key gives its value: every float16 as float32."""
    n_head, dim, dim_v = 64, 4, 1024
    cache = KvCache(1, n_head * dim, n_head * dim_v, "f16")
    cache.v[:] = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    attrs = {"n_head": n_head, "n_head_kv": n_head, "head_dim": dim, "scale": 1.0,
             "window": 0, "softcap": 0.0}  # fmt: skip
    call, y = attention_call(b, cache, b.new((1, n_head * dim)), None, attrs, 1)
    call[1].update(k_cache=b.put(cache.k), v_cache=b.put(cache.v))  # type: ignore[attr-defined]
    return Made([call], [(y, cache.v.astype(np.float32))], {}, nmse=0)


def filled(rng: Any, n_ctx: int, width_k: int, width_v: int, dtype: KvDtype) -> KvCache:
    cache = KvCache(n_ctx, width_k, width_v, dtype)
    cache.store(normal(rng, n_ctx, width_k), normal(rng, n_ctx, width_v), np.arange(n_ctx))
    return cache


def attention_call(
    b: KernelBench, cache: KvCache, q: int, sinks: Array | None, attrs: dict[str, Any], n: int
) -> tuple[Call, int]:
    dim_v = cache.read(0, 1)[1].shape[1] // attrs["n_head_kv"]
    y = b.new((n, attrs["n_head"] * dim_v))
    sizes = b.table.constants
    part = attrs["n_head"] * (sizes["PART_HEAD"] + dim_v + -dim_v % 4)
    args = {
        "q": q,
        "sinks": b.put(sinks) if sinks is not None else 0,
        "parts": b.new((sizes["MAX_PARTS"], part)),
        "y": y,
        "head_dim_v": dim_v,
        "kv": kind_of(b, cache.format.name),
        "is_causal": int(attrs.get("causal", True)),
        **{name: value for name, value in attrs.items() if name != "causal"},
    }
    return ("attention", args), y


HEADS = {
    "first": ("f16", 1, (4, 1, 256), 0, {}),
    "decode": ("f16", 1, (4, 1, 256), 700, {"window": 512}),
    "long": ("f32", 1, (3, 3, 80), 5000, {}),
    "odd": ("f16", 1, (6, 2, 35), 300, {"softcap": 20.0}),
    "seven": ("f32", 1, (7, 1, 64), 200, {"sinks": True}),
    "prefill": ("f16", 33, (4, 1, 256), 0, {}),
    "windowed": ("f32", 70, (8, 2, 64), 60, {"window": 50, "sinks": True}),
    "capped": ("f16", 19, (5, 1, 96), 11, {"softcap": 5.0}),
    "mla": ("f32", 3, (4, 1, 576, 512), 9, {}),
    "uneven": ("f16", 40, (4, 2, 30, 51), 100, {"window": 33}),
    "one_head": ("f16", 17, (2, 2, 128), 40, {}),
    "many_heads": ("f32", 2, (71, 1, 64), 20, {"sinks": True}),
    "many_heads_decode": ("f16", 1, (71, 1, 64), 900, {}),
    "wide": ("f32", 6, (2, 1, 1100, 1100), 7, {}),
    "blocks": ("q8_0", 1, (4, 1, 256), 700, {"window": 512}),
    "blocks_prefill": ("q8_0", 33, (6, 2, 96), 20, {"sinks": True}),
    "blocks_uneven": ("q8_0", 19, (4, 2, 64, 32), 70, {"softcap": 5.0}),
    "two_tokens": ("f16", 2, (3, 1, 64), 4000, {"window": 0}),
    "whole": ("f32", 150, (3, 3, 20), 0, {"causal": False}),
    "whole_group": ("f16", 71, (8, 2, 64), 0, {"causal": False, "softcap": 5.0}),
    "whole_alone": ("f32", 1, (3, 3, 20), 0, {"causal": False}),
}


@cases(**HEADS)
def attend(
    b: KernelBench, rng: Any, dtype: KvDtype, n: int, heads: tuple[int, ...], position: int,
    more: dict[str, Any],
) -> Made:  # fmt: skip
    n_head, n_head_kv, dim = heads[:3]
    cache = filled(rng, position + n, n_head_kv * dim, n_head_kv * heads[-1], dtype)
    sinks = normal(rng, n_head) if more.get("sinks") else None
    attrs = {"n_head": n_head, "n_head_kv": n_head_kv, "head_dim": dim, "scale": dim**-0.5,
             "window": more.get("window", 0), "softcap": more.get("softcap", 0.0),
             "causal": more.get("causal", True)}  # fmt: skip
    q = normal(rng, n, n_head * dim) * 2
    call, y = attention_call(b, cache, b.put(q), sinks, attrs, n)
    call[1].update(k_cache=b.put(cache.k), v_cache=b.put(cache.v))  # type: ignore[attr-defined]
    positions = np.arange(position, position + n)
    expected = attention(q, positions, cache, sinks, **attrs)
    return Made([call], [(y, expected)], {"n_tokens": n, "position": position}, nmse=1e-11)


@cases(gemma=((4, 1, 256, 256), "neox", True, 700, "f16"),
       llama=((6, 2, 64, 64), "norm", False, 5, "f32"),
       uneven=((4, 2, 48, 20), "norm", True, 130, "f16"),
       blocks=((4, 2, 64, 96), "neox", True, 90, "q8_0"))  # fmt: skip
def heads(
    b: KernelBench, rng: Any, sizes: tuple[int, ...], layout: str, norms: bool, position: int,
    dtype: KvDtype,
) -> Made:  # fmt: skip
    n_head, n_head_kv, dim, dim_v = sizes
    cache = filled(rng, position + 1, n_head_kv * dim, n_head_kv * dim_v, dtype)
    places = {"k_cache": b.put(cache.k), "v_cache": b.put(cache.v)}
    qkv = normal(rng, 1, (n_head + n_head_kv) * dim + n_head_kv * dim_v)
    q_norm, k_norm = (normal(rng, dim), normal(rng, dim)) if norms else (None, None)
    turn = {"n_rot": dim // 2, "base": 10000.0}
    attrs = {"n_head": n_head, "n_head_kv": n_head_kv, "head_dim": dim, "scale": 0.2,
             "window": 0, "softcap": 0.0}  # fmt: skip
    table_call, table = angles(b, turn, None, 1)
    q = b.new((1, n_head * dim))
    call, y = attention_call(b, cache, q, None, attrs, 1)
    call[1].update(places)  # type: ignore[attr-defined]
    own = {name: attrs[name] for name in ("n_head", "n_head_kv", "head_dim")}
    own |= {"head_dim_v": dim_v, "n_rot": turn["n_rot"], "kv": call[1]["kv"]}
    ports = {"q_norm": 0 if q_norm is None else b.put(q_norm),
             "k_norm": 0 if k_norm is None else b.put(k_norm)}  # fmt: skip
    kind = b.table.constants[f"ROPE_{layout.upper()}"]
    args = {
        "qkv": b.put(qkv),
        **ports,
        "angles": table,
        "y": q,
        **places,
        **own,
        "layout": kind,
        "eps": 1e-6,
    }
    at = np.array([position], np.int32)
    result, cache = attention_step(
        qkv, at, cache, q_norm, k_norm, layout=layout, eps=1e-6, **turn, **attrs
    )
    expected = [(y, result), (places["v_cache"], shown(cache.v))]
    # A key may round to the float16, or the code, next to the reference's.
    nmse = 1e-7 if dtype == "q8_0" else 1e-9
    return Made([table_call, ("heads", args), call], expected, {"position": position}, nmse=nmse)
