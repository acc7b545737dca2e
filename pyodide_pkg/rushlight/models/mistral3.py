"""mistral3: Mistral 3 and Ministral 3. YaRN, and queries that grow with the position.

Beyond ``rope.scaling.original_context_length`` positions the queries are multiplied by
``1 + temperature_scale * ln(1 + floor(position / length))``.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of a mistral3 or ministral3 file."""
    slope = config.float_value(
        "attention.temperature_scale", config.float_value("attention.temp_scale", 0.0)
    )
    scaling = config.rope_scaling
    length = (scaling.n_ctx_orig if scaling else 0) or config.n_ctx_train
    length = config.int_value("attention.temp_floor_scale", length, low=1)
    length = config.int_value("attention.temperature_length", length, low=1)
    rules = DenseRules(rope_layout="norm", temperature=(slope, length) if slope else None)
    return build_dense(config, tensors, rules)
