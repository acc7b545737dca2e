"""baichuan: Baichuan 1 and 2, 7B. A llama; the converter splits and permutes its ``W_pack``.

The 13B models (40 layers) bias scores by distance instead of rotating, and are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UnsupportedModelError
from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense

ALIBI_LAYERS = 40


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a baichuan file."""
    if config.n_layer == ALIBI_LAYERS:
        raise UnsupportedModelError(
            "A baichuan model of 40 layers (13B) biases attention by distance, which is not "
            "supported.",
            hint="Use a 7B model of the family.",
        )
    return build_dense(config, tensors, DenseRules(rope_layout="norm"))
