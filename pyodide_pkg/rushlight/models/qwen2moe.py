"""qwen2moe: Qwen 1.5 and 2 with experts, and shared experts behind a gate of their own.

Shares are the softmax over all experts; those of the chosen ones do not sum to one.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense
from ._experts import ExpertRules


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a qwen2moe file."""
    return build_dense(config, tensors, DenseRules(experts=ExpertRules(normalize=False)))
