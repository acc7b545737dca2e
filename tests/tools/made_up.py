"""An architecture that nobody published: its one file, a model of it, and what it computes.

``ARCHITECTURE`` is the text of the file that adds it to the engine; ``forward`` is the same
computation in plain numpy, written without the engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.unit.gguf_bytes import write_gguf

NAME = "made-up"
FILE = "made_up.py"
ARCHITECTURE = '''"""made-up: squared ReLU beside attention that does not rotate."""

from rushlight.graph.builder import GraphBuilder


def build(config, tensors):
    """The graph of a made-up file."""
    g = GraphBuilder(config.architecture, tensors)
    x = g.embed("token_embd.weight", scale=config.float_value("embedding_scale"))
    for i in range(config.n_layer):
        blk, n_head = f"blk.{i}", config.n_head
        h = g.layer_norm(x, f"{blk}.norm", config.norm_eps)
        q, k, v = (g.linear(h, f"{blk}.{part}") for part in ("query", "key", "value"))
        cache = g.kv_state(f"kv.{i}", config.n_embd, config.n_embd)
        y = g.attention(q, k, v, cache, n_head=n_head, n_head_kv=n_head,
                        head_dim=config.head_dim, scale=0.25, window=6)
        up = g.node("activate", {"x": g.linear(h, f"{blk}.up")}, activation="relu2")
        x = g.add(g.add(x, g.linear(y, f"{blk}.out")), g.linear(up, f"{blk}.down"))
    return g.build(logits=g.linear(g.select_outputs(x), "token_embd"))
'''
N_LAYER, N_EMBD, N_FF, N_HEAD, N_VOCAB, SCALE, EPS = 3, 60, 44, 5, 53, 2.5, 1e-4


def weights() -> dict[str, np.ndarray]:
    """Random tensors of the file."""
    rng = np.random.default_rng(5)
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (N_VOCAB, N_EMBD)}
    for i in range(N_LAYER):
        for part in ("query", "key", "value", "out"):
            shapes[f"blk.{i}.{part}.weight"] = (N_EMBD, N_EMBD)
        shapes |= {f"blk.{i}.up.weight": (N_FF, N_EMBD), f"blk.{i}.down.weight": (N_EMBD, N_FF)}
        shapes |= {f"blk.{i}.up.bias": (N_FF,), f"blk.{i}.norm.weight": (N_EMBD,)}
    return {n: rng.normal(0, s[-1] ** -0.5, s).astype(np.float32) for n, s in shapes.items()}


def model_file() -> bytes:
    """The model as a GGUF file."""
    keys: dict[str, Any] = {
        "context_length": 64,
        "block_count": N_LAYER,
        "embedding_length": N_EMBD,
        "feed_forward_length": N_FF,
        "attention.head_count": N_HEAD,
        "attention.layer_norm_epsilon": EPS,
        "embedding_scale": SCALE,
    }
    metadata = {
        "general.architecture": NAME,
        **{f"{NAME}.{key}": value for key, value in keys.items()},
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [
            "<unk>",
            "<s>",
            "</s>",
            *(chr(94 + i) for i in range(3, N_VOCAB)),
        ],
        "tokenizer.ggml.scores": np.zeros(N_VOCAB, np.float32),
    }
    return write_gguf(None, metadata, {n: (w, w.shape, "F32") for n, w in weights().items()})


def forward(ids: list[int]) -> np.ndarray:
    """Logits after each token."""
    w = weights()
    x = w["token_embd.weight"][ids] * np.float32(SCALE)
    n = len(ids)
    at = np.arange(n)
    unseen = (at[None] > at[:, None]) | (at[None] <= at[:, None] - 6)
    for i in range(N_LAYER):
        b = {part: w[f"blk.{i}.{part}.weight"] for part in
             ("query", "key", "value", "out", "up", "down", "norm")}  # fmt: skip
        h = x - x.mean(-1, keepdims=True)
        h = h / np.sqrt((h**2).mean(-1, keepdims=True) + EPS) * b["norm"]
        q, k, v = ((h @ b[p].T).reshape(n, N_HEAD, -1) for p in ("query", "key", "value"))
        scores = np.einsum("qhd,khd->hqk", q, k) * 0.25
        scores = np.exp(np.where(unseen, -np.inf, scores))
        y = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), v).reshape(n, -1)
        up = np.maximum(h @ b["up"].T + w[f"blk.{i}.up.bias"], 0) ** 2
        x = x + y @ b["out"].T + up @ b["down"].T
    return x @ w["token_embd.weight"].T
