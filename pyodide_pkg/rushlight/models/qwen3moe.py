"""qwen3moe: Qwen 3 with experts: qwen3, its MLPs routed."""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense
from ._experts import ExpertRules


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a qwen3moe file."""
    return build_dense(config, tensors, DenseRules(experts=ExpertRules()))
