"""The decoder that most families share; what differs is a tensor's presence or an argument.

Tensors follow GGUF: ``blk.{i}.attn_{norm,q,k,v,output}``, ``blk.{i}.ffn_{norm,gate,up,down}``.
Used when the file has them: biases, fused ``attn_qkv`` and gate|up in ``ffn_up``, q/k norms,
post norms, position embeddings, a separate output matrix, frequency factors, a short convolution
in the place of attention. Without
``ffn_gate`` the MLP has no gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..errors import ModelFormatError
from ..gguf.config import ModelConfig
from ..graph.builder import GraphBuilder
from ..graph.ir import Graph
from ._experts import ExpertRules, expert_feed_forward, has_experts
from ._rope import Layout, rope_factors, scaling_attrs


@dataclass(frozen=True)
class LayerRules:
    """What may differ from layer to layer."""

    window: int = 0
    base: float | None = None
    """Base of the rotation; None: the file's."""
    is_turned: bool = True
    """Whether q and k are rotated at all."""
    is_scaled: bool = True
    """Whether the file's rope scaling holds here."""


@dataclass(frozen=True)
class DenseRules:
    """What an architecture decides beyond the presence of tensors."""

    rope_layout: Layout = "neox"
    norm: Literal["rms", "layer"] = "rms"
    activation: str = "silu"
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    """Times what each block adds to the residual stream.

    The stream is kept divided by it, so that nothing is multiplied: the embedding starts it that
    much smaller, and a norm with its eps divided by the square does not see the difference.
    """
    logit_scale: float = 1.0
    attention_scale: float | None = None
    """None: one over the root of head_dim."""
    attention_softcap: float = 0.0
    final_softcap: float = 0.0
    clamp_qkv: float = 0.0
    has_pre_norms: bool = True
    """Whether a block normalises what it reads (False: only what it adds)."""
    is_parallel: bool = False
    """Whether attention and MLP read the same stream; without ffn_norm, the same norm."""
    n_loops: int = 1
    """How often the whole stack is run; each time has caches of its own."""
    has_loop_norm: bool = True
    """Whether ``output_norm`` also stands between two runs of the stack."""
    ffn_norm: str = "ffn_norm"
    """Name of the norm before the MLP."""
    post_norms: tuple[str, str] = ("post_attention_norm", "post_ffw_norm")
    """Names of the norms of what attention and MLP add, or with ``is_post_norm`` of the sums."""
    is_post_norm: bool = False
    """Whether a block normalises its sums with the stream, as the first transformers did."""
    is_causal: bool = True
    """Whether a token sees only those before it."""
    experts: ExpertRules | None = None
    """How layers with a router choose; None: the architecture has none."""
    final_norm: str = "output_norm"
    temperature: tuple[float, int] | None = None
    """Slope and length of ``position_scale`` on the queries."""
    layer: Callable[[int], LayerRules] = lambda i: LayerRules()


def build_dense(
    config: ModelConfig, tensors: Mapping[str, tuple[int, ...]], rules: DenseRules
) -> Graph:
    """A decoder of ``config.n_layer`` blocks as a graph document."""
    g = GraphBuilder(config.architecture, tensors)
    x = embed(g, config, rules)
    for loop in range(rules.n_loops):
        if loop and rules.has_loop_norm:
            x = norm(g, config, rules, x, "output_norm")
        for i in range(config.n_layer):
            x = block(g, config, rules, i, x, f"kv.{loop * config.n_layer + i}")
    return finish(g, config, rules, x)


def embed(g: GraphBuilder, config: ModelConfig, rules: DenseRules) -> str:
    """Rows of the embedding, and of the position embedding if there is one."""
    x = g.embed("token_embd.weight", rules.embedding_scale / rules.residual_scale)
    positions = "position_embd.weight"
    if not g.has(positions):
        return x
    if g.shape(positions)[0] < config.n_ctx_train:
        raise ModelFormatError(
            f"{config.architecture}.context_length is {config.n_ctx_train}, but {positions} has "
            f"{g.shape(positions)[0]} rows.",
            hint="The file was made by a faulty converter; try another file of the model.",
        )
    table = g.weight(positions)
    return g.add(x, g.node("position_rows", {"positions": "positions", "table": table}))


def finish(g: GraphBuilder, config: ModelConfig, rules: DenseRules, x: str) -> Graph:
    """The wanted rows, the last norm and the head."""
    x = norm(g, config, rules, g.select_outputs(x), rules.final_norm)
    logits = g.linear(x, "output" if g.has("output.weight") else "token_embd")
    logits = scaled(g, logits, rules.logit_scale)
    if rules.final_softcap:
        logits = g.node("softcap", {"x": logits}, cap=rules.final_softcap)
    return g.build(logits=logits)


def norm(g: GraphBuilder, config: ModelConfig, rules: DenseRules, x: str, name: str) -> str:
    """The family's kind of norm of whole rows."""
    eps = config.norm_eps / rules.residual_scale**2
    if rules.norm == "layer":
        return g.layer_norm(x, name, eps)
    return g.rms_norm(x, f"{name}.weight", eps)


def scaled(g: GraphBuilder, x: str, factor: float) -> str:
    """``x`` times a constant, if that changes it."""
    return x if factor == 1.0 else g.node("scale", {"x": x}, factor=factor)


def block(
    g: GraphBuilder, config: ModelConfig, rules: DenseRules, i: int, x: str, cache: str
) -> str:
    """One layer: attention and MLP, each added to the stream."""
    blk = f"blk.{i}"

    def added(x: str, branch: str, post_norm: str) -> str:
        if rules.is_post_norm:
            return norm(g, config, rules, g.add(x, branch), post_norm)
        is_pre_norm = post_norm == f"{blk}.{rules.ffn_norm}"
        if not is_pre_norm and (g.has(f"{post_norm}.weight") or not rules.has_pre_norms):
            branch = norm(g, config, rules, branch, post_norm)
        return g.add(x, branch)

    h = norm(g, config, rules, x, f"{blk}.attn_norm") if rules.has_pre_norms else x
    if g.has(f"{blk}.shortconv.conv.weight"):
        mixed = short_conv(g, blk, h)
    else:
        mixed = attention(g, config, rules, i, h, cache)
    y = added(x, mixed, f"{blk}.{rules.post_norms[0]}")
    read = x if rules.is_parallel else y
    if rules.has_pre_norms and (not rules.is_parallel or g.has(f"{blk}.{rules.ffn_norm}.weight")):
        h = norm(g, config, rules, read, f"{blk}.{rules.ffn_norm}")
    elif not rules.has_pre_norms:
        h = read
    return added(y, feed_forward(g, config, rules, blk, h), f"{blk}.{rules.post_norms[1]}")


def feed_forward(g: GraphBuilder, config: ModelConfig, rules: DenseRules, blk: str, h: str) -> str:
    """Experts, or a gated MLP (its gate perhaps in one matrix with up), or one without a gate."""
    if rules.experts and has_experts(g, blk):
        return expert_feed_forward(g, config, rules.experts, rules.activation, blk, h)
    up, n_ff = f"{blk}.ffn_up", config.n_ff_by_layer[int(blk.split(".")[1])]
    is_fused = g.has(f"{up}.weight") and n_ff > 0 and g.shape(f"{up}.weight")[0] == 2 * n_ff
    if g.has(f"{blk}.ffn_gate.weight") or is_fused:
        gate = g.linear(h, up, (0, n_ff)) if is_fused else g.linear(h, f"{blk}.ffn_gate")
        other = g.linear(h, up, (n_ff, 2 * n_ff) if is_fused else None)
        h = g.node("glu", {"gate": gate, "up": other}, activation=rules.activation)
    else:
        h = g.node("activate", {"x": g.linear(h, up)}, activation=rules.activation)
    return g.linear(h, f"{blk}.ffn_down")


def short_conv(g: GraphBuilder, blk: str, h: str) -> str:
    """A gated short convolution in the place of attention (LFM2)."""
    weight = g.weight(f"{blk}.shortconv.conv.weight")
    n_cols, n_taps = g.shape(weight)
    ports = {
        "x": g.linear(h, f"{blk}.shortconv.in_proj"),
        "weight": weight,
        "positions": "positions",
        "state": g.conv_state(f"conv.{blk.split('.')[1]}", n_taps - 1, n_cols),
    }
    return g.linear(g.node("short_conv", ports), f"{blk}.shortconv.out_proj")


def attention(
    g: GraphBuilder, config: ModelConfig, rules: DenseRules, i: int, h: str, cache: str
) -> str:
    """q, k and v, normed and rotated as the file and the rules say; attention; the output."""
    blk, head_dim, layer = f"blk.{i}", config.head_dim_k, rules.layer(i)
    n_head, n_head_kv = config.n_head_by_layer[i], config.n_head_kv_by_layer[i]
    q, k, v = _qkv(g, config, i, h)
    if rules.clamp_qkv:
        q, k, v = (g.node("clamp", {"x": x}, limit=rules.clamp_qkv) for x in (q, k, v))
    if g.has(f"{blk}.attn_q_norm.weight"):
        q = _head_norm(g, config, rules, q, f"{blk}.attn_q_norm", n_head)
        k = _head_norm(g, config, rules, k, f"{blk}.attn_k_norm", n_head_kv)
    if layer.is_turned:
        turn = {
            "head_dim": head_dim,
            "n_rot": config.rope_dim,
            "base": layer.base or config.rope_base,
            "layout": rules.rope_layout,
            **(scaling_attrs(config) if layer.is_scaled else {}),
        }
        factors = rope_factors(g, config) if layer.is_scaled else None
        q, k = g.rope(q, n_head, factors, **turn), g.rope(k, n_head_kv, factors, **turn)
    if rules.temperature:
        slope, length = rules.temperature
        ports = {"x": q, "positions": "positions"}
        q = g.node("position_scale", ports, slope=slope, length=length)
    cache = g.kv_state(cache, n_head_kv * head_dim, n_head_kv * config.head_dim_v)
    scale = rules.attention_scale if rules.attention_scale is not None else head_dim**-0.5
    sinks = g.optional(f"{blk}.attn_sinks.weight")
    y = g.attention(q, k, v, cache, sinks, n_head=n_head, n_head_kv=n_head_kv, head_dim=head_dim,
                    scale=scale, window=layer.window, softcap=rules.attention_softcap,
                    **({} if rules.is_causal else {"causal": False}))  # fmt: skip
    return g.linear(y, f"{blk}.attn_output")


def _qkv(g: GraphBuilder, config: ModelConfig, i: int, h: str) -> tuple[str, str, str]:
    blk = f"blk.{i}"
    if not g.has(f"{blk}.attn_qkv.weight"):
        return (
            g.linear(h, f"{blk}.attn_q"),
            g.linear(h, f"{blk}.attn_k"),
            g.linear(h, f"{blk}.attn_v"),
        )
    q = config.n_head_by_layer[i] * config.head_dim_k
    k = q + config.n_head_kv_by_layer[i] * config.head_dim_k
    v = k + config.n_head_kv_by_layer[i] * config.head_dim_v
    fused = f"{blk}.attn_qkv"
    return g.linear(h, fused, (0, q)), g.linear(h, fused, (q, k)), g.linear(h, fused, (k, v))


def _head_norm(
    g: GraphBuilder, config: ModelConfig, rules: DenseRules, x: str, name: str, n_head: int
) -> str:
    """Norm of each head, or of all heads as one row where the weight is that long."""
    is_one_row = g.shape(f"{name}.weight") == (n_head * config.head_dim_k,)
    n_group = 1 if is_one_row else n_head
    if rules.norm == "layer":
        return g.layer_norm(x, name, config.norm_eps, n_group)
    return g.rms_norm(x, f"{name}.weight", config.norm_eps, n_group)
