"""olmo2: OLMo 2 and 3. Norms only behind attention and MLP, and over whole rows of q and k.

With a sliding window (OLMo 3) three of four layers have it, and rope scaling holds for the
others alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, LayerRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of an olmo2 or olmo3 file."""
    window = config.sliding_window or 0
    is_local = config.window_layers(period=4)
    local = LayerRules(window=window, is_scaled=False)
    rules = DenseRules(has_pre_norms=False, layer=lambda i: local if is_local[i] else LayerRules())
    return build_dense(config, tensors, rules)
