"""Every operation, defined once: shape rule, numpy reference and the cases all backends pass."""

from __future__ import annotations

from . import (
    attention,
    conv,
    elementwise,
    experts,
    matmul,
    norm,
    norm_matmul,
    pooling,
    rope,
    sampling,
)
from .opdef import AttrSpec, Case, OpDef

OPS: dict[str, OpDef] = {
    op.name: op
    for module in (
        *(matmul, norm, norm_matmul, rope, attention, conv, elementwise, pooling, experts),
        sampling,
    )
    for op in module.OPS
}

__all__ = ["OPS", "AttrSpec", "Case", "OpDef"]
