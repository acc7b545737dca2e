"""exaone4: EXAONE 4. Norms behind attention and MLP, and of each head's q and k.

With a sliding window (32B) three of four layers have it, and only those rotate.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, LayerRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of an exaone4 file."""
    window = config.sliding_window or 0
    is_local = config.window_layers(period=4)

    def layer(i: int) -> LayerRules:
        if not window:
            return LayerRules()
        return LayerRules(window=window) if is_local[i] else LayerRules(is_turned=False)

    return build_dense(config, tensors, DenseRules(has_pre_norms=False, layer=layer))
