"""gemma: Gemma 1. Embedding scaled by the root of its width, a GELU gate.

Norm weights hold ``1 + w``: the converter has added the one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a gemma file."""
    rules = DenseRules(activation="gelu_tanh", embedding_scale=math.sqrt(config.n_embd))
    return build_dense(config, tensors, rules)
