"""lfm2moe: LFM 2 with experts: lfm2, all but its first MLPs routed.

Scores are sigmoids; ``exp_probs_b`` counts for the choice alone, and the shares of the chosen
experts are made to sum to one.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UnsupportedModelError
from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ._dense import DenseRules, build_dense
from ._experts import ExpertRules

SIGMOID = 2


def build(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The graph of an lfm2moe file."""
    gating = config.int_value("expert_gating_func")
    if gating != SIGMOID:
        raise UnsupportedModelError(
            f"lfm2moe.expert_gating_func is {gating}; only {SIGMOID} (sigmoid) is known.",
            hint="Try another file of the model.",
        )
    rules = DenseRules(final_norm="token_embd_norm", experts=ExpertRules("sigmoid"))
    return build_dense(config, tensors, rules)
