"""granitemoe: Granite 3 with experts: granite, its MLPs routed, some with a shared expert."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import build_dense
from ._experts import ExpertRules
from .granite import granite_rules


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a granitemoe file."""
    rules = replace(granite_rules(config), experts=ExpertRules())
    return build_dense(config, tensors, rules)
