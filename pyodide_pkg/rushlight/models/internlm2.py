"""internlm2: InternLM 2. A llama; the converter splits and permutes its fused ``wqkv``."""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a internlm2 file."""
    return build_dense(config, tensors, DenseRules(rope_layout="norm"))
