"""qwen3: Qwen 3 dense. Each head's q and k are normalised before the rotation ("neox")."""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a qwen3 file."""
    return build_dense(config, tensors, DenseRules())
