"""Op name → the kernel calls of a mixture of experts on the CPU; see ``ops/experts.py``."""

from __future__ import annotations

from collections.abc import Callable

from ..graph.ir import Node
from ..ops.experts import MIN_TOTAL
from .cpu_builder import FLOAT_TYPES, CpuBuilder
from .cpu_products import activation, quantized
from .plan import Binding


def lower_route(b: CpuBuilder, node: Node) -> None:
    """Which experts each token takes, and the share of each."""
    attrs, logits, bias = b.attrs(node), node.inputs["logits"], node.inputs.get("bias")
    b.emit(
        "expert_route",
        logits=b.value(logits),
        bias=b.vector(bias) if bias else None,
        experts=b.value(node.outputs["experts"]),
        shares=b.value(node.outputs["shares"]),
        n_expert=b.n_cols(logits),
        n_used=attrs["n_used"],
        gating=b.table.constants[str(attrs["gating"]).upper()],
        normalize=int(bool(attrs["normalize"])),
        uses_n_out=b.uses_n_out(logits),
        scale=attrs["scale"],
        min_total=MIN_TOTAL,
    )


def expert_product(b: CpuBuilder, node: Node, part: str, y: Binding) -> None:
    """Each slot of ``x`` times the rows of its expert in ``weight{part}``."""
    x, experts = node.inputs["x"], node.inputs["experts"]
    place, tensor = b.matrix(node.inputs[f"weight{part}"])
    n_expert, n_rows, n_cols = tensor.shape
    is_exact = b.options.is_exact or tensor.type.name in FLOAT_TYPES
    bias = node.inputs.get(f"bias{part}")
    b.emit(
        "expert_matmul",
        x=b.value(x),
        xq=None if is_exact else quantized(b, x),
        experts=b.value(experts),
        weight=place,
        bias=b.vector(bias) if bias else None,
        y=y,
        n_expert=n_expert,
        n_used=b.n_cols(experts),
        n_rows=n_rows,
        n_cols=n_cols,
        type=tensor.type.id,
        has_own=b.n_cols(x) != n_cols,
        uses_n_out=b.uses_n_out(x),
    )


def lower_expert_matmul(b: CpuBuilder, node: Node) -> None:
    """Products with the chosen experts."""
    expert_product(b, node, "", b.value(node.outputs["y"]))


def lower_expert_glu_matmul(b: CpuBuilder, node: Node) -> None:
    """The first half of each slot's gated MLP."""
    y, attrs = node.outputs["y"], b.attrs(node)
    gate, up = (b.rows_temp(y, b.n_cols(y)) for _ in range(2))
    expert_product(b, node, "_gate", gate)
    expert_product(b, node, "_up", up)
    given = {"gate": gate, "up": up, "y": b.value(y), "n_cols": b.n_cols(y)}
    given["uses_n_out"] = b.uses_n_out(y)
    if attrs["activation"] == "clamped":
        b.emit("clamped_glu", **given, alpha=attrs["alpha"], limit=attrs["limit"])
    else:
        b.emit("glu", **given, activation=activation(b, node))


def lower_expert_matmul_sum(b: CpuBuilder, node: Node) -> None:
    """The second half, and the sum over a token's slots."""
    y, n_used = node.outputs["y"], b.n_cols(node.inputs["experts"])
    slots = b.rows_temp(y, b.n_cols(y) * n_used)
    expert_product(b, node, "", slots)
    emit_sum(b, node, slots)


def lower_expert_sum(b: CpuBuilder, node: Node) -> None:
    """The sum over a token's slots."""
    emit_sum(b, node, b.value(node.inputs["x"]))


def emit_sum(b: CpuBuilder, node: Node, slots: Binding) -> None:
    """``slots``, each times its share, summed; and a residual where given."""
    y, residual = node.outputs["y"], node.inputs.get("residual")
    b.emit(
        "expert_sum",
        x=slots,
        shares=b.value(node.inputs["shares"]),
        residual=b.value(residual) if residual else None,
        y=b.value(y),
        n_used=b.n_cols(node.inputs["shares"]),
        n_cols=b.n_cols(y),
        uses_n_out=b.uses_n_out(y),
    )


def lower_clamped_glu(b: CpuBuilder, node: Node) -> None:
    """GPT-OSS's gated unit."""
    y, attrs = node.outputs["y"], b.attrs(node)
    b.emit(
        "clamped_glu",
        gate=b.value(node.inputs["gate"]),
        up=b.value(node.inputs["up"]),
        y=b.value(y),
        n_cols=b.n_cols(y),
        uses_n_out=b.uses_n_out(y),
        alpha=attrs["alpha"],
        limit=attrs["limit"],
    )


def lower_sigmoid_gate(b: CpuBuilder, node: Node) -> None:
    """A shared expert's own gate."""
    y, x = node.outputs["y"], node.inputs["x"]
    b.emit(
        "sigmoid_gate",
        a=b.value(node.inputs["a"]),
        x=b.value(x),
        weight=b.vector(node.inputs["weight"]),
        y=b.value(y),
        n_cols=b.n_cols(y),
        x_cols=b.n_cols(x),
        uses_n_out=b.uses_n_out(y),
    )


EXPERT_LOWERINGS: dict[str, Callable[[CpuBuilder, Node], None]] = {
    "expert_route": lower_route,
    "expert_matmul": lower_expert_matmul,
    "expert_glu_matmul": lower_expert_glu_matmul,
    "expert_matmul_sum": lower_expert_matmul_sum,
    "expert_sum": lower_expert_sum,
    "clamped_glu": lower_clamped_glu,
    "sigmoid_gate": lower_sigmoid_gate,
}
