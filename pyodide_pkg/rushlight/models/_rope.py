"""A file's rope scaling as attributes of the graph's rotations: worked out here, once."""

from __future__ import annotations

import math
from typing import Literal

from ..errors import UnsupportedModelError
from ..gguf.config import ModelConfig, RopeScaling
from ..graph.builder import GraphBuilder

Layout = Literal["norm", "neox"]
LONGROPE = ("longrope", "su")


def rope_factors(g: GraphBuilder, config: ModelConfig) -> str | None:
    """The tensor that divides the frequencies: Llama 3 scaling, or one of longrope's two.

    Longrope has factors for contexts up to the original one and others beyond it; as in
    llama.cpp the context that is loaded decides, so that all positions of a session agree.
    """
    scaling = config.rope_scaling
    if scaling is None or scaling.type not in LONGROPE:
        return g.optional("rope_freqs.weight")
    is_long = config.n_ctx > (scaling.n_ctx_orig or config.n_ctx_train)
    return g.weight(f"rope_factors_{'long' if is_long else 'short'}.weight")


def scaling_attrs(config: ModelConfig) -> dict[str, float]:
    """Attributes of ``rope`` beyond the base.

    Raises ``UnsupportedModelError`` for a kind of scaling that is not known.
    """
    scaling = config.rope_scaling
    if scaling is None:
        return {}
    if scaling.type == "linear":
        return {"freq_scale": 1.0 / scaling.factor}
    if scaling.type in LONGROPE:
        return {"attn_factor": scaling.attn_factor}
    if scaling.type == "yarn":
        return _yarn(config, scaling)
    raise UnsupportedModelError(
        f"{config.architecture}.rope.scaling.type is {scaling.type!r}, which is not supported.",
        hint="Use a file without it, or one with linear, yarn or longrope scaling.",
    )


def _yarn(config: ModelConfig, scaling: RopeScaling) -> dict[str, float]:
    """YaRN (Peng et al. 2023), with the constants that llama.cpp derives from the keys."""
    n_ctx = scaling.n_ctx_orig or config.n_ctx_train
    attrs = {"freq_scale": 1.0 / scaling.factor, "attn_factor": scaling.attn_factor}
    if scaling.yarn_ext_factor == 0.0:
        return attrs

    def pair_of(turns: float) -> float:
        """The pair that makes this many turns over the original context."""
        return (
            config.rope_dim
            * math.log(n_ctx / (turns * 2 * math.pi))
            / (2 * math.log(config.rope_base))
        )

    low = max(0.0, float(math.floor(pair_of(scaling.yarn_beta_fast))))
    high = min(config.rope_dim - 1.0, float(math.ceil(pair_of(scaling.yarn_beta_slow))))
    attention = _mscale(scaling.factor, 1.0)
    if scaling.yarn_log_multiplier:
        attention /= _mscale(scaling.factor, scaling.yarn_log_multiplier)
    return {
        "freq_scale": attrs["freq_scale"],
        "attn_factor": scaling.attn_factor * attention,
        "yarn_mix": scaling.yarn_ext_factor,
        "yarn_low": low,
        "yarn_high": high,
    }


def _mscale(factor: float, multiplier: float) -> float:
    return 1.0 if factor <= 1.0 else 0.1 * multiplier * math.log(factor) + 1.0
