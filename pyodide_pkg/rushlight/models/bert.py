"""bert: BERT and its sentence encoders (MiniLM, BGE, E5). Every token sees the whole text.

Learned positions, one kind of text (token type 0), LayerNorm after each sum, exact GELU. The
outputs are each token's last hidden state, and one vector for the text as the file pools it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UnsupportedModelError
from ..gguf.config import ModelConfig
from ..graph.builder import GraphBuilder
from ..graph.ir import Graph
from ._dense import DenseRules, LayerRules, block, embed, norm

POOLING = ("none", "mean", "cls", "last", "rank")
"""The file's ``pooling_type`` by number."""


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a bert file."""
    rules = DenseRules(
        norm="layer",
        activation="gelu",
        has_pre_norms=False,
        is_post_norm=True,
        post_norms=("attn_output_norm", "layer_output_norm"),
        is_causal=config.bool_value("attention.causal", False),
        layer=lambda i: LayerRules(is_turned=False),
    )
    g = GraphBuilder(config.architecture, tensors)
    x = embed(g, config, rules)
    if g.has("token_types.weight"):
        x = g.node("add_row", {"x": x, "weight": g.rows("token_types.weight", 0, 1)})
    x = norm(g, config, rules, x, "token_embd_norm")
    for i in range(config.n_layer):
        x = block(g, config, rules, i, x, f"kv.{i}")
    outputs = {"hidden": g.select_outputs(x)}
    if kind := _pooling(config):
        outputs["embedding"] = g.node("pool", {"x": x, "rows": "out_rows"}, kind=kind)
    return g.build(**outputs)


def _pooling(config: ModelConfig) -> str:
    """How the file makes one vector of a text; empty: it makes none."""
    number = config.int_value("pooling_type", 0, high=len(POOLING) - 1)
    if POOLING[number] in ("last", "rank"):
        raise UnsupportedModelError(
            f"{config.architecture}.pooling_type is {number} ({POOLING[number]}), which is not "
            "supported.",
            hint="Use a file that pools by mean (1) or cls (2).",
        )
    return "" if POOLING[number] == "none" else POOLING[number]
