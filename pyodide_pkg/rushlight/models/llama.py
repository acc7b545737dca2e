"""llama: Llama 1-3, Mistral 7B, SmolLM2 and everything converted under that name.

Adjacent pairs are rotated ("norm"): the converter permutes q and k for it. Llama 3 files carry
``rope_freqs.weight``, which divides the frequencies. Where the file gives a sliding window
(Mistral 7B v0.1), every layer has it. Layers with a router choose among experts (Mixtral).
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, LayerRules, build_dense
from ._experts import ExpertRules


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a llama file."""
    window = config.sliding_window or 0
    rules = DenseRules(
        rope_layout="norm", layer=lambda i: LayerRules(window=window), experts=ExpertRules()
    )
    return build_dense(config, tensors, rules)
