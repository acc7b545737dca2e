"""nanbeige: Nanbeige 4.2. The stack of layers is run ``num_loops`` times with the same weights.

Each run has caches of its own; ``output_norm`` stands between two runs unless the file says
``skip_loop_final_norm``.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import MAX_LAYERS, ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a nanbeige file."""
    rules = DenseRules(
        rope_layout="norm",
        n_loops=config.int_value("num_loops", 1, low=1, high=MAX_LAYERS // config.n_layer),
        has_loop_norm=not config.bool_value("skip_loop_final_norm", False),
    )
    return build_dense(config, tensors, rules)
