"""gemma2: Gemma 2. Soft caps on scores and logits, sandwich norms, a window on every other layer.

Norm weights hold ``1 + w``: the converter has added the one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, LayerRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a gemma2 file."""
    window = config.sliding_window or 0
    is_local = config.window_layers(period=2)
    # The 27B model (46 layers) scales queries by its width per head instead of head_dim.
    scale = (config.n_embd / config.n_head) ** -0.5 if config.n_layer == 46 else None
    rules = DenseRules(
        activation="gelu_tanh",
        embedding_scale=math.sqrt(config.n_embd),
        attention_scale=scale,
        attention_softcap=config.float_value("attn_logit_softcapping", 50.0, low=0.0),
        final_softcap=config.float_value("final_logit_softcapping", 30.0, low=0.0),
        layer=lambda i: LayerRules(window=window if is_local[i] else 0),
    )
    return build_dense(config, tensors, rules)
