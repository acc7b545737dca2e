"""olmo: OLMo 1. LayerNorm without weights; q, k and v may be clamped."""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of an olmo file."""
    limit = config.float_value("attention.clamp_kqv", 0.0, low=0.0)
    return build_dense(
        config, tensors, DenseRules(rope_layout="norm", norm="layer", clamp_qkv=limit)
    )
