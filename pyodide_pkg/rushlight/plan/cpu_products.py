"""What the CPU lowerings of products share: the call, and activations as codes."""

from __future__ import annotations

from ..graph.ir import Node
from .cpu_builder import FLOAT_TYPES, CpuBuilder
from .plan import Binding


def product(
    b: CpuBuilder,
    x: str,
    weight: str,
    y: Binding,
    *,
    y_cols: int,
    y_start: int = 0,
    bias: str | None = None,
    residual: str | None = None,
) -> int:
    """``x @ weight.T`` into columns of ``y``; gives the column after the last."""
    place, tensor = b.matrix(weight)
    is_exact = b.options.is_exact or tensor.type.name in FLOAT_TYPES
    b.emit(
        "matmul",
        x=b.value(x),
        xq=None if is_exact else quantized(b, x),
        weight=place,
        bias=b.vector(bias) if bias else None,
        residual=b.value(residual) if residual else None,
        y=y,
        n_rows=tensor.n_rows,
        n_cols=tensor.n_cols,
        y_cols=y_cols,
        y_start=y_start,
        type=tensor.type.id,
        uses_n_out=b.uses_n_out(x),
    )
    return y_start + tensor.n_rows


def quantized(b: CpuBuilder, x: str) -> Binding:
    """The codes of a value, made once however many products read them."""
    key = ("quantize", x)
    if key not in b.made:
        n_cols, rows = b.n_cols(x), b.max_rows(x)
        sizes = b.table.constants
        rows += -rows % sizes["XQ_ROWS"]
        n_bytes = rows * n_cols // sizes["XQ_BLOCK"] * sizes["XQ_BLOCK_BYTES"]
        b.made[key] = b.temp(f"{x}.codes", n_bytes)
        b.emit("quantize", x=b.value(x), xq=b.made[key], n_cols=n_cols, uses_n_out=b.uses_n_out(x))
    return b.made[key]


def activation(b: CpuBuilder, node: Node) -> int:
    """The kernels' number for an activation."""
    return b.table.constants[str(b.attrs(node)["activation"]).upper()]
