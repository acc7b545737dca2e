"""minicpm: MiniCPM 1 and 4. Granite's multipliers, with defaults of its own.

A file without the keys means the constants of the published model: embedding 12, residual
1.4 / sqrt(n_layer), logits divided by n_embd / 256.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import build_dense
from .granite import granite_rules


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a minicpm file."""
    rules = granite_rules(config, 12.0, 1.4 / math.sqrt(config.n_layer), config.n_embd / 256)
    return build_dense(config, tensors, rules)
