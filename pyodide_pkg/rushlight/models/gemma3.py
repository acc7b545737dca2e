"""gemma3: Gemma 3 text models.

Five of six layers attend to a sliding window and rotate with their own base; branches are
normalised before and after; the embedding is scaled by the root of its width. Norm weights hold
``1 + w``: the converter has added the one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, LayerRules, build_dense

LOCAL_BASE = 10000.0


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a gemma3 file."""
    window = config.sliding_window or 0
    is_local = config.window_layers(period=6)
    local_base = config.float_value("rope.freq_base_swa", LOCAL_BASE, low=1.0)
    local = LayerRules(window=window, base=local_base, is_scaled=False)
    # The 27B model (62 layers) scales queries by its width per head instead of head_dim.
    scale = (config.n_embd / config.n_head) ** -0.5 if config.n_layer == 62 else None
    rules = DenseRules(
        activation="gelu_tanh",
        embedding_scale=math.sqrt(config.n_embd),
        attention_scale=scale,
        final_softcap=config.float_value("final_logit_softcapping", 0.0, low=0.0),
        layer=lambda i: local if is_local[i] else LayerRules(),
    )
    return build_dense(config, tensors, rules)
