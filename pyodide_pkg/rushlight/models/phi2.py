"""phi2: Phi 1 and 2. Attention and MLP side by side behind one LayerNorm, partial rotation."""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a phi2 file."""
    return build_dense(
        config, tensors, DenseRules(norm="layer", activation="gelu_tanh", is_parallel=True)
    )
