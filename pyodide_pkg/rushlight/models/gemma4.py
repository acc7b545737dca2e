"""gemma4: Gemma 4 text models.

Sandwich norms and a sliding window as in Gemma 3. Global layers have wider heads, of which
``rope_freqs`` turns a part. Values are normed without a weight. The last layers read the keys and
values of the last layer of their kind that has its own. Each layer also adds something of its own
for each token: a row of ``per_layer_token_embd`` and a projection of the embedding, mixed. Norm
weights hold the factor itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..errors import UnsupportedModelError
from ..gguf.config import ModelConfig
from ..graph.builder import GraphBuilder
from ..graph.ir import Attr, Graph
from ._dense import DenseRules, embed, feed_forward, finish, norm, scaled


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a gemma4 file."""
    if "blk.0.ffn_gate_inp.weight" in tensors:
        raise UnsupportedModelError(
            "This gemma4 file has experts, which are not supported.",
            hint="Use a dense model of the family.",
        )
    g = GraphBuilder(config.architecture, tensors)
    rules = DenseRules(
        activation="gelu_tanh",
        embedding_scale=math.sqrt(config.n_embd),
        final_softcap=config.float_value("final_logit_softcapping", 0.0, low=0.0),
    )
    x = embed(g, config, rules)
    extra = _per_layer_rows(g, config, x)
    for i in range(config.n_layer):
        x = _block(g, config, rules, i, x, extra)
    return finish(g, config, rules, x)


def _block(
    g: GraphBuilder, config: ModelConfig, rules: DenseRules, i: int, x: str, extra: str | None
) -> str:
    blk = f"blk.{i}"
    h = norm(g, config, rules, x, f"{blk}.attn_norm")
    y = _attention(g, config, i, h)
    x = g.add(x, norm(g, config, rules, y, f"{blk}.post_attention_norm"))
    h = norm(g, config, rules, x, f"{blk}.ffn_norm")
    y = feed_forward(g, config, rules, blk, h)
    x = g.add(x, norm(g, config, rules, y, f"{blk}.post_ffw_norm"))
    if extra is not None:
        n_cols = g.shape(f"{blk}.inp_gate.weight")[0]
        own = g.node("columns", {"x": extra}, start=i * n_cols, count=n_cols)
        gate = g.linear(x, f"{blk}.inp_gate")
        y = g.node("glu", {"gate": gate, "up": own}, activation=rules.activation)
        y = g.linear(y, f"{blk}.proj")
        x = g.add(x, norm(g, config, rules, y, f"{blk}.post_norm"))
    factor = g.optional(f"{blk}.layer_output_scale.weight")
    return g.node("scale_by", {"x": x, "weight": factor}) if factor else x


def _per_layer_rows(g: GraphBuilder, config: ModelConfig, x: str) -> str | None:
    """What every layer adds, side by side; None for a model without."""
    n_cols = config.int_value("embedding_length_per_layer_input", 0)
    if n_cols == 0:
        return None
    rows = g.embed("per_layer_token_embd.weight", math.sqrt(n_cols))
    mixed = scaled(g, g.linear(x, "per_layer_model_proj"), config.n_embd**-0.5)
    weight = "per_layer_proj_norm.weight"
    mixed = g.rms_norm(mixed, weight, config.norm_eps, config.n_layer)
    return scaled(g, g.add(mixed, rows), 2**-0.5)


def _attention(g: GraphBuilder, config: ModelConfig, i: int, h: str) -> str:
    """Attention of one layer over its own cache, or over the one it shares."""
    blk, n_head = f"blk.{i}", config.n_head_by_layer[i]
    is_local = config.window_layers(period=6)
    n_own = config.n_layer - config.int_value("attention.shared_kv_layers", 0, high=config.n_layer)
    head_dim = g.shape(f"{blk}.attn_q.weight")[0] // n_head
    kind = "_swa" if is_local[i] else ""
    factors = None if is_local[i] else g.optional("rope_freqs.weight")
    turn: dict[str, Attr] = {
        "head_dim": head_dim,
        "n_rot": config.int_value(f"rope.dimension_count{kind}", head_dim, low=2, high=head_dim),
        "base": config.float_value(f"rope.freq_base{kind}", config.rope_base, low=1.0),
        "layout": "neox",
    }
    q = g.rms_norm(g.linear(h, f"{blk}.attn_q"), f"{blk}.attn_q_norm.weight",
                   config.norm_eps, n_head)  # fmt: skip
    q = g.rope(q, n_head, factors, **turn)
    if i < n_own:
        cache, n_head_kv = _store(g, config, i, h, turn, factors)
    else:
        owner = _owner(is_local, i, n_own)
        cache, n_head_kv = g.latest(f"kv.{owner}"), _kv_heads(g, owner, head_dim)
    y = g.node(
        "attention",
        {"q": q, "positions": "positions", "cache": cache},
        n_head=n_head,
        n_head_kv=n_head_kv,
        head_dim=head_dim,
        scale=1.0,
        window=(config.sliding_window or 0) if is_local[i] else 0,
    )
    return g.linear(y, f"{blk}.attn_output")


def _store(
    g: GraphBuilder,
    config: ModelConfig,
    i: int,
    h: str,
    turn: Mapping[str, Attr],
    factors: str | None,
) -> tuple[str, int]:
    """A layer's own keys and values into its cache; the cache, and its heads."""
    blk, head_dim = f"blk.{i}", turn["head_dim"]
    assert isinstance(head_dim, int)
    n_head_kv = _kv_heads(g, i, head_dim)
    k = g.linear(h, f"{blk}.attn_k")
    # Where there is no matrix for values, they are the keys before their norm.
    v = g.linear(h, f"{blk}.attn_v") if g.has(f"{blk}.attn_v.weight") else k
    v = g.rms_norm(v, None, config.norm_eps, n_head_kv)
    k = g.rms_norm(k, f"{blk}.attn_k_norm.weight", config.norm_eps, n_head_kv)
    k = g.rope(k, n_head_kv, factors, **turn)
    cache = g.kv_state(f"kv.{i}", n_head_kv * head_dim, n_head_kv * head_dim)
    return g.node("kv_store", {"k": k, "v": v, "positions": "positions", "cache": cache}), n_head_kv


def _kv_heads(g: GraphBuilder, i: int, head_dim: int) -> int:
    return g.shape(f"blk.{i}.attn_k.weight")[0] // head_dim


def _owner(is_local: tuple[bool, ...], i: int, n_own: int) -> int:
    """The last layer of the same kind that has a cache of its own."""
    owners = [j for j in range(n_own) if is_local[j] == is_local[i]]
    if not owners:
        raise UnsupportedModelError(
            f"Layer {i} shares the cache of a layer of its kind, but none of the first {n_own} "
            "layers has one.",
            hint="The file was made by a faulty converter; try another file of the model.",
        )
    return owners[-1]
