"""qwen2: Qwen 2 and 2.5. Biases on q, k and v; halves are rotated ("neox")."""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a qwen2 file."""
    return build_dense(config, tensors, DenseRules())
