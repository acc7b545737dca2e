"""cohere2: Command R7B and Command A. Attention and MLP side by side behind one LayerNorm.

Three of four layers have a sliding window, and only those rotate. ``logit_scale`` multiplies.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, LayerRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a cohere2 file."""
    window = config.sliding_window or 0
    is_local = config.window_layers(period=4)

    def layer(i: int) -> LayerRules:
        return LayerRules(window=window) if is_local[i] else LayerRules(is_turned=False)

    rules = DenseRules(
        rope_layout="norm",
        norm="layer",
        is_parallel=True,
        logit_scale=config.float_value("logit_scale", 1.0, low=1e-6, high=1e6),
        layer=layer,
    )
    return build_dense(config, tensors, rules)
