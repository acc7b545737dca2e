"""stablelm: StableLM 2 and 3B. LayerNorm, partial rotation, a gated MLP.

The 12B model norms each head's q and k, and has no ffn_norm: then attention and MLP stand side
by side.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a stablelm file."""
    is_parallel = "blk.0.ffn_norm.weight" not in tensors
    return build_dense(config, tensors, DenseRules(norm="layer", is_parallel=is_parallel))
