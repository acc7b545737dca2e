"""smollm3: SmolLM3. A llama in which every fourth layer does not rotate."""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, LayerRules, build_dense

NO_ROPE_EVERY = 4


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a smollm3 file."""

    def layer(i: int) -> LayerRules:
        return LayerRules(is_turned=(i + 1) % NO_ROPE_EVERY != 0)

    return build_dense(config, tensors, DenseRules(rope_layout="norm", layer=layer))
