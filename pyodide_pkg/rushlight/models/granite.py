"""granite: Granite 3 and 4 dense. A llama with four multipliers.

``logit_scale`` divides the logits. ``attention.head_count_kv`` may be an array.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a granite file."""
    return build_dense(config, tensors, granite_rules(config))


def granite_rules(
    config: ModelConfig,
    embedding_scale: float = 1.0,
    residual_scale: float = 1.0,
    logit_scale: float = 1.0,
) -> DenseRules:
    """The four multipliers of the file; the arguments stand for keys that it lacks."""
    limits = {"low": 1e-4, "high": 1e4}
    attention_scale = config.float_value("attention.scale", 0.0, low=0.0, high=1e4)
    return DenseRules(
        rope_layout="norm",
        embedding_scale=config.float_value("embedding_scale", embedding_scale, **limits),
        residual_scale=config.float_value("residual_scale", residual_scale, **limits),
        logit_scale=1.0 / config.float_value("logit_scale", logit_scale, **limits),
        attention_scale=attention_scale or None,
    )
