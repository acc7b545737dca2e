"""Each CPU kernel alone against the numpy references: odd sizes, both builds, 1 to 3 threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rushlight.candidates import N_CANDIDATES, TOTAL_ERROR, Cuts, SampleInputs
from rushlight.ops import elementwise, norm
from rushlight.ops.attention import KvCache, attention, attention_step, kv_store
from rushlight.ops.rope import TABLE_DEFAULTS, frequencies, rope
from rushlight.ops.sampling import LOWEST, penalize, top_k
from tests.tools.kernel_bench import Call, KernelBench

Array = NDArray[Any]
Outputs = list[tuple[int, Array]]
"""Places of results and what must lie there."""


@dataclass(frozen=True)
class Made:
    """A program, its step, its results, and how far they may be off."""

    calls: list[Call]
    expected: Outputs
    step: dict[str, int]
    nmse: float = 1e-12


Case = Callable[[KernelBench, Any], Made]
CASES: dict[str, Case] = {}
ONE_OF_EACH: set[str] = set()
"""A case per kernel, for node."""


def cases(**named: tuple[Any, ...]) -> Callable[[Callable[..., Made]], None]:
    """Register a function once per set of arguments."""

    def add(make: Callable[..., Made]) -> None:
        for name, args in named.items():
            label = f"{make.__name__}-{name}"
            CASES[label] = lambda bench, rng, args=args: make(bench, rng, *args)
        ONE_OF_EACH.add(label)

    return add


def normal(rng: Any, *shape: int) -> Array:
    return np.asarray(rng.standard_normal(shape), np.float32)


def erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x.astype(np.float64))


def unary(x: Array, name: str) -> Array:
    """What ``activate`` computes, in float64."""
    wide = x.astype(np.float64)
    if name == "gelu":
        return 0.5 * wide * (1 + erf(wide / math.sqrt(2)))
    if name.startswith("relu"):
        return np.maximum(wide, 0) ** (2 if name == "relu2" else 1)
    return elementwise.activate(wide, activation=name)  # type: ignore[arg-type]


@cases(silu=("silu", 1, 33), gelu_tanh=("gelu_tanh", 7, 161), gelu=("gelu", 3, 2049),
       relu=("relu", 1, 5), relu2=("relu2", 5, 1023))  # fmt: skip
def activations(b: KernelBench, rng: Any, name: str, n: int, cols: int) -> Made:
    gate, up = normal(rng, n, cols) * 4, normal(rng, n, cols)
    gate[0, :4] = 0, -90, 90, -1e18
    kind = b.table.constants[name.upper()]
    y, alone, gate_at = b.new(gate.shape), b.new(gate.shape), b.put(gate)
    shared = {"n_cols": cols, "activation": kind, "uses_n_out": 0}
    calls: list[Call] = [
        ("glu", {"gate": gate_at, "up": b.put(up), "y": y, **shared}),
        ("activate", {"x": gate_at, "y": alone, **shared}),
    ]
    with np.errstate(over="ignore"):
        active = unary(gate, name)
    return Made(calls, [(y, active * up), (alone, active)], {"n_tokens": n})


@cases(one=(1, 33), many=(7, 1300), wanted=(5, 96, True))
def value_by_value(b: KernelBench, rng: Any, n: int, cols: int, wanted: bool = False) -> Made:
    x, other = normal(rng, n, cols), normal(rng, n, cols)
    y = [b.new(x.shape) for _ in range(3)]
    x_at, shared = b.put(x), {"n_cols": cols, "uses_n_out": int(wanted)}
    calls: list[Call] = [
        ("add", {"a": x_at, "b": b.put(other), "y": y[0], **shared}),
        ("scale", {"x": x_at, "y": y[1], "factor": 0.3, **shared}),
        ("softcap", {"x": x_at, "y": y[2], "cap": 1.5, **shared}),
    ]
    capped = 1.5 * np.tanh(x.astype(np.float64) / 1.5)
    expected = list(zip(y, (x + other, x * np.float32(0.3), capped), strict=True))
    return Made(calls, expected, {"n_tokens": 1 if wanted else n, "n_out": n})


@cases(one=(1, 640), odd=(5, 97), groups=(3, 4 * 50, 4), many=(70, 130), wide=(2, 5003))
def rms_norm(b: KernelBench, rng: Any, n: int, cols: int, n_group: int = 1) -> Made:
    x, weight = normal(rng, n, cols), normal(rng, cols // n_group)
    y, plain = b.new(x.shape), b.new(x.shape)
    attrs: dict[str, Any] = {"n_group": n_group, "eps": 1e-6}
    args = {"x": b.put(x), "n_cols": cols, "uses_n_out": 0, **attrs}
    calls: list[Call] = [
        ("rms_norm", {**args, "weight": b.put(weight), "y": y}),
        ("rms_norm", {**args, "weight": 0, "y": plain}),
    ]
    expected = [norm.rms_norm(x, w, **attrs) for w in (weight, None)]
    return Made(calls, list(zip((y, plain), expected, strict=True)), {"n_tokens": n})


@cases(one=(1, 640), odd=(9, 97), wide=(2, 5003))
def joint_norm(b: KernelBench, rng: Any, n: int, cols: int) -> Made:
    x, a, post, weight = (normal(rng, *shape) for shape in ((n, cols),) * 2 + ((cols,),) * 2)
    shared = {"x": b.put(x), "a": b.put(a), "n_cols": cols, "uses_n_out": 0, "eps": 1e-5}
    post_at, weight_at = b.put(post), b.put(weight)
    outs = [b.new(x.shape) for _ in range(5)]
    ports = [(post_at, weight_at, *outs[:2]), (0, weight_at, *outs[2:4]), (post_at, 0, outs[4], 0)]
    calls: list[Call] = [
        ("joint_norm", {**shared, "post_weight": p, "weight": w, "sum": total, "y": y})
        for p, w, total, y in ports
    ]
    expected = [
        *norm.sandwich_norm(x, a, post, weight, eps=1e-5),
        *norm.add_rms_norm(x, a, weight, eps=1e-5),
        norm.norm_add(x, a, post, eps=1e-5),
    ]
    return Made(calls, list(zip(outs, expected, strict=True)), {"n_tokens": n})


@cases(one=(1, 384), odd=(9, 97))
def layer_norm(b: KernelBench, rng: Any, n: int, cols: int) -> Made:
    x, weight, bias = normal(rng, n, cols) + 3, normal(rng, cols), normal(rng, cols)
    y, plain = b.new(x.shape), b.new(x.shape)
    shared = {"x": b.put(x), "n_cols": cols, "uses_n_out": 0, "eps": 1e-5}
    calls: list[Call] = [
        ("layer_norm", {**shared, "weight": b.put(weight), "bias": b.put(bias), "y": y}),
        ("layer_norm", {**shared, "weight": 0, "bias": 0, "y": plain}),
    ]
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return Made(calls, [(y, scaled * weight + bias), (plain, scaled)], {"n_tokens": n})


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


@cases(f32=("f32", 3, 33), f16=("f16", 5, 67))
def store(b: KernelBench, rng: Any, dtype: str, n: int, cols: int) -> Made:
    k, v, position = normal(rng, n, cols), normal(rng, n, cols + 8) * 1e-6, 4
    cache = KvCache(16, cols, cols + 8, dtype)
    places = [b.put(cache.k), b.put(cache.v)]
    args = {"k_cols": cols, "v_cols": cols + 8, "is_f16": int(dtype == "f16")}
    caches = {"k_cache": places[0], "v_cache": places[1]}
    calls: list[Call] = [("kv_store", {"k": b.put(k), "v": b.put(v), **caches, **args})]
    kv_store(k, v, np.arange(position, position + n), cache)
    expected = list(zip(places, (cache.k, cache.v), strict=True))
    return Made(calls, expected, {"n_tokens": n, "position": position}, nmse=0)


def filled(rng: Any, n_ctx: int, width_k: int, width_v: int, dtype: str) -> KvCache:
    cache = KvCache(n_ctx, width_k, width_v, dtype)
    cache.k[:], cache.v[:] = normal(rng, n_ctx, width_k), normal(rng, n_ctx, width_v)
    return cache


def attention_call(
    b: KernelBench, cache: KvCache, q: int, sinks: Array | None, attrs: dict[str, Any], n: int
) -> tuple[Call, int]:
    dim_v = cache.v.shape[1] // attrs["n_head_kv"]
    y = b.new((n, attrs["n_head"] * dim_v))
    sizes = b.table.constants
    part = attrs["n_head"] * (sizes["PART_HEAD"] + dim_v + -dim_v % 4)
    args = {
        "q": q,
        "sinks": b.put(sinks) if sinks is not None else 0,
        "parts": b.new((sizes["MAX_PARTS"], part)),
        "y": y,
        "head_dim_v": dim_v,
        "is_f16": int(cache.k.dtype == np.float16),
        **attrs,
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
    "two_tokens": ("f16", 2, (3, 1, 64), 4000, {"window": 0}),
}


@cases(**HEADS)
def attend(
    b: KernelBench, rng: Any, dtype: str, n: int, heads: tuple[int, ...], position: int,
    more: dict[str, Any],
) -> Made:  # fmt: skip
    n_head, n_head_kv, dim = heads[:3]
    cache = filled(rng, position + n, n_head_kv * dim, n_head_kv * heads[-1], dtype)
    sinks = normal(rng, n_head) if more.get("sinks") else None
    attrs = {"n_head": n_head, "n_head_kv": n_head_kv, "head_dim": dim, "scale": dim**-0.5,
             "window": more.get("window", 0), "softcap": more.get("softcap", 0.0)}  # fmt: skip
    q = normal(rng, n, n_head * dim) * 2
    call, y = attention_call(b, cache, b.put(q), sinks, attrs, n)
    call[1].update(k_cache=b.put(cache.k), v_cache=b.put(cache.v))  # type: ignore[attr-defined]
    positions = np.arange(position, position + n)
    expected = attention(q, positions, cache, sinks, **attrs)
    return Made([call], [(y, expected)], {"n_tokens": n, "position": position}, nmse=1e-11)


@cases(gemma=((4, 1, 256, 256), "neox", True, 700, "f16"),
       llama=((6, 2, 64, 64), "norm", False, 5, "f32"),
       uneven=((4, 2, 48, 20), "norm", True, 130, "f16"))  # fmt: skip
def heads(
    b: KernelBench, rng: Any, sizes: tuple[int, ...], layout: str, norms: bool, position: int,
    dtype: str,
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
    own |= {"head_dim_v": dim_v, "n_rot": turn["n_rot"], "is_f16": call[1]["is_f16"]}
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
    expected = [(y, result), (places["v_cache"], cache.v)]
    # A key may round to the float16 next to the reference's.
    return Made([table_call, ("heads", args), call], expected, {"position": position}, nmse=1e-9)


@cases(last=(7, 97, (6,)), many=(33, 160, (0, 32, 5, 5, 17)))
def select_rows(b: KernelBench, rng: Any, n: int, cols: int, rows: tuple[int, ...]) -> Made:
    x, wanted = normal(rng, n, cols), np.array(rows, np.int32)
    y = b.new((len(rows), cols))
    calls: list[Call] = [
        ("select_rows", {"x": b.put(x), "rows": b.put(wanted), "y": y, "n_cols": cols})
    ]
    return Made(calls, [(y, x[wanted])], {"n_tokens": n, "n_out": len(rows)}, nmse=0)


@cases(one=(1, 262_144), odd=(5, 5003), few=(3, 7))
def argmax(b: KernelBench, rng: Any, n: int, cols: int) -> Made:
    x = normal(rng, n, cols)
    x[0, [cols // 2, cols - 1]] = 9.0  # a tie
    if n > 2:
        x[1, cols - 2], x[2] = np.nan, -np.inf
    y = b.new((n,), np.int32)
    calls: list[Call] = [("argmax", {"x": b.put(x), "y": y, "n_cols": cols, "uses_n_out": 1})]
    return Made(calls, [(y, elementwise.argmax(x))], {"n_out": n}, nmse=0)


@cases(plain=(161, 0, False, 1.0), few=(263, 33, True, 0.25), ties=(5000, 64, False, 0.7, "ties"),
       odd=(70_001, 512, True, 1.5, "broken"), large=(262_144, 64, False, 0.7),
       none=(4099, 0, False, 1.0, "lowest"))  # fmt: skip
def draw(
    b: KernelBench, rng: Any, n: int, n_ids: int, masked: bool, temperature: float, kind: str = ""
) -> Made:
    x = normal(rng, 1, n) * 3
    if kind == "ties":
        x = np.round(x)
    if kind == "lowest":
        x[:] = LOWEST
    if kind == "broken":
        x[0, ::17], x[0, 5], x[0, 8] = np.nan, np.inf, -np.inf
    ids = np.sort(rng.choice(n, n_ids, replace=False)).astype(np.int64)
    bias, minus = normal(rng, n_ids), normal(rng, n_ids)
    repeats = rng.integers(0, 2, n_ids, dtype=np.uint32)
    mask = rng.integers(0, 2**32, -(-n // 32), dtype=np.uint32) if masked else None
    cuts = Cuts(temperature, 40, 1.0, 0.0)
    inputs = SampleInputs(cuts, ids, bias, minus, repeats, 1.3, mask)
    sample, y, best = b.put(inputs.words()), b.new(x.shape), b.new((4 + 2 * N_CANDIDATES,))
    mask_at = b.put(mask) if mask is not None else 0
    calls: list[Call] = [
        ("penalize", {"x": b.put(x), "sample": sample, "mask": mask_at, "y": y, "n_cols": n}),
        (
            "top_k",
            {"x": y, "sample": sample, "parts": b.new((n // 32 + 64,)), "y": best, "n_cols": n},
        ),
    ]
    changed = penalize(x, ids, bias, minus, repeats, mask, penalty=1.3)
    k = min(N_CANDIDATES, int((changed > LOWEST).sum()))
    found, logits, total = top_k(changed, k=max(k, 1), temperature=temperature)
    head = np.array([0, total[0], 0, 0], np.float32)
    pairs = np.stack([found[0].astype(np.uint32), logits[0].view(np.uint32)], axis=-1)[:k]
    expected = [(y, changed.view(np.uint32)), (best, np.array([k], np.uint32)), (best, head)]
    return Made(calls, [*expected, (best + 1, pairs)], {}, nmse=TOTAL_ERROR**2)


@cases(
    lfm2=(1, 2048, 3, False), odd=(5, 97, 4, True), short=(2, 67, 5, True), alone=(4, 8, 1, False)
)
def conv(b: KernelBench, rng: Any, n: int, cols: int, n_taps: int, has_bias: bool) -> Made:
    x, weight, kept = normal(rng, n, cols), normal(rng, cols, n_taps), normal(rng, n_taps - 1, cols)
    bias = normal(rng, cols) if has_bias else np.zeros(cols, np.float32)
    y, state = b.new(x.shape), b.put(np.concatenate([kept, normal(rng, 1, cols)]))
    args = {"x": b.put(x), "weight": b.put(weight), "bias": b.put(bias) if has_bias else 0}
    calls: list[Call] = [
        ("conv", {**args, "state": state, "y": y, "n_cols": cols, "n_taps": n_taps})
    ]
    seen = np.concatenate([kept, x])
    mixed = [(weight.T * seen[t : t + n_taps]).sum(0) + bias for t in range(n)]
    return Made(calls, [(y, np.array(mixed)), (state, seen[n:])], {"n_tokens": n})


def check(bench: KernelBench, made: Made) -> None:
    """Compare every result with what was expected: float32 within the case's bound, NaN for NaN."""
    for place, expected in made.expected:
        dtype = np.float32 if expected.dtype == np.float64 else expected.dtype
        got = bench.get(place, expected.shape, dtype)
        if made.nmse == 0 or dtype != np.float32:
            assert np.array_equal(got, expected)
            continue
        assert np.array_equal(np.isnan(got), np.isnan(expected))
        error = np.square(np.nan_to_num(got.astype(np.float64) - expected)).sum()
        assert error <= made.nmse * np.square(np.nan_to_num(expected.astype(np.float64))).sum()


def make(bench: KernelBench, name: str) -> Made:
    """A case in a bench, ready to run."""
    made = CASES[name](bench, np.random.default_rng(sum(name.encode())))
    bench.plan(made.calls)
    return made


@pytest.fixture(params=["simd-1", "simd-3", "relaxed-2"])
def bench(request: pytest.FixtureRequest) -> Iterator[KernelBench]:
    build, n_threads = request.param.split("-")
    made = KernelBench(build, int(n_threads))
    yield made
    made.close()


@pytest.mark.parametrize("name", CASES)
def test_kernel_agrees_with_its_reference(bench: KernelBench, name: str) -> None:
    made = make(bench, name)
    bench.run(**made.step)
    check(bench, made)


@pytest.mark.parametrize("build", ["simd", "relaxed"])
@pytest.mark.parametrize("name", sorted(ONE_OF_EACH))
def test_kernel_agrees_in_node(name: str, build: str, tmp_path: Path) -> None:
    bench = KernelBench(build)
    made = make(bench, name)
    bench.run_in_node(tmp_path, **made.step)
    check(bench, made)
