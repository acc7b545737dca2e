"""Every operation, defined once: shape rule, numpy reference and the cases all backends pass."""

from __future__ import annotations

from . import attention, elementwise, matmul, norm, rope
from .opdef import AttrSpec, Case, OpDef

OPS: dict[str, OpDef] = {
    op.name: op for module in (matmul, norm, rope, attention, elementwise) for op in module.OPS
}

__all__ = ["OPS", "AttrSpec", "Case", "OpDef"]
