"""A hand-written plan of four trivial kernels that uses every kind of slot.

The "model": logits[r, c] = (sum of the tokens up to row r's position) + q[c] + d[c] + bias,
where q and d are two planes of 6-byte blocks and the token history is the state.
"""

from __future__ import annotations

import struct

import numpy as np

from rushlight.backends.webgpu_program import Kernel, Program
from rushlight.plan.plan import (
    Binding,
    BufferSlot,
    Dispatch,
    InputLayout,
    KernelKey,
    ModelPlan,
    Plan,
    WeightUpload,
)

N_VOCAB, N_CTX, N_OUT_MAX, BIAS = 130, 512, 4, 0.5

STEP = """struct Step { n_tokens: u32, pos: u32, n_out: u32, reserved: u32 }
"""
STORE = (
    STEP
    + """@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read> tokens: array<u32>;
@group(0) @binding(2) var<storage, read_write> kv: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) g: vec3u) {
  if (g.x < step.n_tokens) { kv[step.pos + g.x] = tokens[g.x]; }
}
"""
)
SUM = (
    STEP
    + """@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read> kv: array<u32>;
@group(0) @binding(2) var<storage, read_write> h: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) g: vec3u) {
  if (g.x >= step.n_tokens) { return; }
  var total = 0u;
  for (var i = 0u; i <= step.pos + g.x; i++) { total += kv[i]; }
  h[g.x] = f32(total);
}
"""
)
HEAD = (
    STEP
    + """struct Params { bias: f32, n_vocab: u32 }
@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read> out_rows: array<u32>;
@group(0) @binding(2) var<storage, read> h: array<f32>;
@group(0) @binding(3) var<storage, read> q: array<u32>;
@group(0) @binding(4) var<storage, read> d: array<u32>;
@group(0) @binding(5) var<storage, read> sign: array<f32>;
@group(0) @binding(6) var<storage, read_write> logits: array<f32>;
@group(0) @binding(7) var<uniform> params: Params;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) g: vec3u) {
  if (g.x >= params.n_vocab || g.y >= step.n_out) { return; }
  let half = extractBits(d[g.x / 2u], 16u * (g.x % 2u), 16u);
  let w = sign[0] * f32(q[g.x] + half) + params.bias;
  logits[g.y * params.n_vocab + g.x] = h[out_rows[g.y]] + w;
}
"""
)
ARGMAX = (
    STEP
    + """override N_VOCAB: u32 = 1u;
@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> best: array<u32>;
@compute @workgroup_size(4) fn main(@builtin(global_invocation_id) g: vec3u) {
  if (g.x >= step.n_out) { return; }
  var at = 0u;
  for (var c = 1u; c < N_VOCAB; c++) {
    if (logits[g.x * N_VOCAB + c] > logits[g.x * N_VOCAB + at]) { at = c; }
  }
  best[g.x] = at;
}
"""
)
SOURCES = {"store": STORE, "sum": SUM, "head": HEAD, "argmax": ARGMAX}
KEYS = {name: KernelKey(name) for name in SOURCES}


def _plan(name: str, n_max: int) -> Plan:
    row_bytes = n_max * 4 + -(n_max * 4) % 256
    layout = InputLayout(tokens=256, out_rows=256 + row_bytes, n_bytes=256 + 2 * row_bytes)
    step = Binding("input", 0, 16)
    tokens = Binding("input", layout.tokens, n_max * 4)
    rows = Binding("input", layout.out_rows, n_max * 4)
    q, d = Binding("w", 0, N_VOCAB * 4), Binding("w", 768, N_VOCAB * 2)
    logits = Binding("logits", 0, N_OUT_MAX * N_VOCAB * 4)
    head = (step, rows, Binding("h"), q, d, Binding("sign"), logits, Binding("params", 0, 8))
    groups = (n_max + 63) // 64
    return Plan(
        name=name,
        n_tokens_max=n_max,
        slots=(
            BufferSlot("input", layout.n_bytes, "input"),
            BufferSlot("params", 256, "params"),
            BufferSlot("w", 768 + N_VOCAB * 2, "weight"),
            BufferSlot("sign", 4, "constant"),
            BufferSlot("kv.0", N_CTX * 4, "state"),
            BufferSlot("h", n_max * 4, "scratch"),
            BufferSlot("logits", logits.n_bytes, "scratch"),
            BufferSlot("argmax", N_OUT_MAX * 4, "scratch"),
        ),
        dispatches=(
            Dispatch(KEYS["store"], (step, tokens, Binding("kv.0")), (groups, 1, 1), "store"),
            Dispatch(KEYS["sum"], (step, Binding("kv.0"), Binding("h")), (groups, 1, 1), "sum"),
            Dispatch(KEYS["head"], head, ((N_VOCAB + 63) // 64, N_OUT_MAX, 1), "head"),
            Dispatch(KEYS["argmax"], (step, logits, Binding("argmax")), (1, 1, 1), "argmax"),
        ),
        input_layout=layout,
        outputs={"logits": logits, "argmax": Binding("argmax", 0, N_OUT_MAX * 4)},
        params=struct.pack("<fI", BIAS, N_VOCAB) + bytes(248),
        head_start=2,
        n_out_max=N_OUT_MAX,
    )


def weight_file() -> tuple[bytes, np.ndarray]:
    """The source bytes (with 16 bytes before the tensor) and q + d per vocabulary entry."""
    rng = np.random.default_rng(1)
    q = rng.permutation(N_VOCAB).astype(np.uint32)
    d = rng.integers(0, 7, N_VOCAB).astype(np.uint16)
    blocks = b"".join(struct.pack("<HI", int(x), int(y)) for x, y in zip(d, q, strict=True))
    return bytes(16) + blocks, (q + d).astype(np.float32)


def tiny_program() -> Program:
    """The program; source 0 must be ``weight_file()``'s bytes."""
    plans = (_plan("decode", 1), _plan("prefill_16", 16), _plan("prefill_256", 256))
    upload = WeightUpload("w", "w", 0, 16, N_VOCAB * 6, 6, ((2, 4, 0), (0, 2, 768)))
    model_plan = ModelPlan({p.name: p for p in plans}, (upload,), {"sign": struct.pack("<f", 1.0)})
    kernels = tuple(
        Kernel(
            KEYS[name],
            code,
            {"N_VOCAB": N_VOCAB} if name == "argmax" else {},
            lambda line, name=name: f"{name}.wgsl:{line}",
        )
        for name, code in SOURCES.items()
    )
    return Program(model_plan, plans, kernels)


def expected_logits(tokens: list[int], rows: list[int]) -> np.ndarray:
    """What the program computes for rows of a sequence that starts at position 0."""
    sums = np.cumsum(tokens).astype(np.float32)[rows]
    return sums[:, None] + weight_file()[1][None, :] + BIAS
