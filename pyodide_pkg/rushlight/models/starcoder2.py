"""starcoder2: StarCoder 2. LayerNorm and biases throughout, an MLP without a gate."""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, LayerRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a starcoder2 file."""
    window = config.sliding_window or 0
    rules = DenseRules(
        norm="layer", activation="gelu_tanh", layer=lambda i: LayerRules(window=window)
    )
    return build_dense(config, tensors, rules)
