"""gpt-oss: GPT-OSS. Attention sinks, a window on every other layer, experts with biases.

Shares are the softmax of the chosen experts' logits; the gated unit is clamped. The norm before
the experts is stored as ``post_attention_norm``.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, LayerRules, build_dense
from ._experts import ExpertRules

GATE_SLOPE, GATE_LIMIT = 1.702, 7.0


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a gpt-oss file."""
    window = config.sliding_window or 0

    def layer(i: int) -> LayerRules:
        return LayerRules(window=window if i % 2 == 0 else 0)

    experts = ExpertRules("softmax_chosen", normalize=False, clamped=(GATE_SLOPE, GATE_LIMIT))
    rules = DenseRules(layer=layer, ffn_norm="post_attention_norm", experts=experts)
    return build_dense(config, tensors, rules)
