"""The feed-forward part of a layer with experts: a router, stacked experts, shared experts.

Tensors follow GGUF: ``blk.{i}.ffn_gate_inp`` is the router, ``ffn_{gate,up,down}_exps`` are the
stacks, ``exp_probs_b.bias`` counts for the choice alone. Used when the file has them: biases,
shared experts (``ffn_{gate,up,down}_shexp``) and their gate (``ffn_gate_inp_shexp``).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ModelFormatError
from ..gguf.config import ModelConfig
from ..graph.builder import GraphBuilder


@dataclass(frozen=True)
class ExpertRules:
    """How an architecture turns the router's logits into shares, and what an expert computes."""

    gating: str = "softmax"
    normalize: bool = True
    """Whether the shares of the chosen experts are made to sum to one."""
    clamped: tuple[float, float] | None = None
    """Slope and limit of GPT-OSS's gated unit; None: the architecture's activation."""


def has_experts(g: GraphBuilder, blk: str) -> bool:
    """Whether this layer is routed; the first few layers of some models are not."""
    return g.has(f"{blk}.ffn_gate_inp.weight")


def expert_feed_forward(
    g: GraphBuilder, config: ModelConfig, rules: ExpertRules, activation: str, blk: str, h: str
) -> str:
    """The chosen experts' weighted sum, and what every token gets from shared experts."""
    _check_stacks(g, blk)
    logits = g.linear(h, f"{blk}.ffn_gate_inp")
    g.node(
        "expert_route",
        {"logits": logits, "bias": g.optional(f"{blk}.exp_probs_b.bias")},
        n_used=config.int_value("expert_used_count", low=1),
        gating=rules.gating,
        normalize=rules.normalize,
        # Some converters write 0 for a scale that is not used.
        scale=config.float_value("expert_weights_scale", 1.0, low=0.0) or 1.0,
    )
    routed = dict(g.last_node.outputs)

    def product(x: str, part: str) -> str:
        name = f"{blk}.ffn_{part}_exps"
        inputs = {"x": x, "experts": routed["experts"], "weight": g.weight(f"{name}.weight")}
        return g.node("expert_matmul", {**inputs, "bias": g.optional(f"{name}.bias")})

    gate, up = product(h, "gate"), product(h, "up")
    y = product(_gated(g, rules, activation, gate, up), "down")
    y = g.node("expert_sum", {"x": y, "shares": routed["shares"]})
    return g.add(y, _shared(g, activation, blk, h)) if g.has(f"{blk}.ffn_up_shexp.weight") else y


def _gated(g: GraphBuilder, rules: ExpertRules, activation: str, gate: str, up: str) -> str:
    if rules.clamped:
        alpha, limit = rules.clamped
        return g.node("clamped_glu", {"gate": gate, "up": up}, alpha=alpha, limit=limit)
    return g.node("glu", {"gate": gate, "up": up}, activation=activation)


def _shared(g: GraphBuilder, activation: str, blk: str, h: str) -> str:
    gate, up = g.linear(h, f"{blk}.ffn_gate_shexp"), g.linear(h, f"{blk}.ffn_up_shexp")
    y = g.linear(g.node("glu", {"gate": gate, "up": up}, activation=activation),
                 f"{blk}.ffn_down_shexp")  # fmt: skip
    own_gate = g.optional(f"{blk}.ffn_gate_inp_shexp.weight")
    return g.node("sigmoid_gate", {"a": y, "x": h, "weight": own_gate}) if own_gate else y


def _check_stacks(g: GraphBuilder, blk: str) -> None:
    """Ids of experts come from the router: it must not name one that a stack lacks."""
    n_expert = g.shape(f"{blk}.ffn_gate_inp.weight")[0]
    for part in ("gate", "up", "down"):
        name = f"{blk}.ffn_{part}_exps.weight"
        shape = g.shape(name) if g.has(name) else None
        if shape is not None and (len(shape) != 3 or shape[0] != n_expert):
            raise ModelFormatError(
                f"{name} has shape {list(shape)}, but {blk}.ffn_gate_inp.weight has {n_expert} "
                "rows, one for each expert.",
                hint="The file was made by a faulty converter; try another file of the model.",
            )
