"""phi3: Phi 3 and 4. q|k|v and gate|up are stored as one matrix each; longrope.

Where the file gives a sliding window, every layer has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, LayerRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a phi3 file."""
    window = config.sliding_window or 0
    return build_dense(config, tensors, DenseRules(layer=lambda i: LayerRules(window=window)))
