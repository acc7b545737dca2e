"""gemma3: Gemma 3 text models.

Five of six layers attend to a sliding window and rotate with their own base; branches are
normalised before and after; the embedding is scaled by the root of its width. Norm weights hold
``1 + w``: the converter has added the one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense

GLOBAL_EVERY = 6
LOCAL_BASE = 10000.0


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a gemma3 file."""
    local_base = config.float_value("rope.freq_base_swa", LOCAL_BASE, low=1.0)

    def layer(i: int) -> Mapping[str, Any]:
        if (i + 1) % GLOBAL_EVERY == 0 or not config.sliding_window:
            return {}
        return {"window": config.sliding_window, "base": local_base, "freq_scale": 1.0}

    # The 27B model (62 layers) scales queries by its width per head instead of head_dim.
    scale = (config.n_embd / config.n_head) ** -0.5 if config.n_layer == 62 else None
    rules = DenseRules(
        rope_layout="neox",
        activation="gelu_tanh",
        embedding_scale=math.sqrt(config.n_embd),
        attention_scale=scale,
        layer=layer,
    )
    return build_dense(config, tensors, rules)
