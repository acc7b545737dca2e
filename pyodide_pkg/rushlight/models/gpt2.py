"""gpt2: GPT-2. Learned positions, LayerNorm, fused q|k|v, an MLP without a gate."""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, LayerRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a gpt2 file."""
    rules = DenseRules(
        norm="layer", activation="gelu_tanh", layer=lambda i: LayerRules(is_turned=False)
    )
    return build_dense(config, tensors, rules)
