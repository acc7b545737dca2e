"""The pre-norm decoder block that the llama family shares; what differs is an argument.

Tensors follow GGUF: ``blk.{i}.attn_{norm,q,k,v,output}``, ``blk.{i}.ffn_{norm,gate,up,down}``.
Biases, q/k norms, post norms, a separate output matrix and frequency factors are used when the
file has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import UnsupportedModelError
from ..gguf.config import ModelConfig
from ..graph.builder import GraphBuilder
from ..graph.ir import Graph


@dataclass(frozen=True)
class DenseRules:
    """What an architecture decides beyond the presence of tensors."""

    rope_layout: str
    activation: str = "silu"
    embedding_scale: float = 1.0
    attention_scale: float | None = None
    layer: Callable[[int], Mapping[str, Any]] | None = None
    """Per layer: ``window`` of attention, ``base`` and ``freq_scale`` of rope."""


def build_dense(
    config: ModelConfig, tensors: Mapping[str, tuple[int, ...]], rules: DenseRules
) -> Graph:
    """A decoder of ``config.n_layer`` blocks as a graph document."""
    g = GraphBuilder(config.architecture, tensors)
    x = g.embed("token_embd.weight", rules.embedding_scale)
    for i in range(config.n_layer):
        x = _block(g, config, rules, i, x)
    x = g.select_outputs(x)
    x = g.rms_norm(x, "output_norm.weight", config.norm_eps)
    head = "output" if g.has("output.weight") else "token_embd"
    return g.build(logits=g.linear(x, head))


def _block(g: GraphBuilder, config: ModelConfig, rules: DenseRules, i: int, x: str) -> str:
    blk = f"blk.{i}"
    h = g.rms_norm(x, f"{blk}.attn_norm.weight", config.norm_eps)
    x = g.add(x, _post_norm(g, config, f"{blk}.post_attention_norm.weight",
                            _attention(g, config, rules, i, h)))  # fmt: skip
    h = g.rms_norm(x, f"{blk}.ffn_norm.weight", config.norm_eps)
    gate, up = g.linear(h, f"{blk}.ffn_gate"), g.linear(h, f"{blk}.ffn_up")
    h = g.node("glu", {"gate": gate, "up": up}, activation=rules.activation)
    h = g.linear(h, f"{blk}.ffn_down")
    return g.add(x, _post_norm(g, config, f"{blk}.post_ffw_norm.weight", h))


def _attention(g: GraphBuilder, config: ModelConfig, rules: DenseRules, i: int, h: str) -> str:
    blk, head_dim = f"blk.{i}", config.head_dim_k
    per_layer = dict(rules.layer(i)) if rules.layer else {}
    n_head, n_head_kv = config.n_head_by_layer[i], config.n_head_kv_by_layer[i]
    q, k, v = (g.linear(h, f"{blk}.attn_{part}") for part in "qkv")
    if g.has(f"{blk}.attn_q_norm.weight"):
        q = g.rms_norm(q, f"{blk}.attn_q_norm.weight", config.norm_eps, n_head)
        k = g.rms_norm(k, f"{blk}.attn_k_norm.weight", config.norm_eps, n_head_kv)
    turn = {
        "head_dim": head_dim,
        "n_rot": config.rope_dim,
        "base": per_layer.get("base", config.rope_base),
        "layout": rules.rope_layout,
        "freq_scale": per_layer.get("freq_scale", linear_freq_scale(config)),
    }
    factors = g.optional("rope_freqs.weight")
    q, k = g.rope(q, n_head, factors, **turn), g.rope(k, n_head_kv, factors, **turn)
    cache = g.kv_state(f"kv.{i}", n_head_kv * head_dim, n_head_kv * config.head_dim_v)
    scale = rules.attention_scale if rules.attention_scale is not None else head_dim**-0.5
    y = g.attention(q, k, v, cache, n_head=n_head, n_head_kv=n_head_kv, head_dim=head_dim,
                    scale=scale, window=per_layer.get("window", 0))  # fmt: skip
    return g.linear(y, f"{blk}.attn_output")


def linear_freq_scale(config: ModelConfig) -> float:
    """What positions are multiplied by: 1, or the inverse of a linear scaling factor.

    Raises ``UnsupportedModelError`` for any other kind of scaling.
    """
    scaling = config.rope_scaling
    if scaling is None:
        return 1.0
    if scaling.type != "linear":
        raise UnsupportedModelError(
            f"{config.architecture}.rope.scaling.type is {scaling.type!r}, which is not supported.",
            hint="Use a file without it, or one with linear scaling.",
        )
    return 1.0 / scaling.factor


def _post_norm(g: GraphBuilder, config: ModelConfig, name: str, branch: str) -> str:
    return g.rms_norm(branch, name, config.norm_eps) if g.has(name) else branch
