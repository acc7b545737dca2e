"""nemotron: Nemotron 4 and Minitron. LayerNorm, partial rotation, an MLP of squared ReLU.

Norm weights hold ``1 + w``: the converter has added the one.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a nemotron file."""
    return build_dense(config, tensors, DenseRules(norm="layer", activation="relu2"))
