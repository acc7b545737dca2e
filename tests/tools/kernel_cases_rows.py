"""Cases of the CPU kernels that work row by row, and of those behind the logits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.candidates import N_CANDIDATES, TOTAL_ERROR, Cuts, SampleInputs
from rushlight.ops import conv, elementwise, norm, pooling
from rushlight.ops.sampling import LOWEST, penalize, top_k

from .kernel_bench import Call, KernelBench
from .kernel_cases import Array, Made, cases, normal


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
    each, y = normal(rng, n_group, cols // n_group), [b.new(x.shape) for _ in range(3)]
    attrs: dict[str, Any] = {"n_group": n_group, "eps": 1e-6}
    args = {"x": b.put(x), "n_cols": cols, "uses_n_out": 0, **attrs}
    calls: list[Call] = [
        ("rms_norm", {**args, "weight": b.put(weight), "n_weights": 1, "y": y[0]}),
        ("rms_norm", {**args, "weight": 0, "n_weights": 1, "y": y[1]}),
        ("rms_norm", {**args, "weight": b.put(each), "n_weights": n_group, "y": y[2]}),
    ]
    expected = [norm.rms_norm(x, w, **attrs) for w in (weight, None, each)]
    return Made(calls, list(zip(y, expected, strict=True)), {"n_tokens": n})


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


@cases(one=(1, 384), odd=(9, 97), groups=(5, 4 * 35, 4))
def layer_norm(b: KernelBench, rng: Any, n: int, cols: int, n_group: int = 1) -> Made:
    x, size = normal(rng, n, cols) + 3, cols // n_group
    weight, bias, each = normal(rng, size), normal(rng, size), normal(rng, n_group, size)
    y = [b.new(x.shape) for _ in range(3)]
    attrs: dict[str, Any] = {"n_group": n_group, "eps": 1e-5}
    args = {"x": b.put(x), "n_cols": cols, "uses_n_out": 0, **attrs}
    one, own = {"n_weights": 1, "n_biases": 1}, {"n_weights": n_group, "n_biases": 1}
    calls: list[Call] = [
        ("layer_norm", {**args, **one, "weight": b.put(weight), "bias": b.put(bias), "y": y[0]}),
        ("layer_norm", {**args, **one, "weight": 0, "bias": 0, "y": y[1]}),
        ("layer_norm", {**args, **own, "weight": b.put(each), "bias": b.put(bias), "y": y[2]}),
    ]
    ports = [(weight, bias), (None, None), (each, bias)]
    expected = [norm.layer_norm(x, *p, **attrs) for p in ports]
    return Made(calls, list(zip(y, expected, strict=True)), {"n_tokens": n})


@cases(last=(7, 97, (6,)), many=(33, 160, (0, 32, 5, 5, 17)))
def select_rows(b: KernelBench, rng: Any, n: int, cols: int, rows: tuple[int, ...]) -> Made:
    x, wanted = normal(rng, n, cols), np.array(rows, np.int32)
    y = b.new((len(rows), cols))
    calls: list[Call] = [
        ("select_rows", {"x": b.put(x), "rows": b.put(wanted), "y": y, "n_cols": cols})
    ]
    return Made(calls, [(y, x[wanted])], {"n_tokens": n, "n_out": len(rows)}, nmse=0)


@cases(mean=(7, 97, (6,), 0), many=(33, 160, (0, 32, 5), 0), cls=(33, 60, (32, 3), 1))
def pool(
    b: KernelBench, rng: Any, n: int, cols: int, rows: tuple[int, ...], is_cls: int
) -> Made:  # fmt: skip
    x, wanted = normal(rng, n, cols), np.array(rows, np.int32)
    y = b.new((len(rows), cols))
    args = {"x": b.put(x), "rows": b.put(wanted), "y": y, "n_cols": cols, "is_cls": is_cls}
    expected = pooling.pool(x, wanted, kind="cls" if is_cls else "mean")
    return Made([("pool", args)], [(y, expected)], {"n_tokens": n, "n_out": len(rows)})


@cases(one=(1, 5), some=(7, 97), many=(150, 384))
def add_row(b: KernelBench, rng: Any, n: int, cols: int) -> Made:
    x, row = normal(rng, n, cols), normal(rng, 1, cols)
    y = b.new((n, cols))
    args = {"x": b.put(x), "weight": b.put(row), "y": y, "n_cols": cols, "uses_n_out": 0}
    return Made([("add_row", args)], [(y, elementwise.add_row(x, row))], {"n_tokens": n}, nmse=0)


@cases(one=(1, 262_144), row=(1, 40_003), broken=(1, 50_000, 1), odd=(5, 5003), few=(3, 7))
def argmax(b: KernelBench, rng: Any, n: int, cols: int, n_broken: int = 0) -> Made:
    x = normal(rng, n, cols)
    x[0, [cols // 2, cols - 1]] = 9.0  # a tie
    x[0, :n_broken] = np.nan
    if n > 2:
        x[1, cols - 2], x[2] = np.nan, -np.inf
    y = b.new((n,), np.int32)
    args = {"x": b.put(x), "y": y, "n_cols": cols, "uses_n_out": 1}
    calls: list[Call] = [("argmax", {**args, "parts": b.new((cols // 4096 + 16,))})]
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
    sample, y, best = b.put(inputs.words), b.new(x.shape), b.new((4 + 2 * N_CANDIDATES,))
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


@cases(lfm2=(1, 2048, 3, 7), first=(5, 97, 4, 0), kept=(40, 67, 5, 61), long=(150, 9, 3, 70))
def short_conv(b: KernelBench, rng: Any, n: int, cols: int, n_taps: int, position: int) -> Made:
    x, weight = normal(rng, n, 3 * cols), normal(rng, cols, n_taps)
    state = normal(rng, conv.state_rows(n_taps - 1, position + n), cols)
    places = {"x": b.put(x), "weight": b.put(weight), "state": b.put(state), "y": b.new((n, cols))}
    sizes = {"n_cols": cols, "n_taps": n_taps, "ring": conv.RING, "period": conv.PERIOD}
    calls: list[Call] = [("short_conv", {**places, **sizes})]
    positions = np.arange(position, position + n, dtype=np.int32)
    y, state = conv.short_conv(x, weight, positions, state)
    expected = [(places["y"], y), (places["state"], state)]
    return Made(calls, expected, {"n_tokens": n, "position": position})


@cases(one=(1, 33, 0), many=(9, 160, 5))
def picked(b: KernelBench, rng: Any, n: int, cols: int, start: int) -> Made:
    x, count, weight = normal(rng, n, cols) * 3, cols - start - 3, normal(rng, 1)
    x_at, ids = b.put(x), b.new((n,), np.int32)
    y = [b.new((n, width)) for width in (count, cols, cols)]
    shared = {"x": x_at, "uses_n_out": 0}
    calls: list[Call] = [
        ("columns", {**shared, "y": y[0], "x_cols": cols, "start": start, "n_cols": count}),
        ("clamp", {**shared, "y": y[1], "n_cols": cols, "limit": 1.5}),
        ("scale_by", {**shared, "y": y[2], "n_cols": cols, "weight": b.put(weight)}),
        ("positions", {"y": ids}),
    ]
    expected = [
        (y[0], elementwise.columns(x, start=start, count=count)),
        (y[1], elementwise.clamp(x, limit=1.5)),
        (y[2], elementwise.scale_by(x, weight)),
        (ids, np.arange(start, start + n, dtype=np.int32)),
    ]
    return Made(calls, expected, {"n_tokens": n, "position": start}, nmse=0)


@cases(near=(5, 64, 0, 4), far=(3, 33, 1_000_000, 3))
def position_scale(b: KernelBench, rng: Any, n: int, cols: int, position: int, length: int) -> Made:
    x, y = normal(rng, n, cols), b.new((n, cols))
    attrs: dict[str, Any] = {"slope": 0.4, "length": length}
    calls: list[Call] = [("position_scale", {"x": b.put(x), "y": y, "n_cols": cols, **attrs})]
    positions = np.arange(position, position + n, dtype=np.int32)
    expected = elementwise.position_scale(x, positions, **attrs)
    return Made(calls, [(y, expected)], {"n_tokens": n, "position": position})
