"""gptneox: GPT-NeoX and Pythia. LayerNorm, partial rotation, fused q|k|v.

The converter sorts the rows of q|k|v, which are stored head by head at the source. Attention and
MLP stand side by side, each behind its own norm, unless the file says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a gptneox file."""
    is_parallel = config.bool_value("use_parallel_residual", True)
    rules = DenseRules(norm="layer", activation="gelu", is_parallel=is_parallel)
    return build_dense(config, tensors, rules)
