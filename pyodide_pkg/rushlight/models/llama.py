"""llama: Llama 1-3, Mistral 7B and everything converted under that name.

Adjacent pairs are rotated ("norm"): the converter permutes q and k for it. Llama 3 files carry
``rope_freqs.weight``, which divides the frequencies.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a llama file."""
    return build_dense(config, tensors, DenseRules(rope_layout="norm"))
