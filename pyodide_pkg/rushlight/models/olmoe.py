"""olmoe: OLMoE. Norms of q and k over all heads; shares that do not sum to one."""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense
from ._experts import ExpertRules


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a olmoe file."""
    clamp = config.float_value("attention.clamp_kqv", 0.0, low=0.0)
    rules = DenseRules(clamp_qkv=clamp, experts=ExpertRules(normalize=False))
    return build_dense(config, tensors, rules)
