"""command-r: Command R. Attention and MLP side by side behind one LayerNorm, tied.

``logit_scale`` multiplies the logits. Command R+ norms each head's q and k.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a command-r file."""
    rules = DenseRules(
        rope_layout="norm",
        norm="layer",
        is_parallel=True,
        logit_scale=config.float_value("logit_scale", 1.0, low=1e-6, high=1e6),
    )
    return build_dense(config, tensors, rules)
