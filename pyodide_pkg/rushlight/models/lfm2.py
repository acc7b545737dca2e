"""lfm2: LFM 2. Gated short convolutions in most layers, attention with q/k norms in the others.

The last norm is called ``token_embd_norm``; ``attention.head_count_kv`` is 0 for a convolution.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of an lfm2 file."""
    return build_dense(config, tensors, DenseRules(final_norm="token_embd_norm"))
